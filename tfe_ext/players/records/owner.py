"""What one owner does of a run that another program directs: all that needs its records."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from extensions.data.datasets import Split
from extensions.errors import ArgumentError
from extensions.privacy.gaussian_table import failure_bound
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.privacy.sampling import OwnRecords
from extensions.protocols.agreement import canonical
from extensions.protocols.initialization import encode_model
from extensions.ring.fixed_point import Integers
from extensions.runs.budget import Reservations
from extensions.runs.budget.planned_cost import entries_of, title_of
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.local_data import encoded
from extensions.runs.local_training import train_locally
from extensions.runs.outputs import titles_of
from tfe_ext.players.addresses import SERVERS
from tfe_ext.players.records.request_handler import RequestHandler
from tfe_ext.players.records.share_store import earlier_run


@dataclass(frozen=True, kw_only=True)
class Held:
    """One owner's records and what it says of them.

    The settings are those of a run that follow from the records and from how they were read.
    """

    split: Split
    settings: Mapping[str, Any]
    ledger: Path | None


class _Counting(ClearHost):
    """What a run on ABY3's servers costs one owner is counted by this; it computes nothing."""

    def __init__(self, config: TrainConfig, rank: int) -> None:
        super().__init__(
            config.frac_bits, parties=config.parties, owners=config.parties, source=SystemSource()
        )
        self.ranks = range(rank, rank + 1)

    def noise_failure(self, parameters: int) -> float:
        return failure_bound(len(SERVERS) * parameters)


class Owner(RequestHandler):
    """Answers one client after the other, each of which directs a run; see `RequestHandler`.

    Records, too, leave by `array` alone, for the player's own device.
    """

    named_requests = ("prepare", "learn")

    def __init__(self, held: Held, tell: Callable[[str], None]) -> None:
        super().__init__(tell)
        self._held = held
        self._run = ""
        self._config: TrainConfig | None = None
        self._rank = 0
        self._train: OwnRecords | None = None
        self._arrays: dict[str, Integers] = {}
        self._budget = Reservations()
        self._asked: dict[str, Callable[..., dict[str, Any] | None]] = {
            "state": self._state,
            "prepare": self._prepare,
            "reserve": self._reserve,
            "spend": lambda: self._budget.spend(),
            "free": lambda: self._budget.free(),
            "learn": self._learn,
        }

    def answer_of(self, what: str, asked: dict[str, Any]) -> Mapping[str, Any]:
        """Returns the answer to what is asked of the records.

        That is "state" (what is public of them), "prepare" (for the run that "run" names, with
        "config" and "rank"), "reserve", "spend" or "free" (the run in the ledger), or "learn" (a
        local model).
        """
        if what not in ("state", "prepare") and asked.pop("run") != self._run:
            raise earlier_run()
        return self._asked[what](**asked) or {}

    def array(self, name: bytes) -> Integers:
        """Returns an array that was prepared or learnt, or kept; of no words if there is none.

        Names are "train_features", "train_labels", "train_empty", "held_out_features",
        "held_out_labels", "local_0" and so on, or of `PlayerShareStore.arrays`.
        """
        own = self._arrays.get(name.decode())
        return super().array(name) if own is None else own

    def _state(self) -> dict[str, Any]:
        return {"settings": self._held.settings, "outline": asdict(self._held.split.public)}

    def _prepare(self, run: str, rank: int, config: dict[str, Any]) -> dict[str, Any]:
        stated = TrainConfig(**config)
        for name, own in self._held.settings.items():
            if canonical(config[name]) != canonical(own):
                raise ArgumentError(name, config[name], f"{own!r}, as the owner's settings say")
        self._run, self._rank, self._config = run, rank, stated
        self._budget, self._arrays, self._train = Reservations(), {}, None
        self._train, held_out = encoded(self._held.split, stated)
        self._arrays = {
            "train_features": self._train.features,
            "train_labels": self._train.labels,
            "held_out_features": held_out.features,
            "held_out_labels": held_out.labels,
        }
        if self._train.empty is not None:
            self._arrays["train_empty"] = self._train.empty
        noise = stated.noise_multiplier if stated.private else 0.0
        target = f"epsilon {stated.epsilon}" if stated.epsilon else f"noise multiplier {noise}"
        opens = "; ".join(titles_of(stated)) or "nothing"
        self._tell(f"run {run}: {title_of(stated)}, {target}, delta {stated.delta}; opens {opens}")
        return {"empty": self._train.empty is not None}

    def _reserve(self) -> None:
        assert self._config is not None
        counting = _Counting(self._config, self._rank)
        public, ledgers = [self._held.split.public], [self._held.ledger]
        entries = entries_of(counting, self._config, public, ledgers, self._run)
        self._budget = Reservations(entries)
        self._budget.reserve()

    def _learn(self) -> dict[str, Any]:
        config, own = self._config, self._train
        assert config is not None
        assert own is not None
        seed = config.insecure_seed
        source = SystemSource() if seed is None else InsecureSeededSource(seed)
        local = train_locally(config, own, owner=self._rank, source=source)
        encoded_model = encode_model(local, config.frac_bits)
        self._arrays |= {f"local_{place}": part for place, part in enumerate(encoded_model)}
        return {"parts": len(encoded_model)}
