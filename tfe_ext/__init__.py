"""TF Encrypted programs gain this project's protocols, and can import TF Encrypted.

Import it before ``tf_encrypted`` and before ``tf.keras`` is used: the released TF Encrypted does
not import on current TensorFlow without it. Nothing is imported until it is used.
"""

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

_ours = os.path.join(os.path.dirname(os.path.dirname(__file__)), "extensions")
_spec = find_spec("extensions")
_found = [*(_spec.submodule_search_locations or [str(_spec.origin)])] if _spec else [_ours]
if os.path.realpath(_found[0]) != os.path.realpath(_ours):  # a folder or file of the user's
    raise ImportError(f"{_found[0]} hides PEA's package extensions: rename it.", path=_found[0])

from extensions.lazy_names import lazy_names  # noqa: E402
from tfe_ext import compat  # noqa: E402

if TYPE_CHECKING:
    from extensions import __version__ as __version__
    from tfe_ext import keras as keras
    from tfe_ext.aby3.encoding import fixed64_f20 as fixed64_f20
    from tfe_ext.aby3.player_functions import owned_by as owned_by
    from tfe_ext.aby3.protocol import ABY3 as ABY3
    from tfe_ext.costs.cost import Cost as Cost
    from tfe_ext.costs.cost import cost as cost
    from tfe_ext.players.client import remote_config as remote_config
    from tfe_ext.players.config import local_config as local_config
    from tfe_ext.run.whitening import whiten as whiten
else:
    _MODULES = {
        "extensions": ("__version__",),
        "tfe_ext": ("keras",),
        "tfe_ext.aby3.encoding": ("fixed64_f20",),
        "tfe_ext.aby3.player_functions": ("owned_by",),
        "tfe_ext.aby3.protocol": ("ABY3",),
        "tfe_ext.costs.cost": ("Cost", "cost"),
        "tfe_ext.players.client": ("remote_config",),
        "tfe_ext.players.config": ("local_config",),
        "tfe_ext.run.whitening": ("whiten",),
    }
    __getattr__, __dir__ = lazy_names(__name__, _MODULES, compat.check_installed)


def _register() -> None:
    from tfe_ext.aby3 import functions, player_constants, player_functions

    functions.register()
    player_constants.install()
    player_functions.install()


compat.install(_register)
