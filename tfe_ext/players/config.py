"""A TF Encrypted configuration in which each player of one process has a device of its own."""

from typing import Any

import tensorflow as tf

from extensions.errors import ArgumentError, PeaError
from extensions.rules import one_of
from tfe_ext.players.addresses import SERVERS

import tf_encrypted as tfe
from tf_encrypted.player import Player


class LocalDevices(tfe.LocalConfig):
    """The players of one process, each on its own logical CPU; CPU:0 is left to the script."""

    def __init__(self, player_names: list[str], debug_mode: bool = False) -> None:
        super().__init__(player_names, auto_add_unknown_players=False, debug_mode=debug_mode)

    def add_player(self, name: str) -> Player:
        """Returns a new player on the next free device."""
        index = len(self._players)
        device = f"/job:{self._job_name}/replica:0/task:0/device:CPU:{index + 1}"
        player = Player(name=name, index=index, device_name=device)
        self._players.append(player)
        return player

    def get_player(self, name_or_player: Any) -> Player:
        """Returns the player of this name; the host's local configuration would add one."""
        player = super().get_player(name_or_player)
        if player is None:
            names = one_of(player.name for player in self._players)
            raise ArgumentError("player", name_or_player, names, "Name it in local_config().")
        return player


def local_config(*players: str, debug_mode: bool = False) -> LocalDevices:
    """Returns a configuration that runs all players in this process.

    The host's ``LocalConfig`` puts every player on the same CPU. Here server0, server1, server2 and
    the players named have logical CPUs of their own, which TensorFlow makes on first use: call this
    before any tensor is made, then ``tfe.set_config(...)``. Raises PeaError if TensorFlow is in use
    already, with fewer devices.

    Args:
        players: names of those who give inputs or get outputs, besides the three servers.
        debug_mode: as in the host: no graphs, and no memory of earlier results.

    Examples:
        >>> config = tfe_ext.local_config("owner")
        >>> [player.name for player in config.players]
        ['server0', 'server1', 'server2', 'owner']
    """
    names = [*SERVERS, *players]
    if len(set(names)) < len(names):
        raise ArgumentError("players", players, "distinct, and none of the three servers")
    count = len(names) + 1
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * count
        )
    except RuntimeError:
        if len(tf.config.list_logical_devices("CPU")) < count:
            raise PeaError(
                f"local_config() needs {count} logical CPUs, but TensorFlow is in use already with "
                "fewer. Call it before any tensor is made."
            ) from None
    return LocalDevices(names, debug_mode)
