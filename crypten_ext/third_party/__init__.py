"""CrypTen's trusted third party, its streams keyed: `provider = "TTP"`, one more process.

    crypten.cfg.mpc.provider = "TTP"         # in every process, before crypten.init()
    crypten_ext.third_party.serve()          # in the one whose RANK equals WORLD_SIZE

CrypTen's own ``TTPServer()`` serves as well in a process that called `crypten_ext.enable`.

The third party holds no data and answers one request of party 0 at a time, for random bits and
standard triples; our tuples are built of those in further rounds. **It must not collude with any
party**: together with one it knows what the others hide. `crypten_ext.processes.launch.Parties`
starts one with ``provider="ttp"``; `crypten_ext.dealer` costs less and needs no group in common.
"""

from crypten_ext.third_party.server import ThirdParty, install, remove, serve

__all__ = ["ThirdParty", "install", "remove", "serve"]
