"""Functions of data sets, such as those of ``Dataset.map``, keep their constants where they run."""

from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import structured_function
from tensorflow.python.eager import context

from tfe_ext.aby3.own_constants import in_own_function, kept_on
from tfe_ext.streams.devices import HERE

import tf_encrypted as tfe


def install() -> None:
    """Makes data sets keep to their device what their functions hold; called once for the process.

    TensorFlow sends functions such as those of ``Dataset.map`` to all players. With players
    elsewhere, each constant of one that is traced outside of any graph becomes a variable on the
    device of the moment: that of ``tf.device(...)``, or the script's own.
    """
    wrapper: Any = structured_function.StructuredFunctionWrapper
    begin = wrapper.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        elsewhere = isinstance(tfe.get_config(), tfe.RemoteConfig)
        if in_own_function() or not (elsewhere and tf.executing_eagerly()):
            begin(self, *args, **kwargs)
            return
        here = tf.DeviceSpec.from_string(HERE)
        device = here.make_merged_spec(tf.DeviceSpec.from_string(context.context().device_name))
        with kept_on(device.to_string()):
            begin(self, *args, **kwargs)

    wrapper.__init__ = __init__
