"""The table of an experiment, with the settings of its runs."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.accuracy.records import Material
from benchmarks.accuracy.settings import Setting
from benchmarks.tables import Table


def table(
    experiment: str,
    material: Material,
    rows: Sequence[dict[str, Any]],
    settings: Mapping[str, Setting | dict[str, Any]],
    *,
    backend: str = "plaintext with the arithmetic of a secure run",
    **others: Any,
) -> Table:
    """Returns ``accuracy-EXPERIMENT-DATA``."""
    named = {
        label: shown(setting) if isinstance(setting, Setting) else setting
        for label, setting in settings.items()
    }
    others = {
        "data": material.data,
        "epsilon": material.epsilon,
        "seeds": list(material.seeds),
        "backend": backend,
        "load": os.getloadavg()[0],
        "tuned": named,
    } | others
    return Table(f"accuracy-{experiment}-{material.data}", rows, **others)


def shown(setting: Setting) -> dict[str, Any]:
    """Returns the settings as a result has them, without folders."""
    return asdict(setting) | {"features": setting.title}
