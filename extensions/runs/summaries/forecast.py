"""What a run will take, said before it shares anything, and corrected after its second step."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger
from extensions.protocols.noisy_sums.additive.training import account_for_counts
from extensions.protocols.noisy_sums.whitening import account_for_whitening
from extensions.protocols.settings import TRAINING, account
from extensions.runs.config import TrainConfig
from extensions.runs.local_training import account_for_start

Show = Callable[[dict[str, Any]], None]

_WRONG = 1.2
"""By what factor a time must have been wrong to be corrected."""
_MINUTE, _HOUR = 60, 3600


class ForecastDisplay:
    """Shows a run's events, and tells how long it will be, from when the command began."""

    def __init__(
        self,
        config: TrainConfig,
        show: Show,
        tell: Callable[[str], None],
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._config, self._show, self._clock = config, show, clock or running
        self._tell = tell
        self._foretold: Mapping[str, Any] | None = None
        self._total, self._first = 0.0, (0, 0.0)

    def __call__(self, event: dict[str, Any]) -> None:
        """Shows an event of `extensions.runs.callbacks.ProgressCallback`."""
        self._config = event.get("settled", self._config)
        run = event.get("ahead")
        if run is not None:
            self._foretold, self._total = run, self._clock() + run["seconds"]
            self._tell(line_of(run, self._total, epsilon_of(self._config)))
            return
        if "settled" in event:
            self._show(event)
            return
        if not self._first[0]:
            self._first = event["step"], self._clock()
        elif event["step"] == self._first[0] + 1:
            self._correct(event)
        self._show(event)

    def _correct(self, event: Mapping[str, Any]) -> None:
        """Says it anew after a second step, which took as long as each that follows."""
        now = self._clock()
        each = now - self._first[1]
        rest = (event["steps"] - event["step"]) * each
        if self._foretold is not None:
            known = self._foretold
            rest += known["after"] * max(1.0, each / known["each"]) if known["each"] else 0.0
        total = now + rest
        if not self._total or not 1 / _WRONG < total / self._total < _WRONG:
            self._tell(f"{duration(total)} in all, judging by the last step")


def line_of(run: Mapping[str, Any], seconds: float, epsilon: str) -> str:
    """Returns what is said of a run, all of which takes so many seconds, and of its epsilon."""
    parts = [duration(seconds)]
    if run["bytes"] is not None:
        parts.append(f"{size(run['bytes'])} a party")
    if run["memory"] is not None:
        parts.append(f"{size(run['memory'])} of memory beside records")
    if run["rounds"] is not None:
        parts.append(f"{run['rounds']} rounds")
    return ", ".join([*parts, epsilon])


def duration(seconds: float) -> str:
    """Returns about how long that is."""
    for unit, one in (("h", _HOUR), ("min", _MINUTE)):
        if seconds >= 2 * one:
            return f"about {_rounded(seconds / one)} {unit}"
    return f"about {_rounded(max(1, round(seconds)))} s"


def _rounded(number: float) -> str:
    """The number with two digits."""
    return f"{float(f'{number:.2g}'):g}"


def size(count: float) -> str:
    """Returns bytes with two digits or three."""
    for unit, one in (("GB", 1e9), ("MB", 1e6)):
        if count >= one:
            return f"{count / one:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"


def epsilon_of(config: TrainConfig) -> str:
    """Returns what a line says of a run's epsilon."""
    if not config.private or config.delta is None:
        return "not private"
    if config.epsilon is not None:
        return f"epsilon {config.epsilon:g}"
    if config.insecure_seed is not None or not config.noise_multiplier:
        return "epsilon infinite"
    ledger = Ledger()
    account_for_start(ledger, config)
    account(ledger, TRAINING, config, config.steps)
    try:
        return f"epsilon {ledger.get_epsilon(config.delta, neighbours=config.neighbours):.3g}"
    except ArgumentError:  # the run's end will tell: it is no reason not to begin
        return f"noise multiplier {config.noise_multiplier:g}"


def spent_so_far(config: TrainConfig, steps: int) -> str:
    """Returns what a line says of the epsilon of a run's first steps."""
    if not config.private or config.delta is None or config.noise_multiplier is None:
        return "not private"
    if config.noise_multiplier == 0.0:
        return "epsilon infinite"
    ledger = Ledger()
    parts = [(config.noise_multiplier, steps)]
    if config.strategy is not None:
        parts.append((config.noise_multiplier_init or 0.0, config.local_steps))
    account_for_whitening(ledger, config)
    account_for_counts(ledger, config)
    for noise, count in parts:
        ledger.record("so far", noise_multiplier=noise, sample_rate=config.sample_rate, steps=count)
    accountant = "rdp" if config.neighbours == "add-remove" else "pld"
    epsilon = ledger.get_epsilon(config.delta, accountant, neighbours=config.neighbours)
    if config.epsilon is not None:
        epsilon = min(epsilon, config.epsilon)  # noise was chosen so that the whole run reaches it
    return f"epsilon <= {epsilon:.2f}"


def traffic_in(event: Mapping[str, Any], room: int) -> str:
    """Returns as much of what was sent as has room, in characters."""
    texts = [f"{event['rounds']} rounds"]
    if event["bytes"] is not None:
        mean, largest, padding = (event[name] / 1e6 for name in ("bytes", "largest", "padding"))
        most = f", {largest:.1f} at most" if event["largest"] > event["bytes"] else ""
        texts.append(f"{texts[0]}, {mean:.1f} MB a party")
        texts.append(f"{texts[1]}{most} ({padding:.1f} of padding)")
    return next((text for text in reversed(texts) if len(text) <= room), "")


def running() -> float:
    """Returns the seconds since this process began."""
    if sys.platform != "linux":
        return time.monotonic() - _IMPORTED
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    began = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began


_IMPORTED = time.monotonic()
