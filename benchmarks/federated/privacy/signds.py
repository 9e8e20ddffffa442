"""``python -m benchmarks fl-signds``: SignDS beside federated averaging and local noise."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

import fl
from benchmarks.benchmark import FEDERATED, Benchmark, Chart, Result
from benchmarks.federated.privacy.quick_noise import Local
from benchmarks.federated.privacy.sweeps import (
    DataDir,
    Full,
    Rounds,
    Seeds,
    Sweep,
    Workers,
    final,
    sized,
    spent,
    swept,
)
from benchmarks.federated.running import MODELS, Run, Runs, Setting, Size
from benchmarks.tables import Table
from extensions.options import Option
from extensions.rules import Whole, one_of
from fl.protocols import Mechanism, Round, Vector

USUAL = Size(model="mlp", rounds=40, epochs=1, batch_size=10, lr=0.1)
CLIENTS = 100
EPSILONS = {1.0: 0.03, 10.0: 0.1, 100.0: 0.3}
"""Of one update; and the bound of its norm that was chosen for local noise."""
SHARES = (0.01, 0.05, 0.25)
OPEN_SHARE = 0.05
"""That of what is not private."""
DIMENSIONS = (5, 20, 50)
LEARNING_RATES = (0.1, 0.3, 3.0)
SIZES = ("mlp", "2nn")
"""Models by which the number of dimensions grows."""
BOUNDS = {10.0: (0.03, 0.1), 100.0: (0.1, 0.3)}
"""Bounds of the norm for local noise by epsilon: that of EPSILONS, and a lower one."""


@dataclass(frozen=True, kw_only=True)
class Sign(Setting):
    """SignDS with its own names of parameters; `private` False: all dimensions from the top k."""

    sign_k: float = 0.01
    sign_eps: float = 100.0
    sign_global_lr: float = 1.0
    sign_dim_out: int = 0
    private: bool = True

    def signds(self) -> fl.SignDS:
        """Returns SignDS with these parameters."""
        return fl.SignDS(
            sign_k=self.sign_k,
            sign_eps=self.sign_eps,
            sign_global_lr=self.sign_global_lr,
            sign_dim_out=self.sign_dim_out,
        )

    def mechanism(self) -> Mechanism:
        """Returns a new mechanism."""
        return self.signds() if self.private else TopSigns(self.signds())


class TopSigns(Mechanism):
    """Sends as many dimensions as SignDS would, all of the top k: **nothing is private**."""

    exchange = "delta"
    equal_weights = True

    def __init__(self, like: fl.SignDS) -> None:
        self._like = like

    def client(self, update: Vector, round: Round, client: int) -> Vector:
        """Returns the sign, times the constant, in some of the top k dimensions."""
        law, draws = self._like.selection(update.size), np.random.default_rng()
        sign = draws.choice((-1.0, 1.0))
        top = np.argpartition(-sign * update, law.top - 1)[: law.top]
        result = np.zeros(update.size)
        result[draws.choice(top, law.selected, replace=False)] = sign * self._like.sign_global_lr
        return result


def parameters(model: str) -> int:
    """Returns how many values an update has."""
    return sum(values.numel() for values in MODELS[model]().parameters())


def _row(one: Setting, runs: Runs, size: Size) -> dict[str, Any]:
    """Returns a row of any mechanism."""
    found = runs[one]
    row: dict[str, Any] = {"mechanism": "FedAvg", "epsilon of one update": "infinite"}
    row |= dict.fromkeys(("C", "sign_k", "sign_global_lr", "selected", "of the top k, %"), "-")
    if isinstance(one, Local):
        row |= {"mechanism": "LocalDP", "epsilon of one update": one.epsilon, "C": one.clip}
    if isinstance(one, Sign):
        law = one.signds().selection(parameters(size.model))
        row |= {
            "mechanism": "SignDS" if one.private else "SignDS, not private",
            "epsilon of one update": one.sign_eps if one.private else "infinite",
            "sign_k": one.sign_k,
            "sign_global_lr": one.sign_global_lr,
            "selected": law.selected,
            "of the top k, %": 100 * law.mean / law.selected if one.private else 100.0,
        }
    rounds = max(_most_rounds(run) for run in found)
    costs = {"most rounds of a client": rounds, "epsilon of that client": spent(found)}
    return row | costs | final(found)


def _most_rounds(run: Run) -> int:
    return max(Counter(client for report in run.history for client in report.selected).values())


def epsilon_sweep(size: Size, clients: int) -> Sweep:
    """Returns epsilon of one update and the share of the top k, beside the other mechanisms."""
    signs = [Sign(clients=clients, sign_k=k, sign_eps=e) for k in SHARES for e in EPSILONS]
    open_sign = Sign(clients=clients, sign_k=OPEN_SHARE, private=False)
    local = [Local(clients=clients, epsilon=e, clip=c) for e, c in EPSILONS.items()]
    return _sweep([Setting(clients=clients), *signs, open_sign, *local], size)


def parameter_sweep(size: Size, clients: int) -> Sweep:
    """Returns how many dimensions are sent, and the constant, at epsilon 100."""
    dimensions = [Sign(clients=clients, sign_dim_out=h) for h in DIMENSIONS]
    rates = [Sign(clients=clients, sign_global_lr=lr) for lr in LEARNING_RATES]
    return _sweep([*dimensions, Sign(clients=clients), *rates], size)


def _sweep(settings: list[Setting], size: Size) -> Sweep:
    return Sweep(
        settings=settings,
        rows=lambda runs: [_row(one, runs, size) for one in settings],
    )


def size_sweep(size: Size, clients: int) -> Sweep:
    """Returns SignDS and local noise on a model of so many dimensions."""
    signs = [Sign(clients=clients, sign_eps=epsilon) for epsilon in BOUNDS]
    local = [Local(clients=clients, epsilon=e, clip=c) for e, some in BOUNDS.items() for c in some]
    whole = _sweep([Setting(clients=clients), *signs, *local], size)
    number = {"dimensions": parameters(size.model)}
    return replace(whole, rows=lambda runs: [number | row for row in whole.rows(runs)])


SWEEPS: dict[str, Callable[[Size, int], Sweep]] = {
    "epsilon": epsilon_sweep,
    "parameters": parameter_sweep,
}
SIZE = "size"
PARTS = (*SWEEPS, SIZE)


@Benchmark(
    FEDERATED,
    "fl-signds",
    "SignDS",
    minutes=25,
    needs="MNIST in PEA_DATA",
    results=[
        Result(
            "fl-signds-epsilon.*",
            "Beside LocalDP and federated averaging, by epsilon of one update.",
            options="--part epsilon",
            chart=Chart(
                of="fl-signds-epsilon",
                labels=("mechanism", "epsilon of one update", "sign_k"),
                values=("accuracy, %",),
            ),
        ),
        Result(
            "fl-signds-parameters.*",
            "By the number of dimensions sent and by the constant sent for them.",
            options="--part parameters",
        ),
        Result(
            "fl-signds-size-.*",
            "Beside noise of each client, by the size of the model.",
            options="--part size",
        ),
    ],
)
def main(
    data_dir: DataDir = None,
    part: Annotated[
        list[str] | None,
        Option(help=f"One of {', '.join(PARTS)}; once for each; all by default."),
        one_of(PARTS),
    ] = None,
    clients: Annotated[int, Option(help="A tenth of them are in a round."), Whole(1)] = CLIENTS,
    rounds: Rounds = None,
    full: Full = False,
    seeds: Seeds = 3,
    workers: Workers = 2,
) -> Iterator[Table]:
    """SignDS on MNIST by epsilon, parameters and size, beside FedAvg and LocalDP."""
    picked = part or PARTS
    size, suffix = sized(USUAL, full, rounds)
    if clients != CLIENTS:
        suffix += f"-{clients}-clients"
    sweeps = {
        f"fl-signds-{name}{suffix}": SWEEPS[name](size, clients)
        for name in picked
        if name in SWEEPS
    }
    if sweeps:
        yield from swept(sweeps, size, data_dir=data_dir, seeds=seeds, workers=workers)
    for name in SIZES if SIZE in picked else ():
        of_model = replace(size, model=name)
        sweep = {f"fl-signds-size-{name}{suffix}": size_sweep(of_model, clients)}
        yield from swept(sweep, of_model, data_dir=data_dir, seeds=seeds, workers=workers)
