"""``python -m benchmarks fl-dp``: noise and clipping of clients against accuracy, exact epsilon."""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

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
from benchmarks.federated.running import DELTA, FRACTION, Run, Runs, Setting, Size
from benchmarks.tables import Table
from extensions.options import Option
from extensions.privacy.accounting import epsilon
from extensions.rules import Whole, one_of
from fl.privacy.local_dp import analytic_noise
from fl.protocols import Mechanism


def classical_noise(epsilon: float) -> float:
    """Returns sigma = sqrt(2 ln(1.25 / DELTA)) / epsilon, which is proved for epsilon < 1.

    It is its own inverse: for a sigma it returns the epsilon that is claimed.

    Source:
        Dwork and Roth, 2014, Theorem A.1.
    """
    return math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon


USUAL = Size(model="mlp", rounds=20, epochs=3, batch_size=20, lr=0.3)
CLIENTS = (1000, 100)
SIGMAS = (0.5, 1.0, 2.0, 4.0, 8.0)
CLIP = 1.0
"""Bound of an update's norm where noise varies."""
SIGMA = 4.0
"""Noise multiplier where the bound varies."""
CLIPS = (0.25, 0.5, 1.0, 2.0, 4.0)
STARTS = (0.25, 4.0)
"""Bounds from which adaptive clipping starts."""
LOCAL = {10.0: 0.1, 100.0: 0.3, 1000.0: 1.0}
"""Epsilon of one update, and the bound that was chosen for it."""
CROWDS = (100, 1000, 10_000)
"""Populations of which a tenth, up to a thousand clients, is in a round."""
CROWD_EPSILON = 10.0


@dataclass(frozen=True, kw_only=True)
class Central(Setting):
    """Noise of the server on the sum of clipped updates, Poisson rounds.

    Attributes:
        sigma: standard deviation of the noise over the bound.
        clip: the bound, or that of the first round.
        adaptive: whether it follows the median of norms.
    """

    sigma: float
    clip: float
    adaptive: bool = False

    def mechanism(self) -> Mechanism:
        """Returns a new mechanism."""
        adaptive = fl.AdaptiveClipping() if self.adaptive else None
        return fl.CentralDP(noise_multiplier=self.sigma, clip=self.clip, adaptive=adaptive)


def sigma_sweep(clients: Sequence[int]) -> Sweep:
    """Returns noise multipliers at one bound, for populations of different sizes."""

    def of(number: int, sigma: float) -> Setting:
        return Central(clients=number, sigma=sigma, clip=CLIP) if sigma else Setting(clients=number)

    points = [(number, sigma) for number in clients for sigma in (0.0, *SIGMAS)]

    def rows(runs: Runs) -> list[dict[str, Any]]:
        return [
            {"clients": number, "sigma": sigma, "C": CLIP if sigma else "-"}
            | _costs(runs[of(number, sigma)], sigma)
            | final(runs[of(number, sigma)])
            for number, sigma in points
        ]

    return Sweep(settings=[of(*point) for point in points], rows=rows)


def _costs(runs: Sequence[Run], sigma: float) -> dict[str, Any]:
    """Returns the columns on epsilon: of the run, and of one round by three ways to count."""
    one_round = {
        "classical": classical_noise(sigma) if sigma else "-",
        "analytic": _of_one(sigma, 1.0) if sigma else "-",
        "sampled": _of_one(sigma, FRACTION) if sigma else "-",
    }
    return {
        "epsilon": spent(runs),
        "epsilon by RDP": spent(runs, "rdp"),
        **{f"one round, {name}": value for name, value in one_round.items()},
    }


def _of_one(sigma: float, rate: float) -> float:
    return epsilon(noise_multiplier=sigma, sample_rate=rate, steps=1, delta=DELTA)


def clip_sweep(clients: Sequence[int]) -> Sweep:
    """Returns bounds at one noise multiplier, fixed and adaptive, for the largest population.

    Raises:
        ArgumentError: too few clients for the private count of adaptive clipping.
    """
    fl.AdaptiveClipping().noise_of_sum(SIGMA, FRACTION * max(clients))
    of = partial(Central, clients=max(clients), sigma=SIGMA)
    settings = [of(clip=clip) for clip in CLIPS]
    settings += [of(clip=clip, adaptive=True) for clip in STARTS]

    def rows(runs: Runs) -> list[dict[str, Any]]:
        return [
            {
                "clients": one.clients,
                "sigma": one.sigma,
                "clipping": "adaptive" if one.adaptive else "fixed",
                "C at first": one.clip,
                "C at last": _last_clip(runs[one]),
                "epsilon": spent(runs[one]),
                **final(runs[one]),
            }
            for one in settings
        ]

    return Sweep(settings=settings, rows=rows)


def _last_clip(runs: Sequence[Run]) -> float:
    mechanisms = [run.mechanism for run in runs]
    return statistics.mean(one.clip for one in mechanisms if isinstance(one, fl.CentralDP))


def local_sweep(clients: Sequence[int]) -> Sweep:
    """Returns noise of clients beside that of the server, for the smallest population."""
    settings = [Local(clients=min(clients), epsilon=e, clip=c) for e, c in LOCAL.items()]
    trusted = [Central(clients=min(clients), sigma=sigma, clip=CLIP) for sigma in SIGMAS]

    def rows(runs: Runs) -> list[dict[str, Any]]:
        return [
            {
                "clients": one.clients,
                "epsilon of one update": one.epsilon,
                "C": one.clip,
                "sigma": 2 * analytic_noise(one.epsilon, DELTA),
                "epsilon of a client": spent(runs[one]),
                **final(runs[one]),
            }
            for one in settings
        ]

    return Sweep(settings=[*settings, *trusted], rows=rows)


def crowd_sweep(clients: Sequence[int]) -> Sweep:
    """Returns noise of clients at one epsilon by how many of them are in a round."""
    numbers = sorted({*clients, *CROWDS}) if tuple(clients) == CLIENTS else sorted(clients)
    points = [(number, epsilon) for number in numbers for epsilon in (math.inf, CROWD_EPSILON)]

    def of(number: int, epsilon: float) -> Setting:
        if math.isinf(epsilon):
            return Setting(clients=number)
        return Local(clients=number, epsilon=epsilon, clip=LOCAL[epsilon])

    def rows(runs: Runs) -> list[dict[str, Any]]:
        return [
            {
                "clients": number,
                "in a round": round(FRACTION * number),
                "epsilon of one update": "infinite" if math.isinf(epsilon) else epsilon,
                "C": "-" if math.isinf(epsilon) else LOCAL[epsilon],
                "epsilon of a client": spent(runs[of(number, epsilon)]),
                **final(runs[of(number, epsilon)]),
            }
            for number, epsilon in points
        ]

    return Sweep(settings=[of(*point) for point in points], rows=rows)


SWEEPS: dict[str, Callable[[Sequence[int]], Sweep]] = {
    "sigma": sigma_sweep,
    "clip": clip_sweep,
    "local": local_sweep,
    "crowd": crowd_sweep,
}


@Benchmark(
    FEDERATED,
    "fl-dp",
    "Federated differential privacy",
    minutes=11,
    needs="MNIST in PEA_DATA",
    results=[
        Result(
            "fl-dp-sigma.*",
            "A client as a whole is protected, at delta = 1e-3; a tenth of them is in a round. "
            "**The number of clients decides**, since the noise of a sum hides one of them among "
            "all: at epsilon 2.1 a thousand lose 1.3 points, a hundred 33.",
            options="--part sigma",
            columns="clients | sigma | epsilon | one round, classical | one round, analytic | "
            "accuracy, % | standard deviation",
            chart=Chart(
                of="fl-dp-sigma",
                labels=("clients",),
                values=("accuracy, %",),
                x="sigma",
            ),
        ),
        Result(
            "fl-dp-clip.*",
            "A small bound cuts updates short, a large one brings more noise. Adaptive clipping "
            "stays below the best fixed bound in 20 rounds.",
            options="--part clip",
            columns="clipping | C at first | C at last | accuracy, % | standard deviation",
        ),
        Result(
            "fl-dp-local.*",
            "Every client adds all the noise itself: **it takes an epsilon of 100 an "
            "update** to come near what the server's noise gives at 10 for the whole run.",
            options="--part local",
            columns="clients | epsilon of one update | C | epsilon of a client | accuracy, %",
        ),
        Result(
            "fl-dp-crowd.*",
            "The same by the number of clients.",
            options="--part crowd",
            columns="in a round | epsilon of one update | accuracy, % | standard deviation",
        ),
    ],
)
def main(
    data_dir: DataDir = None,
    part: Annotated[
        list[str] | None,
        Option(help=f"One of {', '.join(SWEEPS)}; once for each; all by default."),
        one_of(SWEEPS),
    ] = None,
    clients: Annotated[
        list[int] | None, Option(help="Populations; by default 1000 and 100."), Whole(1)
    ] = None,
    rounds: Rounds = None,
    full: Full = False,
    seeds: Seeds = 3,
    workers: Workers = 2,
) -> Iterator[Table]:
    """Federated DP on MNIST: noise, bound and accuracy, with exact epsilon at delta = 1e-3."""
    size, suffix = sized(USUAL, full, rounds)
    populations = tuple(clients or CLIENTS)
    if populations != CLIENTS:
        suffix += "-" + "-".join(map(str, populations)) + "-clients"
    sweeps = {f"fl-dp-{name}{suffix}": SWEEPS[name](populations) for name in part or SWEEPS}
    yield from swept(sweeps, size, data_dir=data_dir, seeds=seeds, workers=workers)
