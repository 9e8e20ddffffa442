"""CrypTen's third party, whose tuples come from AES-256-CTR instead of a Mersenne Twister.

CrypTen's third party sends each party a seed, of which torch uses 32 bits, in the clear. Here each
party and the third party agree on a key by X25519, whose public values travel over the process
group. Party 0 asks for it, and to return to the seeds, as it asks for tuples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from crypten_ext.masks import install as masks
from crypten_ext.masks.key_agreement import KeyPair
from crypten_ext.masks.keystream import Keystream
from extensions.errors import InsecureError

import crypten
from crypten import communicator
from crypten.mpc.provider import TTPServer
from crypten.mpc.provider.ttp_provider import TTPClient

_host_server: Callable[..., None] = TTPServer.__init__
_host_client: Callable[[], None] = vars(TTPClient)["_init"]
_host_generator: Any = None


class ThirdParty(TTPServer):
    """CrypTen's trusted third party; RANK must equal WORLD_SIZE.

    It draws as CrypTen's own does until the parties enable this extension.
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
        *publics, _ = _exchange(own)
        self.generators = [_stream(own, theirs, rank) for rank, theirs in enumerate(publics)]

    def return_to_seeds(self) -> None:
        """The next words come from CrypTen's own generators."""
        self.generators = self._seeded


def install() -> None:
    """The third party's tuples come from keyed streams from here on; a second call does nothing.

    If CrypTen was initialised with the third party, keys are agreed at once, so that every party
    must call it; otherwise `crypten.init` agrees on them, if it then has the third party. In the
    third party's process CrypTen's ``TTPServer()``, also where ``crypten.mpc.run_multiprocess``
    starts it, answers as `ThirdParty` does.

    Raises InsecureError if the third party knows no keyed streams, as CrypTen's own does not.
    """
    TTPServer.__init__ = _answer
    TTPClient._init = _keyed_init
    if _is_connected() and _host_generator is None:
        _agree()


def remove() -> None:
    """The third party's tuples come from CrypTen's seeds again; every party must call it."""
    global _host_generator
    TTPServer.__init__ = _host_server
    TTPClient._init = _host_client
    generator, _host_generator = _host_generator, None
    if generator is not None and _is_connected():
        TTPClient.get().generator = generator
        _tell("return_to_seeds")


def _answer(_: Any) -> None:
    ThirdParty().run()


def serve() -> None:
    """Answers the parties of one run, from ``crypten.init()`` to party 0's ``crypten.uninit()``.

    Raises:
        RuntimeError: a party's connection broke.
    """
    ThirdParty().run()
    crypten.uninit()


def _exchange(own: KeyPair) -> list[torch.Tensor]:
    """Returns the public values of the parties by rank, then the third party's; one round."""
    everybody = [torch.empty_like(own.public) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, own.public, group=communicator.get().ttp_group)
    return everybody


def _stream(own: KeyPair, theirs: torch.Tensor, rank: int) -> Keystream:
    """Returns what party `rank` and the third party draw alike."""
    parties = communicator.get().get_world_size()
    return Keystream(own.agree(theirs, f"third party {rank} of {parties}"))


def _is_connected() -> bool:
    return crypten.is_initialized() and bool(communicator.get().ttp_initialized)


def _init_keyed() -> None:
    _host_client()
    _agree()


_keyed_init = staticmethod(_init_keyed)


def _agree() -> None:
    global _host_generator
    client, own = TTPClient.get(), KeyPair()
    try:
        _tell("agree_on_keys")
        everybody = _exchange(own)
    except RuntimeError as error:
        raise InsecureError(
            "The third party did not agree on keys. CrypTen's own TTPServer draws from 32 seed "
            "bits that it sends in the clear. Call crypten_ext.enable() in its process too, start "
            "crypten_ext.third_party.serve() instead, or use the dealer."
        ) from error
    _host_generator = client.generator
    client.generator = _stream(own, everybody[-1], communicator.get().get_rank())


def _tell(function: str) -> None:
    """The third party calls its function of that name next; only party 0 sends the request."""
    world = communicator.get()
    if world.get_rank() == 0:
        message = {"function": function, "device": "cpu", "args": (), "kwargs": {}}
        world.send_obj(message, world.get_ttp_rank(), world.ttp_group)
