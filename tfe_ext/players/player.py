"""The programme of one player: TensorFlow's server, until the launcher goes.

`serve` of `tfe_ext.players.launch` runs ``python -m tfe_ext.players.player NAME FILE [IDLE
[open]]`` and sends it its owner's records, or None. It ends once nobody has sent it anything for so
many seconds: a script asks every second whether its players are there, for as long as its session
is open. It ends connections that are cut off, for which calls would wait many minutes.
"""

import math
import os
import pickle
import sys
import time

from extensions import printing
from extensions.checks import check_address
from extensions.runs.processes import open_channel

OPEN = "open"
"""Says that other hosts may reach this one."""
_SILENCE, _INTERVAL = 20, 1.0
"""Seconds."""


def main() -> None:
    """Serves, as one player, whatever client reaches it."""
    channel = open_channel()  # the process ends with its launcher
    name, file, *rest = sys.argv[1:]
    patience = float(rest[0]) if rest else math.inf
    import tensorflow as tf

    from tfe_ext.players.addresses import read_players
    from tfe_ext.players.job import JOB
    from tfe_ext.players.records.owner import Owner
    from tfe_ext.players.records.request_handler import RequestHandler, serve_requests
    from tfe_ext.players.sockets import close_to_other_hosts, end_if_silent, is_loopback, quiet_for
    from tfe_ext.streams.choice import load_for_players
    from tfe_ext.threads import asleep

    import tf_encrypted as tfe

    load_for_players()
    players = read_players(file)
    held = pickle.loads(channel.tasks.get())

    def tell(line: str) -> None:
        _say(f"player {name}: {line}")

    serve_requests(Owner(held, tell) if held else RequestHandler(tell))
    config = tfe.RemoteConfig(players, job_name=JOB)
    try:
        server = tf.distribute.Server(
            tf.train.ClusterSpec({JOB: config.hosts}),
            job_name=JOB,
            task_index=config.get_player(name).index,
            config=asleep(),
            start=False,
        )
    except tf.errors.OpError as error:
        print(f"player {name} cannot listen at {players[name]}: {error}", file=sys.stderr)
        os._exit(1)
    host, port = check_address("players", players[name])  # the file's host may be an outer address
    try:
        if OPEN not in rest and is_loopback(host):
            close_to_other_hosts(port)
    except OSError as error:
        text = "cannot close its port to other hosts"
        print(f"player {name} {text}: {error}", file=sys.stderr)
        os._exit(1)
    server.start()  # now, or it could serve what came in before its port was closed
    _say(f"player {name} listens on port {port}, process {os.getpid()}")
    heard = time.monotonic()
    while time.monotonic() - heard < patience:
        end_if_silent(_SILENCE)
        heard = max(heard, time.monotonic() - quiet_for())
        time.sleep(_INTERVAL)
    os._exit(0)  # TensorFlow's server cannot be stopped


def _say(line: str) -> None:
    """Prints a line in one piece, or those of several players could mix."""
    printing.OUT.write(f"{line}\n")
    printing.OUT.flush()


if __name__ == "__main__":
    main()
