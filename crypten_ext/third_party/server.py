"""The third party's side: CrypTen's own tuples, from streams that it shares with each party."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crypten_ext.masks import install as masks
from crypten_ext.masks.key_agreement import KeyPair
from crypten_ext.third_party import streams

import crypten
from crypten import communicator
from crypten.mpc.provider import TTPServer

_host_init: Callable[..., None] = TTPServer.__init__


class ThirdParty(TTPServer):
    """CrypTen's trusted third party; RANK must equal WORLD_SIZE.

    It draws as CrypTen's own does until the parties enable this extension (`streams`).
    """

    def __init__(self) -> None:
        masks.read_keystreams()
        crypten.cfg.mpc.provider = "TTP"
        if not crypten.is_initialized():
            crypten.init()
        world = communicator.get()
        self.ttp_group, self.comm_group = world.ttp_group, world.ttp_comm_group
        self.device = "cpu"
        self._setup_generators()
        self._seeded = self.generators

    def run(self) -> None:
        """Answers party 0's requests until it says that none will follow.

        CrypTen's own server takes a broken connection for the end; here it is an error.
        """
        world = communicator.get()
        while (message := world.recv_obj(0, self.ttp_group)) != "terminate":
            self.device = message["device"]
            answer = getattr(self, message["function"])(*message["args"], **message["kwargs"])
            if answer is not None:
                world.send_obj(answer.size(), 0, self.ttp_group)
                world.broadcast(answer, world.get_ttp_rank(), self.comm_group)

    def agree_on_keys(self) -> None:
        """The next words come from streams keyed by X25519."""
        own = KeyPair()
        *publics, _ = streams.exchange(own)
        self.generators = [streams.stream(own, theirs, rank) for rank, theirs in enumerate(publics)]

    def return_to_seeds(self) -> None:
        """The next words come from CrypTen's own generators."""
        self.generators = self._seeded


def install() -> None:
    """The third party's tuples come from keyed streams from here on; a second call does nothing.

    In the third party's process CrypTen's ``TTPServer()``, also where
    ``crypten.mpc.run_multiprocess`` starts it, answers as `ThirdParty` does.

    Raises InsecureError as `streams.install`.
    """
    TTPServer.__init__ = _answer
    streams.install()


def remove() -> None:
    """The third party's tuples come from CrypTen's seeds again; every party must call it."""
    TTPServer.__init__ = _host_init
    streams.remove()


def _answer(_: Any) -> None:
    ThirdParty().run()


def serve() -> None:
    """Answers the parties of one run, from ``crypten.init()`` to party 0's ``crypten.uninit()``.

    Raises:
        RuntimeError: a party's connection broke.
    """
    ThirdParty().run()
    crypten.uninit()
