"""What the parties of test_backend.py do."""

import sys
from typing import Any
from unittest.mock import patch

from crypten_ext.processes.worker import Context
from crypten_ext.run import backend
from extensions.runs.config import TrainConfig


def train_without_accountant(context: Context, **arguments: Any) -> dict[str, Any]:
    """The party's report of a run in which it cannot compute an epsilon.

    With it, of how many parties the settings were that it checked, each time.
    """
    checked, check = list[int](), TrainConfig.__post_init__

    def counted(config: TrainConfig) -> None:
        check(config)
        checked.append(config.parties)

    here = {name: sys.modules[name] for name in ("dp_accounting",) if name in sys.modules}
    sys.modules["dp_accounting"] = None  # type: ignore[assignment]
    try:
        with patch.object(TrainConfig, "__post_init__", counted):
            return {**backend.train_task(context, **arguments), "checked": checked}
    finally:
        del sys.modules["dp_accounting"]
        sys.modules.update(here)
