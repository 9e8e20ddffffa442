"""What Pencil's model has learnt after so many steps, beside the same training in the clear."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.accuracy.records import folder_of
from benchmarks.accuracy.settings import tuned
from benchmarks.tables import Table
from crypten_ext.pencil.account import Account
from crypten_ext.pencil.commands import Cost, Learning, Rows, model_of
from crypten_ext.pencil.local import MODULE, typed
from crypten_ext.pencil.model import Model, accuracy
from crypten_ext.pencil.terms import Terms
from crypten_ext.pencil.turn import NoNoise
from extensions.data.datasets import Split
from extensions.data.origin import FeatureExtraction, Origin
from extensions.errors import PeaError
from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import draw_rows
from extensions.protocols.pencil.step import encoded_layer, noisy_sums
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers, Reals, decode
from extensions.two_party import products

OWNERS = 2
RATES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Learning rates of the training without privacy, of which the best one is told."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A training, what it may cost each owner's records, and the bound of a record's features.

    Features are named as in `pea pencil train`, but "tflite" is the embedder of CIFAR-10.
    """

    learning: Learning
    cost: Cost
    features: str = "raw"
    norm: float = 1.0


_DIGITS = Cost(epsilon=8.0, delta=1e-4, most_steps=40, sample_rate=0.1)
_FEW = Cost(epsilon=2.0, delta=1e-6, most_steps=20, sample_rate=0.005)
CASES: Mapping[str, Sequence[Case]] = {
    "digits": [
        Case(learning=Learning(model="logistic", lr=16.0, steps=10, rounds=4), cost=_DIGITS),
        Case(learning=Learning(model="mlp:32", lr=8.0, steps=10, rounds=4), cost=_DIGITS),
    ],
    "mnist": [
        Case(
            learning=Learning(
                model="mlp:128,128",
                loss="softmax",
                lr=1.0,
                max_grad_norm=4.0,
                steps=5,
                rounds=2,
            ),
            cost=_FEW,
            norm=4.0,
        ),
    ],
    "cifar10": [
        Case(
            learning=Learning(model="logistic", lr=16.0, steps=10, rounds=2),
            cost=replace(_FEW, sample_rate=0.04),
            features="tflite",
        ),
    ],
}


class _OfTheDataOwner(SystemSource):
    """Noise that one of two parties draws, and the other one none."""

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
        if party != products.DATA:
            return NoNoise().gaussian(party, scale, shape)
        return super().gaussian(party, scale, shape)


def in_processes(case: Case, data: str, features: str) -> list[float]:
    """Returns the accuracy after each round of `pea pencil train`."""
    command = [sys.executable, "-m", MODULE, "train", "--data", data, "--owners", str(OWNERS)]
    command += ["--features", features, "--max-feature-norm", str(case.norm)]
    command += [*typed(case.learning), *typed(case.cost)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise PeaError(f"`pea pencil train` failed: {done.stderr[-2000:]}")
    each = [float(found) for found in re.findall(r"accuracy ([.\d]+)", done.stdout)]
    return each[OWNERS - 1 :: OWNERS]


def in_the_clear(case: Case, parts: Sequence[Split], classes: int) -> list[float]:
    """Returns the same of the same steps, sampling and noise on values that nobody hides."""
    learning, cost, source = case.learning, case.cost, _OfTheDataOwner()
    width = parts[0].train_x.shape[1]
    rows = Rows(features=width, classes=classes, max_feature_norm=case.norm)
    model = model_of(learning, rows)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        accounts = [
            Account(Path(folder) / f"{owner}.ledger", cost.budget, len(part.train_x))
            for owner, part in enumerate(parts)
        ]
        for _ in range(learning.rounds):
            for account, part in zip(accounts, parts, strict=True):
                for sums in _sums(model, account, part, case, source):
                    model.learn(sums, cost.sample_rate * account.records)
            found.append(accuracy(model.terms, model.layers, parts[0].test_x, parts[0].test_y))
    return found


def _sums(
    model: Model, account: Account, part: Split, case: Case, source: _OfTheDataOwner
) -> Iterator[list[Reals]]:
    """Yields the noised sums of the steps of one turn."""
    terms = model.terms
    plan = terms.plan(account.offer(terms.in_pieces(account.capacity)))
    ring = ClearRing(terms.frac_bits, parties=2)
    own = terms.encoded(part.train_x, part.train_y)
    rate = case.cost.sample_rate
    for _ in range(case.learning.steps):
        rows = draw_rows(own, party=products.DATA, sample_rate=rate, rows=plan.rows, source=source)
        account.charge()
        parameters = [encoded_layer(*layer, terms.frac_bits) for layer in model.layers]
        parts = noisy_sums(ring, terms.network, plan, parameters, [rows], source)
        yield [decode(each, terms.frac_bits + plan.factor_bits) for each in parts]


def not_private(case: Case, parts: Sequence[Split], classes: int) -> list[float]:
    """Returns the same of plain SGD in floats on as many records, at the best of `RATES`."""
    return max((_plain(case, parts, classes, rate) for rate in RATES), key=lambda one: one[-1])


def _sigmoid(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    targets = torch.nn.functional.one_hot(y, logits.shape[1]).to(logits.dtype)
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum")


def _softmax(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(logits, y, reduction="sum")


_LOSSES = {"sigmoid": _sigmoid, "softmax": _softmax}


def _plain(case: Case, parts: Sequence[Split], classes: int, rate: float) -> list[float]:
    learning = case.learning
    terms = Terms(model=learning.model, features=parts[0].train_x.shape[1], classes=classes)
    layers: list[torch.nn.Module] = []
    for weight, _ in terms.spec.initial_parameters():
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        linear.weight.data = torch.from_numpy(weight)
        linear.bias.data.zero_()
        layers += [linear, torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=learning.momentum)
    tried, right = torch.from_numpy(parts[0].test_x), torch.from_numpy(parts[0].test_y)
    draws, found = np.random.default_rng(), []
    for _ in range(learning.rounds):
        for part in parts:
            x, y = torch.from_numpy(part.train_x), torch.from_numpy(part.train_y).long()
            for _ in range(learning.steps):
                drawn = np.flatnonzero(draws.random(len(x)) < case.cost.sample_rate)
                loss = _LOSSES[learning.loss](model(x[drawn]), y[drawn])
                optimizer.zero_grad()
                (loss / len(drawn)).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        with torch.no_grad():
            found.append(float((model(tried).argmax(1) == right).double().mean()))
    return found


def accuracy_table(*, data: str, repeats: int) -> Table:
    """Measures all cases of a set of records; tells means of repeated trainings in the clear."""
    source = Origin(data=data).read(OWNERS)
    rows = []
    for case in CASES[data]:
        features = case.features
        if features == "tflite":
            features = tuned(data, folder_of(data, None, download=False)).features
        extraction = FeatureExtraction(features=features, max_feature_norm=case.norm)
        parts = extraction.extract(source, lambda *_: None)
        secure = in_processes(case, data, features)
        clear, plain = (
            np.mean([train(case, parts, source[0].classes) for _ in range(repeats)], axis=0)
            for train in (in_the_clear, not_private)
        )
        for number, each in enumerate(zip(secure, clear, plain, strict=True), 1):
            rows.append(
                {
                    "model": case.learning.model,
                    "features": case.features,
                    "round": number,
                    "steps": number * OWNERS * case.learning.steps,
                    "Pencil, %": 100 * each[0],
                    "in the clear, private, %": 100 * each[1],
                    "in the clear, not private, %": 100 * each[2],
                }
            )
    cost = CASES[data][0].cost
    return Table(
        f"pencil-accuracy-{data}",
        rows,
        data=data,
        owners=OWNERS,
        repeats=repeats,
        epsilon=cost.epsilon,
        delta=cost.delta,
        sample_rate=cost.sample_rate,
        seed="the operating system's for keys, masks, noise and sampling",
        network="loopback, TLS, a process for each owner",
        runs="one of Pencil; means of the others, without privacy at the best of "
        f"learning rates {RATES}",
    )
