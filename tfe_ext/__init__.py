"""TF Encrypted programs gain this project's protocols; importing the package makes it importable.

Import it before ``tf_encrypted`` and before ``tf.keras`` is used: the released TF Encrypted does
not import on current TensorFlow without it.
"""

import os
from importlib.util import find_spec

_ours = os.path.join(os.path.dirname(os.path.dirname(__file__)), "extensions")
_spec = find_spec("extensions")
_found = [*(_spec.submodule_search_locations or [str(_spec.origin)])] if _spec else [_ours]
if os.path.realpath(_found[0]) != os.path.realpath(_ours):  # a folder or file of the user's
    raise ImportError(f"{_found[0]} hides PEA's package extensions: rename it.", path=_found[0])

from tfe_ext import compat  # noqa: E402

compat.apply()

from extensions import __version__  # noqa: E402
from tfe_ext import keras  # noqa: E402
from tfe_ext.aby3 import own_constants, own_datasets, sources  # noqa: E402
from tfe_ext.aby3.encoding import fixed64_f20  # noqa: E402
from tfe_ext.aby3.functions import register  # noqa: E402
from tfe_ext.aby3.own_functions import owned_by  # noqa: E402
from tfe_ext.aby3.protocol import ABY3  # noqa: E402
from tfe_ext.cost.cost import Cost, cost  # noqa: E402
from tfe_ext.players.client import remote_config  # noqa: E402
from tfe_ext.players.config import local_config  # noqa: E402
from tfe_ext.run.whitening import whiten  # noqa: E402

register()
own_constants.install()
sources.install()
own_datasets.install()

__all__ = [
    "ABY3",
    "Cost",
    "__version__",
    "cost",
    "fixed64_f20",
    "keras",
    "local_config",
    "owned_by",
    "remote_config",
    "whiten",
]
