"""A dealer of correlated randomness: a process that holds no data, so that no data party deals.

    crypten_ext.enable()
    crypten.cfg.mpc.provider = "DEALER"

The dealer is that of the federation whose parties `crypten_ext.transport.init` brought together.
Else one that the same user started on this machine by `pea dealer`, at DEALER_ADDRESS=HOST:PORT in
the environment. Both ends prove who they are by TLS.

Each party shares a key with the dealer and expands its shares of a tuple from it. The dealer
expands the same shares and sends what they lack for the tuple to be right: a word for each that
depends on others, to one of the parties, so that every party is sent an equal portion.
It learns shapes and counts, and of noise that it deals (`DealerProvider.deal_noise`) its scale and
the noise itself, which no party knows. **It must not collude with any party**: together with one it
knows what the others hide. `pea dealer` runs one; `crypten_ext.processes.launch.Parties` starts one
beside local parties with ``provider="dealer"``; `pea prepare` deals beforehand, into files.
"""

from crypten_ext.dealer.client import (
    begin_run,
    carried,
    corrected_bytes,
    current,
    disconnect,
    stop_reconnecting,
    use_material,
)
from crypten_ext.dealer.material import Material
from crypten_ext.dealer.provider import begin_step, install, remove
from crypten_ext.dealer.server import serve, serve_runs
from crypten_ext.dealer.writing import check_vacant, paths_in, prepare

__all__ = [
    "Material",
    "begin_run",
    "begin_step",
    "carried",
    "check_vacant",
    "corrected_bytes",
    "current",
    "disconnect",
    "install",
    "paths_in",
    "prepare",
    "remove",
    "serve",
    "serve_runs",
    "stop_reconnecting",
    "use_material",
]
