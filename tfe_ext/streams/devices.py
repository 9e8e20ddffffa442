"""The device of the process that runs the script, among those of the players."""

import tensorflow as tf

import tf_encrypted as tfe

HERE = "/job:localhost/replica:0/task:0/device:CPU:0"
"""The script's own device, which no device scope around an operation can move."""


def in_this_process(device: str) -> str:
    """Returns the device, if it is one of this process, and else this process's first."""
    return device if tf.DeviceSpec.from_string(device).job == "localhost" else HERE


def player_at(device: str) -> str:
    """Returns the name of the configuration's player on the device, or of what else it is."""
    if device == HERE:
        return "this script"
    players = {player.device_name: player.name for player in tfe.get_config().players}
    return f"player {players[device]}" if device in players else device
