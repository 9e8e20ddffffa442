"""What the protocols take on CrypTen and on ABY3, as the conformance suite counts it."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.conformance.arenas.arena import ABY3Arena, CrypTenArena
from tests.golden.protocols import SETTINGS

STORED = Path(__file__).with_name("hosts.json")
PARTIES = 3
_HELD = (
    *("bits", "suffix_or", "truncate", "products", "noise", "inverse_sqrt", "paper_inverse_sqrt"),
    *("clip_factor", "activate", "dpsgd_step", "linear", "probabilities", "summed"),
)
"""Recipes whose rounds and bytes on ABY3 `tests.conformance` holds to formulas."""
TRACED = tuple(name for name in SETTINGS if SETTINGS[name].recipe not in _HELD)
"""Settings that are stored of ABY3."""


def on_crypten(arena: CrypTenArena, name: str) -> list[int]:
    """Returns the bytes of each opening in turn: a round each, and all that parties send."""
    recipe, shapes, options, frac_bits = SETTINGS[name]
    given = {"recipe": recipe, "shapes": shapes, "frac_bits": frac_bits, "options": options}
    parties = arena.run("wire", **given)
    openings: list[int] = parties[0]["openings"]
    assert all(party["openings"] == openings for party in parties), name
    return openings


def on_aby3(arena: ABY3Arena, name: str) -> dict[str, int]:
    """Returns rounds, bytes and messages of all servers."""
    recipe, shapes, options, frac_bits = SETTINGS[name]
    counts = arena.counts(recipe, shapes, frac_bits=frac_bits, **options)
    return dict(zip(("rounds", "bytes", "messages"), counts, strict=True))


def stored() -> dict[str, dict[str, Any]]:
    """Returns what is stored, by host and name of the setting."""
    found: dict[str, dict[str, Any]] = json.loads(STORED.read_text())
    return found


def write(names: Iterable[str]) -> None:
    """Stores what these settings take on either host."""
    from tests.conftest import Pools
    from tests.helpers.tfe_process import TFEProcess

    found = stored() if STORED.exists() else {"aby3": {}, "crypten": {}}
    pools, process = Pools(), TFEProcess()
    try:
        for name in names:
            found["crypten"][name] = on_crypten(CrypTenArena(PARTIES, pools), name)
            if name in TRACED:
                found["aby3"][name] = on_aby3(ABY3Arena(process), name)
    finally:
        pools.close()
        process.close()
    lines = [
        f' "{host}": {{\n'
        + ",\n".join(f'  "{name}": {json.dumps(kept[name])}' for name in sorted(kept))
        + "\n }"
        for host, kept in sorted(found.items())
    ]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
