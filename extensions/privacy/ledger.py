"""The privacy ledger: what was computed on the records, what it costs, what was opened."""

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from extensions.errors import ArgumentError
from extensions.printing import table
from extensions.privacy.composition import ACCOUNTANTS, FILTER, total_epsilon
from extensions.privacy.mechanisms import NEIGHBOURS, Neighbours, SubsampledGaussian, check_real
from extensions.rules import one_of

_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class GaussianPhase(SubsampledGaussian):
    """A named run of Poisson-subsampled Gaussian steps."""

    name: str

    def __post_init__(self) -> None:
        _check_name(self.name)
        super().__post_init__()

    def like(self, other: "GaussianPhase") -> bool:
        """Whether both bear one name and repeat one mechanism."""
        return (self.name, self.noise_multiplier, self.sample_rate) == (
            other.name,
            other.noise_multiplier,
            other.sample_rate,
        )


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A named release that is (epsilon, delta)-differentially private; delta may be 0."""

    name: str
    epsilon: float
    delta: float
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        _check_name(self.name)
        one_of(NEIGHBOURS).check("neighbours", self.neighbours)
        object.__setattr__(self, "epsilon", check_real("epsilon", self.epsilon))
        pure = self.delta == 0 and not isinstance(self.delta, bool)
        object.__setattr__(self, "delta", 0.0 if pure else check_real("delta", self.delta))

    def cost(self, neighbours: Neighbours) -> tuple[float, float]:
        """Returns epsilon and delta of the release for such neighbours.

        One record becomes another by way of the null record: twice epsilon, and 1 + exp(epsilon)
        times delta. What is private for replaced records need not be for a null record.

        Raises:
            ArgumentError: the release is charged for replaced records alone.
        """
        if neighbours == self.neighbours:
            return self.epsilon, self.delta
        if neighbours == "add-remove":
            raise ArgumentError(
                "neighbours",
                neighbours,
                f"'replace', because {self.name!r} was charged for it",
                "Charge for 'add-remove' instead, which counts for both.",
            )
        return 2 * self.epsilon, self.delta * (1 + math.exp(min(self.epsilon, 700.0)))


Phase = GaussianPhase | Charge

_KINDS: dict[str, type[GaussianPhase] | type[Charge]] = {
    "gaussian": GaussianPhase,
    "charge": Charge,
}

GO_ON = "add this one's ledger to its: other.ledger.add(optimizer.ledger)."
"""What whoever must make another optimizer of a model is told: its epsilon is of its own steps."""


class Ledger:
    """Adds up the privacy cost of everything that touched the training records.

    Guarantees:
        All recorded and charged phases together are (get_epsilon(delta), delta)-differentially
        private, in whatever order, for the neighbours that are asked for (`Neighbours`). What a
        phase computes may depend on the results of earlier ones; its noise, rate and number of
        steps, and a charge's epsilon and delta, must not.

    Edge cases:
        An empty ledger costs 0. A phase without noise costs infinity. Opened values that are only
        disclosed cost nothing: the caller vouches that they do not depend on training records.

    Examples:
        >>> from extensions.privacy.accounting import Ledger
        >>> ledger = Ledger()
        >>> ledger.record("training", noise_multiplier=1.0, sample_rate=0.01, steps=1000)
        >>> round(ledger.get_epsilon(1e-5), 2)
        1.83
    """

    def __init__(self) -> None:
        self._phases: list[Phase] = []
        self._opened: list[str] = []

    def __repr__(self) -> str:
        return table("Ledger", [asdict(phase) for phase in self._phases])

    def record(
        self,
        name: str,
        *,
        noise_multiplier: float,
        sample_rate: float,
        steps: int,
        overflow_probability: float = 0.0,
    ) -> None:
        """Adds subsampled Gaussian steps; like the phase before, they are merged into it.

        Args:
            noise_multiplier: standard deviation of the noise over the clipping norm, after the
                noise that a curious party can subtract has been taken off.
            overflow_probability: that of these steps together; merged phases add theirs up.

        Raises:
            ArgumentError: an argument lies outside its range; the ledger is then unchanged.
        """
        phase = GaussianPhase(
            name=name,
            noise_multiplier=noise_multiplier,
            sample_rate=sample_rate,
            steps=steps,
            overflow_probability=overflow_probability,
        )
        last = self._phases[-1] if self._phases else None
        if isinstance(last, GaussianPhase) and last.like(phase):
            overflow = last.overflow_probability + phase.overflow_probability
            self._phases[-1] = replace(
                phase,
                steps=last.steps + phase.steps,
                overflow_probability=min(overflow, math.nextafter(1.0, 0.0)),
            )
            return
        self._phases.append(phase)

    def charge(
        self, name: str, *, epsilon: float, delta: float, neighbours: Neighbours = "add-remove"
    ) -> None:
        """Adds an opened release that is (epsilon, delta)-differentially private in itself."""
        entry = Charge(name=name, epsilon=epsilon, delta=delta, neighbours=neighbours)
        self._phases.append(entry)
        self._opened.append(name)

    def add(self, other: "Ledger") -> None:
        """Adds the phases of another ledger, and what was opened."""
        self._phases += other._phases
        self._opened += other._opened

    def with_noise(self, name: str, factor: float) -> "Ledger":
        """Returns the account as it is if noise was only so wide in Gaussian phases of a name."""
        weaker = Ledger()
        weaker._opened = self.opened
        weaker._phases = [
            replace(phase, noise_multiplier=factor * phase.noise_multiplier)
            if isinstance(phase, GaussianPhase) and phase.name == name
            else phase
            for phase in self._phases
        ]
        return weaker

    def part(self, name: str, *, rest: bool = False) -> "Ledger":
        """Returns the account of the phases of a name alone, or of all the others."""
        found = Ledger()
        found._phases = [phase for phase in self._phases if (phase.name == name) is not rest]
        return found

    def restored(self, text: str, name: str) -> "Ledger":
        """Returns the account that `to_json` wrote, with what this one has besides a name's phases.

        Args:
            text: of the run that is gone on with.
            name: of the Gaussian phases of this account that do not count then.
        """
        ledger = Ledger.from_json(text)
        ledger._opened += self._opened
        ledger._phases += [
            phase
            for phase in self._phases
            if not (isinstance(phase, GaussianPhase) and phase.name == name)
        ]
        return ledger

    def disclose(self, name: str) -> None:
        """Notes that something was opened which is not charged against the training records."""
        _check_name(name)
        self._opened.append(name)

    def get_epsilon(
        self, delta: float, accountant: str = "pld", *, neighbours: Neighbours = "add-remove"
    ) -> float:
        """An upper bound on epsilon of all phases together.

        The Gaussian phases are composed tightly by the accountant. Charges are added by basic
        composition: their epsilons to the result, their deltas taken off delta.

        Args:
            accountant: "pld"; for "add-remove" alone also "rdp", or "filter", which alone allows
                noise, rates and numbers of steps that were chosen by the results of earlier phases.
            neighbours: "add-remove" or "replace" (`Neighbours`). Compare the first with systems
                that add and remove records (Opacus, TensorFlow Privacy), the second with those that
                replace one, as libraries for samples of a fixed size do.

        Raises:
            ArgumentError: an argument lies outside its range, or delta is used up by the charges
                or by the overflow probabilities.
        """
        delta = check_real("delta", delta)
        one_of((*ACCOUNTANTS, FILTER)).check("accountant", accountant)
        one_of(NEIGHBOURS).check("neighbours", neighbours)
        charges = [phase for phase in self._phases if isinstance(phase, Charge)]
        gaussians = [phase for phase in self._phases if isinstance(phase, GaussianPhase)]
        costs = [charge.cost(neighbours) for charge in charges]
        offset = math.fsum(epsilon for epsilon, _ in costs)
        spent = math.fsum(delta for _, delta in costs)
        if delta < spent or (gaussians and delta == spent):
            raise ArgumentError(
                "delta",
                delta,
                f"above {spent!r}, the delta of the charges",
                "Give a larger one.",
            )
        if not gaussians:
            return offset
        return total_epsilon(
            gaussians,
            delta=delta - spent,
            accountant=accountant,
            neighbours=neighbours,
            offset=offset,
        )

    @property
    def opened(self) -> list[str]:
        """Names of what was opened, charged or only disclosed, in order."""
        return list(self._opened)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The recorded and charged phases, in order."""
        return tuple(self._phases)

    def to_json(self) -> str:
        """The ledger as JSON text, from which `from_json` makes an equal one."""
        kinds = {cls: kind for kind, cls in _KINDS.items()}
        phases = [{"kind": kinds[type(phase)], **asdict(phase)} for phase in self._phases]
        return json.dumps({"format": _FORMAT, "phases": phases, "opened": self._opened})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The ledger that `to_json` wrote, every phase validated again.

        Raises:
            ArgumentError: the text is not a ledger of this format, or a value in it is refused.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            if data["format"] != _FORMAT:
                raise ValueError("unknown format")
            phases = [_phase(**entry) for entry in data["phases"]]
            opened = list(data["opened"])
        except ArgumentError:
            raise
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ArgumentError(
                "text", text, "what Ledger.to_json wrote", f"Reading failed: {error!r}."
            ) from error
        ledger = cls()
        for name in opened:
            ledger.disclose(name)
        ledger._phases = phases
        return ledger


def _phase(kind: str, **values: Any) -> Phase:
    return _KINDS[kind](**values)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise ArgumentError("name", name, "a string that is not empty", "Name what was computed.")
