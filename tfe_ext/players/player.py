"""The programme of one player: TensorFlow's server, until the launcher goes.

A connection to a player or script that is cut off would last for many minutes, and so would every
call that waits for it, without a word to the script, which may reach both.

Run as ``python -m tfe_ext.players.player NAME FILE [IDLE]`` by `tfe_ext.players.launch.serve`; it
ends once nobody has sent it anything for so many seconds. A script asks every second whether its
players are there, for as long as its session is open.
"""

import math
import os
import sys
import time

from extensions.runs.processes import open_channel

_SILENCE, _INTERVAL = 20, 1.0
"""Seconds."""


def main() -> None:
    """Serves, as one player, whatever client reaches it."""
    open_channel()  # the process ends with its launcher
    name, file, *idle = sys.argv[1:]
    patience = float(idle[0]) if idle else math.inf
    import tensorflow as tf

    from tfe_ext.players.addresses import read_players
    from tfe_ext.players.job import JOB
    from tfe_ext.players.sockets import end_if_silent, quiet_for
    from tfe_ext.streams.choice import load_for_players

    import tf_encrypted as tfe

    load_for_players()
    players = read_players(file)
    config = tfe.RemoteConfig(players, job_name=JOB)
    try:
        server = config.start_server(name)
    except tf.errors.OpError as error:
        print(f"player {name} cannot listen at {players[name]}: {error}", file=sys.stderr)
        os._exit(1)
    # In one piece, or lines of several players could mix.
    port = players[name].rpartition(":")[2]  # the file's host may be another, or its outer address
    sys.stdout.write(f"player {name} listens on port {port}, process {os.getpid()}\n")
    sys.stdout.flush()
    heard = time.monotonic()
    while server and time.monotonic() - heard < patience:
        end_if_silent(_SILENCE)
        heard = max(heard, time.monotonic() - quiet_for())
        time.sleep(_INTERVAL)
    os._exit(0)  # TensorFlow's server cannot be stopped


if __name__ == "__main__":
    main()
