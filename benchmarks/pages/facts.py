"""The settings of a result and the machine it ran on, in words."""

import re
from collections.abc import Mapping
from typing import Any

from benchmarks.network.calibration import shown
from benchmarks.tables import PACKAGES, cell

MISSING = "not recorded"
LONGEST = 400
"""Characters of a setting; what is longer stays in the file."""
_FIRST = ("parties", "network", "frac_bits", "batch", "seed", "seeds")
_NAMES = {"frac_bits": "fractional bits (f)"}
_MEASURED = {"round trip ms": "round trip {} ms", "bulk Mbit/s": "bulk {} Mbit/s"}
_MACHINE = {
    "processor": "processor",
    "cores": "cores",
    "memory GiB": "memory, GiB",
    "kernel": "kernel",
    "platform": "system",
    "python": "Python",
}

_LEADING = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?")

Facts = dict[str, str]


def settings(content: Mapping[str, Any], file: str) -> Facts:
    """Returns the settings by name, the usual ones first; one too long names the file it is in."""
    found = {k: v for k, v in content["settings"].items() if k not in ("samples", "versions")}
    if "network" in found:
        found["network"] = _network(found["network"], _samples(content))
    names = [name for name in _FIRST if name in found]
    names += [name for name in found if name not in names]
    facts = {}
    for name in names:
        text = _words(found[name])
        label = _NAMES.get(name, name.replace("_", " "))
        facts[label] = text if len(text) <= LONGEST else f"see {file}"
    return facts


def machine(content: Mapping[str, Any]) -> Facts:
    """Returns when and where the result was recorded, the packages' versions last."""
    found = content["machine"]
    facts = {"date": content.get("recorded", MISSING)}
    for key, label in _MACHINE.items():
        value = found.get(key)
        facts[label] = MISSING if value is None else str(value)
    versions = found.get("versions", {})
    every = {name: versions.get(name, MISSING) for name in PACKAGES}
    every |= versions | content["settings"].get("versions", {})
    texts = [f"{name} {version}" for name, version in every.items() if version is not None]
    facts["packages"] = ", ".join(texts)
    return facts


def number(value: Any) -> float | None:
    """Returns the value, or the number that a text begins with, such as a median; None without."""
    found = _LEADING.match(cell(value))
    return float(found[0]) if found else None


def _samples(content: Mapping[str, Any]) -> Any:
    return content.get("samples", content["settings"].get("samples"))


def _network(network: Any, samples: Any) -> str:
    """The network's profile, and the least and most that was measured of it in any sample."""
    if not isinstance(network, dict):
        return str(network)
    if "round trip ms" in network:
        return shown(network)
    listed = samples if isinstance(samples, list) else []
    states = [one["network"] for one in listed if isinstance(one.get("network"), dict)]
    text = _words(network)
    measured = []
    for key, form in _MEASURED.items():
        values = [state[key] for state in states if key in state]
        if values:
            ends = dict.fromkeys(map(_figures, (min(values), max(values))))
            measured.append(form.format("..".join(ends)))
    return (
        f"{text}; measured: {', '.join(measured)}" if measured else f"{text}; calibration {MISSING}"
    )


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_words(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_words(item) for item in value)
    return "none" if value is None else cell(value)


def _figures(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
