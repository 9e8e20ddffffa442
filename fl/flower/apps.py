"""The two apps of a run: what Flower's SuperLink runs, and what each SuperNode does."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from logging import getLogger
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from torch import nn

from extensions import durable
from extensions.errors import ArgumentError
from fl.clients import ClientTraining
from fl.flower.grid import FIELD, RECORD, GridPost, carried, content
from fl.remote.client import RemoteClient, made
from fl.remote.run import RemoteRun
from fl.round.identities import KeyFolder
from fl.training.callbacks import Callback
from fl.training.data import Records
from fl.training.settings import RunSettings

PEERS, KEY, NOTES, PARTITION = "fl-peers", "fl-key", "fl-notes", "partition-id"
SESSION = "fl-session"
"""Names in a node's configuration, or the run's: see `client_app`."""
LOG = getLogger("flwr")


def server_app(
    *,
    model: nn.Module,
    clients: int,
    rounds: int,
    test_set: Callable[[], Records] | None = None,
    folder: Path | None = None,
    callbacks: Sequence[Callback] = (),
    patience: float = 120.0,
    **settings: Any,
) -> ServerApp:
    """Returns the app of the server.

    After every round it logs what came of it, and at the end where the clients' keys come from.

    Args:
        model: the model to start from.
        clients: of the run, how many.
        rounds: of the whole run, unless the run's configuration says ``fl-rounds``.
        test_set: returns records by which the server evaluates the model; None: it does not.
        folder: where it saves the run, in ``run.npz``, and a report, in ``report.json``; a run that
            ended early goes on from there, in a new run of the app. None: the run's configuration
            may say ``fl-folder``, else nowhere.
        callbacks: called after every round.
        patience: seconds to wait for all clients at the beginning.
        settings: those of `fl.FederatedAveraging`: aggregator, mechanism, client_fraction, ...; not
            `train`, which is the clients'. The run's configuration may say ``fl-session``.

    Raises:
        ArgumentError: when the app runs: a setting outside its range, or no keys where clients
            sign.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        where = folder or _path(context.run_config, "fl-folder")
        named = _named(settings, context.run_config)
        run = RemoteRun(
            model=model,
            rounds=int(context.run_config.get("fl-rounds", rounds)),
            clients=clients,
            identities=_keys(context.run_config),
            checkpoint=where and where / "run.npz",
            patience=patience,
            **named,
        )
        tell = lambda history, model: LOG.info("fl: %s", history[-1])  # noqa: E731
        try:
            run.fit(GridPost(grid), test_set and test_set(), callbacks=[tell, *callbacks])
        finally:
            LOG.info("fl: keys of clients: %s", dict(Counter(run.keys.values())))
            if where is not None:
                _report(run, where / "report.json")

    return app


def client_app(
    *,
    model: nn.Module,
    clients: int,
    records: Callable[[Context], Records],
    train: ClientTraining | None = None,
    **settings: Any,
) -> ClientApp:
    """Returns the app of the clients.

    The configuration of a SuperNode says ``fl-peers``, the folder with all clients' public keys,
    ``fl-key``, the file of its own private key, by which its number is found, ``fl-notes``, a
    folder in which it notes the rounds that it took part in, and ``fl-session``, the name of the
    run; a node without a key takes that from the run's configuration. Without keys, for aggregators
    whose clients do not sign, ``partition-id`` is its number. What a client keeps between two
    messages is in the records of its context, as one value of bytes. Where `records` fails, or
    gives what the model does not take, the words of the error stay in the client's log.

    Args:
        model: as the server's.
        clients: as the server's.
        records: returns the client's own, from the context of its SuperNode.
        train: what the client does, of (model, records, round); None: what the settings say.
        settings: the same as the server's. A client that is told others takes no part.
    """
    app = ClientApp()

    @app.query()
    def query(message: Message, context: Context) -> Message:
        keys = _keys({**context.run_config, **context.node_config})
        own = context.node_config
        named = _named(settings, own if KEY in own else {**context.run_config, **own})
        number = context.node_config.get(PARTITION)
        if keys is not None and keys.private is not None:
            number = keys.own()
        if not isinstance(number, int):
            raise ArgumentError(
                PARTITION, number, "the client's number", f"Or give a key as {KEY}."
            )
        client = made(
            number,
            lambda: RemoteClient(
                settings=RunSettings(**named),
                model=model,
                clients=clients,
                client=number,
                records=records(context),
                train=train,
                identities=keys,
                folder=_path(context.node_config, NOTES),
            ),
        )
        kept = carried(context.state) or b""
        request = carried(message.content) or b""
        answer, kept = client.answer(request, kept, context.node_id)
        context.state[RECORD] = ConfigRecord({FIELD: kept})
        return Message(content(answer), reply_to=message)

    return app


def _path(config: Mapping[str, Any], name: str) -> Path | None:
    value = config.get(name)
    return Path(str(value)).expanduser() if value else None


def _named(settings: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings with the session's name, which a configuration may say."""
    name = config.get(SESSION)
    return {**settings} if name is None else {**settings, "session": str(name)}


def _keys(config: Mapping[str, Any]) -> KeyFolder | None:
    peers = _path(config, PEERS)
    return None if peers is None else KeyFolder(peers, _path(config, KEY))


def _report(run: RemoteRun, path: Path) -> None:
    report = {"keys": run.keys, "history": json.loads(run.history.to_json())}
    with durable.write(path) as file:
        file.write(json.dumps(report, indent=1).encode())
