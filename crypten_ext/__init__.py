"""CrypTen programs gain this project's protocols, and can import CrypTen.

Import it before ``crypten``: the released CrypTen does not import on current torch without it.
Nothing in CrypTen changes until `enable` is called, and nothing is imported until it is used.
"""

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

_ours = os.path.join(os.path.dirname(os.path.dirname(__file__)), "extensions")
_spec = find_spec("extensions")
_found = [*(_spec.submodule_search_locations or [str(_spec.origin)])] if _spec else [_ours]
if os.path.realpath(_found[0]) != os.path.realpath(_ours):  # a folder or file of the user's
    raise ImportError(f"{_found[0]} hides PEA's package extensions: rename it.", path=_found[0])

from crypten_ext import compat  # noqa: E402
from extensions.lazy_names import lazy_names  # noqa: E402

if TYPE_CHECKING:
    from crypten_ext import nn as nn
    from crypten_ext.functions import count_correct as count_correct
    from crypten_ext.nn import optim as optim
    from crypten_ext.nn.batches import in_pieces as in_pieces
    from crypten_ext.nn.batches import poisson_batches as poisson_batches
    from crypten_ext.nn.batches import share_records as share_records
    from crypten_ext.nn.batches import vouch_for as vouch_for
    from crypten_ext.nn.columns import column_batches as column_batches
    from crypten_ext.noise import gaussian_noise as gaussian_noise
    from crypten_ext.registry import disable as disable
    from crypten_ext.registry import enable as enable
    from crypten_ext.registry import is_enabled as is_enabled
    from crypten_ext.run.checkpoints import Checkpoints as Checkpoints
    from crypten_ext.run.whitening import whiten as whiten
    from crypten_ext.run.whitening import whiten_columns as whiten_columns
    from crypten_ext.settings import defaults as defaults
    from extensions import __version__ as __version__
    from extensions.runs.config.scripts import calibrate_noise as calibrate_noise
else:
    _MODULES = {
        "crypten_ext": ("nn",),
        "crypten_ext.functions": ("count_correct",),
        "crypten_ext.nn": ("optim",),
        "crypten_ext.nn.batches": ("in_pieces", "poisson_batches", "share_records", "vouch_for"),
        "crypten_ext.nn.columns": ("column_batches",),
        "crypten_ext.noise": ("gaussian_noise",),
        "crypten_ext.registry": ("disable", "enable", "is_enabled"),
        "crypten_ext.run.checkpoints": ("Checkpoints",),
        "crypten_ext.run.whitening": ("whiten", "whiten_columns"),
        "crypten_ext.settings": ("defaults",),
        "extensions": ("__version__",),
        "extensions.runs.config.scripts": ("calibrate_noise",),
    }
    __getattr__, __dir__ = lazy_names(__name__, _MODULES, compat.check_installed)

compat.install()
