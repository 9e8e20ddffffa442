"""A third optimizer, in one file: half a step by the signs of this noisy sum, and half by the last.

Nothing of it is in the packages: they find it in `RULES`.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from extensions.layers.spec import ModelSpec
from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import OwnRecords, check_records
from extensions.protocols.dpsgd import Sums, paired, parts_of
from extensions.protocols.updates import RULES, Kept, UpdateRule
from extensions.ring.fixed_point import Integers, encode
from extensions.ring.interface import Ring
from extensions.runs.config import TrainConfig
from tests.helpers.trajectories import trajectory

NAME, LAST = "signs", "last_signs"
LR, STEPS, FEATURES, CLASSES, RECORDS, F = 0.25, 4, 3, 2, 20, 20


class Signs(UpdateRule):
    """Steps by half the learning rate in the direction of each of the last two sums' signs."""

    @property
    def largest_pull(self) -> float:
        return self.plan.learning_rate * math.sqrt(self.plan.parameters)

    @property
    def largest_noise(self) -> float:
        return 0.0

    @classmethod
    def names_of(cls, config: Any) -> Sequence[str]:
        return [LAST]

    def public(self, number: int, rate: float = 1.0, last: int | None = None) -> list[int]:
        return [round(math.ldexp(rate * self.plan.learning_rate / 2, self.plan.frac_bits))]

    def after(self, ring: Ring, sums: Sums, kept: Kept, public: Sequence[Any]) -> tuple[Sums, Kept]:
        (half,) = public
        below = [ring.less_than(part, [0])[0] for part in parts_of(sums)]
        signs = [ring.add_public(one * -2, 1) for one in below]
        before = [kept[LAST][i][j] for i, j in self.plan.parts]
        moved = [(now + was) * half for now, was in zip(signs, before, strict=True)]
        return paired(moved, self.plan), {LAST: paired(signs, self.plan)}


@contextmanager
def registered() -> Iterator[None]:
    """In the block there is an optimizer of that name."""
    RULES[NAME] = Signs
    try:
        yield
    finally:
        del RULES[NAME]


def config_of(parties: int, **others: Any) -> TrainConfig:
    """Returns the settings of a run."""
    common = {"noise_multiplier": 2.0, "delta": 1e-5, "sample_rate": 0.6, "lr": LR, "steps": STEPS}
    own = {"classes": CLASSES, "parties": parties, "frac_bits": F, "optimizer": NAME}
    given: dict[str, Any] = {**common, **own, "lr_schedule": "linear", **others}
    return TrainConfig(**given)


def rows(rank: int) -> tuple[Any, Any]:
    """Returns an owner's features and labels."""
    draws = np.random.default_rng(rank)
    x = draws.standard_normal((RECORDS, FEATURES))
    return x / np.linalg.norm(x, axis=1, keepdims=True), draws.integers(0, CLASSES, RECORDS)


def records_of(rank: int) -> OwnRecords:
    """Returns its records."""
    return check_records(*rows(rank), frac_bits=F, classes=CLASSES, max_feature_norm=1.0)


def run(host: Any, config: TrainConfig) -> list[list[Integers]]:
    """Returns the model after each step of a run on a host, in units of an ulp."""
    pairs = ModelSpec.parse(config.model, FEATURES, CLASSES).initial_parameters(None)
    start = [encode(part, F) for pair in pairs for part in pair]
    return trajectory(host, config, [*map(records_of, host.ranks)], start, range(1, STEPS + 1))


def run_on_crypten(context: Any, *, seed: int) -> list[list[Integers]]:
    """Returns the same of CrypTen's parties, from inside one."""
    from crypten_ext.registry import enable
    from crypten_ext.run.host import CrypTenHost

    import crypten

    enable()
    with registered(), crypten.cfg.temp_override({"mpc.provider": "INSECURE_TFP"}):
        host = CrypTenHost(F, InsecureSeededSource(seed))
        return run(host, config_of(host.ring.parties))


def run_on_aby3(seed: int) -> list[list[Any]]:
    """Returns the same of ABY3's servers."""
    from tests.helpers.tfe_tasks.session import PROTOCOL
    from tfe_ext.run.host import ABY3Host

    with registered():
        models = run(ABY3Host(PROTOCOL, InsecureSeededSource(seed)), config_of(3, backend="tfe"))
    return [[part.tolist() for part in model] for model in models]


def script(context: Any, **arguments: Any) -> list[Any]:
    """Returns the model before the first step, and after each, of a script of CrypTen."""
    from crypten_ext import optim
    from tests.helpers.party_tasks.protocols import train

    class DPSigns(optim.DPSGD):
        """Another optimizer of scripts."""

        def __init__(self, model: Any, **options: Any) -> None:
            self._further = {"optimizer": NAME}
            super().__init__(model, **options)

    optim.DPSigns = DPSigns  # type: ignore[attr-defined]
    try:
        with registered():
            steps = train(context, optimizer="DPSigns", **arguments)["steps"]
    finally:
        del optim.DPSigns  # type: ignore[attr-defined]
    return [steps[0]["before"], *(step["after"] for step in steps)]


def keras() -> list[list[Any]]:
    """Returns the model before the first step, and after each, of a model of Keras."""
    from tests.helpers.tfe_tasks.keras import after_steps, model_of, owned
    from tfe_ext.keras import DPSGD

    class DPSigns(DPSGD):
        """Another optimizer of Keras."""

        _beside = {"optimizer": NAME}  # noqa: RUF012

    with registered():
        model = model_of([FEATURES, CLASSES], optimizer=DPSigns(LR, 1.0, 2.0, 0.6))
        found = [model.get_weights()]
        note = after_steps(lambda _: found.append(model.get_weights()))
        parts = [dict(zip("xy", rows(rank), strict=True)) for rank in range(3)]
        model.fit(*owned(parts), steps=STEPS, verbose=False, callbacks=[note])
    return [[part.tolist() for part in one] for one in found]
