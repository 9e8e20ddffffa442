"""A run of `fl` as an app of Flower, on a SuperLink and SuperNodes.

    # what both sides know
    settings = {"model": fl.models.mlp(64), "clients": 5, "aggregator": fl.MaskedAggregator()}
    # server_app.py
    app = fl.flower.server_app(**settings, rounds=30)
    # client_app.py
    app = fl.flower.client_app(**settings, records=load, train=train)

The node configuration of a SuperNode says ``fl-peers``, a folder with the public keys ``0.pub``,
... of all clients, and ``fl-key``, the file of its private one, which may be the key by which the
SuperLink authenticates it; the run's configuration has ``fl-peers`` for the server. Import this
module by its name: ``import fl.flower``.
"""

from extensions.errors import MissingExtraError

try:
    import flwr  # noqa: F401
except ImportError as error:
    raise MissingExtraError("flwr", "flower") from error

from fl.flower.apps import client_app, server_app
from fl.flower.grid import GridPost

__all__ = ["GridPost", "client_app", "server_app"]
