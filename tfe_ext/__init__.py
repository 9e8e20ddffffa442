"""TF Encrypted programs gain this project's protocols; importing the package makes it importable.

Import it before ``tf_encrypted`` and before ``tf.keras`` is used: the released TF Encrypted does
not import on current TensorFlow without it.
"""

from . import compat

compat.apply()

from . import keras  # noqa: E402
from .aby3 import ABY3, fixed64_f20  # noqa: E402
from .config import local_config  # noqa: E402
from .cost import Cost, cost  # noqa: E402
from .functions import register  # noqa: E402
from .players import remote_config  # noqa: E402

register()

__all__ = ["ABY3", "Cost", "cost", "fixed64_f20", "keras", "local_config", "remote_config"]
