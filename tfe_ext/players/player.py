"""The programme of one player: TensorFlow's server, until the launcher goes.

Run as ``python -m tfe_ext.players.player NAME FILE LAUNCHER_PID`` by
`tfe_ext.players.launch.serve`. Standard input is open as long as the launcher lives.
"""

import os
import sys

from extensions.runs.processes import ORPHANED, die_with


def main() -> None:
    """One player serves whatever client reaches it."""
    name, file, launcher_pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
    die_with(launcher_pid)
    import tensorflow as tf

    from tfe_ext.players.client import JOB, read_players
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
    sys.stdout.write(f"player {name} listens at {players[name]}\n")
    sys.stdout.flush()
    os.read(0, 1)
    del server
    os._exit(ORPHANED)


if __name__ == "__main__":
    main()
