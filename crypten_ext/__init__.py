"""CrypTen programs gain this project's protocols; importing the package makes CrypTen importable.

Import it before ``crypten``: the released CrypTen does not import on current torch without it.
Nothing in CrypTen changes until `enable` is called.
"""

import os
from importlib.util import find_spec

_ours = os.path.join(os.path.dirname(os.path.dirname(__file__)), "extensions")
_spec = find_spec("extensions")
_found = [*(_spec.submodule_search_locations or [str(_spec.origin)])] if _spec else [_ours]
if os.path.realpath(_found[0]) != os.path.realpath(_ours):  # a folder or file of the user's
    raise ImportError(f"{_found[0]} hides PEA's package extensions: rename it.", path=_found[0])

from crypten_ext import compat  # noqa: E402

compat.apply()

from crypten_ext import nn  # noqa: E402
from crypten_ext.defaults import defaults  # noqa: E402
from crypten_ext.evaluation import count_correct  # noqa: E402
from crypten_ext.nn import optim  # noqa: E402
from crypten_ext.nn.batches import poisson_batches, share_records  # noqa: E402
from crypten_ext.nn.pieces import in_pieces  # noqa: E402
from crypten_ext.nn.vouching import vouch_for  # noqa: E402
from crypten_ext.noise import gaussian_noise  # noqa: E402
from crypten_ext.registry import disable, enable, is_enabled  # noqa: E402
from crypten_ext.run.checkpoints import Checkpoints  # noqa: E402
from crypten_ext.run.whitening import whiten  # noqa: E402
from extensions import __version__  # noqa: E402
from extensions.runs.config.scripts import calibrate_noise  # noqa: E402

__all__ = [
    "Checkpoints",
    "__version__",
    "calibrate_noise",
    "count_correct",
    "defaults",
    "disable",
    "enable",
    "gaussian_noise",
    "in_pieces",
    "is_enabled",
    "nn",
    "optim",
    "poisson_batches",
    "share_records",
    "vouch_for",
    "whiten",
]
