"""The device of the process that runs the script, among those of the players."""

import tensorflow as tf

HERE = "/job:localhost/replica:0/task:0/device:CPU:0"
"""The script's own device, which no device scope around an operation can move."""


def in_this_process(device: str) -> str:
    """Returns the device, if it is one of this process, and else this process's first."""
    return device if tf.DeviceSpec.from_string(device).job == "localhost" else HERE
