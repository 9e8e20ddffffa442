"""Runs on the clear host, observed: opened words, the model, and the report.

Digests are of integers alone. What is found in floating point on the way to them (whitening's map,
statistics' weights, noise for an epsilon) is compared to 1e-9, and the run goes on from what is
stored. Local starts are integers that are decoded and encoded again, exactly.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from extensions.layers.models.start_file import with_digest
from extensions.protocols.noisy_sums import statistics
from extensions.protocols.noisy_sums.whitening import Whitening
from extensions.runs import clear_training
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from tests.golden.cases import CASES, USUAL
from tests.golden.records import parts

STORED = Path(__file__).with_name("clear.json")
CLOSE, DIGITS = 1e-9, 12
_OF_THE_MACHINE = ("header", "manifest", "parameters", "phases", "seconds", "whitening")
"""What of a report depends on software and time, or is observed otherwise."""
_NOISES = ("noise_multiplier", "noise_multiplier_init", "noise_multiplier_whiten")


def digest(values: npt.ArrayLike) -> str:
    """Returns 16 digits that name an array of integers."""
    array = np.ascontiguousarray(values, dtype="<i8")
    return hashlib.sha256(f"{array.shape} ".encode() + array.tobytes()).hexdigest()[:16]


def observe(name: str, floats: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Returns what comes of a run.

    Args:
        name: of `CASES`.
        floats: stored values to go on from; those found where there are none.
        folder: for what the run writes.
    """
    settings = {**USUAL, **CASES[name]}
    records = parts(settings.pop("records", "classes"))[: settings["parties"]]
    opened: list[str] = []

    class Recording(ClearHost):
        def open(self, summands: Sequence[Sequence[Any]]) -> list[Any]:
            words = super().open(summands)
            opened.extend(map(digest, words))
            return words

    going_on = _Floats(floats)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.setattr(clear_training, "ClearHost", Recording)
        if settings.get("init") == "file":
            settings["init"] = with_digest(str(_start(folder, settings["classes"])))
        mapped = going_on.of("map", Whitening.matrix.func)
        patch.setattr(Whitening, "matrix", property(mapped))
        patch.setattr(statistics, "fitted", going_on.of("weight", statistics.fitted))
        drawn = sum(part.drawn for part in records)
        config = going_on.resolved(TrainConfig(**settings), drawn)
        report = clear_training.train(config, records, lambda event: None)
    model = chain.from_iterable(report["parameters"] or ())
    return {
        "floats": going_on.found,
        "model": [digest(np.rint(np.ldexp(part, config.frac_bits))) for part in model],
        "opened": opened,
        "report": {
            key: None if key in _OF_THE_MACHINE else _told(report[key]) for key in sorted(report)
        },
    }


def differences(found: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Returns the fields of a run that are not what is stored, each with both values."""
    lines = [
        f"{field}: {found[field]} instead of {stored[field]}"
        for field in ("model", "opened")
        if found[field] != stored[field]
    ]
    for field, close in (("floats", _close), ("report", _equal)):
        old, new = stored[field], found[field]
        lines += [
            f"{field}, {key}: {new.get(key, 'nothing')} instead of {old.get(key, 'nothing')}"
            for key in sorted({*old, *new})
            if key not in old or key not in new or not close(new[key], old[key])
        ]
    return lines


def stored() -> dict[str, Any]:
    """Returns all that is stored, each report in full."""
    cases: dict[str, Any] = json.loads(STORED.read_text())
    usual = cases["usual"]["report"]
    return {name: {**case, "report": {**usual, **case["report"]}} for name, case in cases.items()}


def write(names: Sequence[str], folder: Path) -> None:
    """Stores what comes of these runs; of reports what is not as in the usual run."""
    cases = stored() if STORED.exists() else {}
    for name in names:
        cases[name] = observe(name, {}, folder)
    usual = cases["usual"]["report"]
    for name in {*cases} - {"usual"}:
        report = cases[name]["report"]
        assert report.keys() == usual.keys(), "reports of the clear host have the same keys"
        cases[name]["report"] = {key: report[key] for key in report if report[key] != usual[key]}
    kept_cases = {name: cases[name] for name in sorted(CASES)}
    STORED.write_text(json.dumps(kept_cases, indent=1, sort_keys=True) + "\n")


class _Floats:
    """What is found in floating point is noted, and what is stored takes its place."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self._stored = stored
        self.found: dict[str, Any] = {}

    def note(self, name: str, value: Any) -> Any:
        self.found[name] = np.asarray(value).tolist()
        stored = self._stored.get(name, value)
        return np.array(stored) if isinstance(value, np.ndarray) else stored

    def of(self, name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: self.note(name, compute(*arguments))

    def resolved(self, config: TrainConfig, records: int) -> TrainConfig:
        """The noise that follows from an epsilon is found in floating point, too."""
        found = config.resolved(records=records)
        given = {each: getattr(config, each) for each in _NOISES}
        return replace(
            found,
            **{
                each: self.note(each, getattr(found, each))
                for each in _NOISES
                if given[each] is None and getattr(found, each) is not None
            },
        )


def _start(folder: Path, classes: int) -> Path:
    """A file of weights in eighths."""
    weight = (np.arange(classes * 6).reshape(classes, 6) % 7 - 3) / 8
    path = folder / "start.npz"
    np.savez(path, weight_0=weight, bias_0=np.arange(classes) / 8)
    return path


def _told(value: Any) -> Any:
    """A value of a report as JSON has it, numbers to 12 digits."""
    if isinstance(value, Mapping):
        return {str(key): _told(each) for key, each in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [_told(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _equal(one: Any, other: Any) -> bool:
    """Whether two values of reports agree, numbers to 12 digits or nearly."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=10.0 ** (1 - DIGITS))
    return bool(one == other)


def _close(one: Any, other: Any) -> bool:
    return np.shape(one) == np.shape(other) and np.allclose(one, other, rtol=0.0, atol=CLOSE)
