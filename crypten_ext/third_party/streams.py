"""A party's stream of the third party's tuples: AES-256-CTR instead of a Mersenne Twister.

CrypTen's third party sends each party a seed, of which torch uses 32 bits, in the clear. Here each
party and the third party agree on a key by X25519, whose public values travel over the process
group. Party 0 asks for it, and to return to the seeds, as it asks for tuples.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from crypten_ext.masks.key_agreement import KeyPair
from crypten_ext.masks.keystream import Keystream
from extensions.errors import InsecureError

import crypten
from crypten import communicator
from crypten.mpc.provider.ttp_provider import TTPClient

KEYED, SEEDED = "agree_on_keys", "return_to_seeds"

_host_init: Callable[[], None] = vars(TTPClient)["_init"]
_host_generator: Any = None


def install() -> None:
    """Tuples of the third party come from keyed streams from here on; a second call does nothing.

    If CrypTen was initialised with the third party, keys are agreed at once, so that every party
    must call it; otherwise `crypten.init` agrees on them, if it then has the third party.

    Raises InsecureError if the third party knows no keyed streams, as CrypTen's own does not.
    """
    TTPClient._init = _keyed_init
    if _is_connected() and _host_generator is None:
        _agree()


def remove() -> None:
    """The third party's tuples come from CrypTen's seeds again; every party must call it."""
    global _host_generator
    TTPClient._init = _host_init
    generator, _host_generator = _host_generator, None
    if generator is not None and _is_connected():
        TTPClient.get().generator = generator
        _tell(SEEDED)


def exchange(own: KeyPair) -> list[torch.Tensor]:
    """Returns the public values of the parties by rank, then the third party's; one round."""
    everybody = [torch.empty_like(own.public) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, own.public, group=communicator.get().ttp_group)
    return everybody


def stream(own: KeyPair, theirs: torch.Tensor, rank: int) -> Keystream:
    """Returns what party `rank` and the third party draw alike."""
    parties = communicator.get().get_world_size()
    return Keystream(own.agree(theirs, f"third party {rank} of {parties}"))


def _is_connected() -> bool:
    return crypten.is_initialized() and bool(communicator.get().ttp_initialized)


def _init_keyed() -> None:
    _host_init()
    _agree()


_keyed_init = staticmethod(_init_keyed)


def _agree() -> None:
    global _host_generator
    client, own = TTPClient.get(), KeyPair()
    try:
        _tell(KEYED)
        everybody = exchange(own)
    except RuntimeError as error:
        raise InsecureError(
            "The third party did not agree on keys; CrypTen's own TTPServer draws from 32 seed "
            "bits that travel in the clear. Call crypten_ext.enable() in its process too, or start "
            "crypten_ext.third_party.serve() in its place, or use the dealer."
        ) from error
    _host_generator = client.generator
    client.generator = stream(own, everybody[-1], communicator.get().get_rank())


def _tell(function: str) -> None:
    """The third party calls its function of that name next; only party 0 sends the request."""
    world = communicator.get()
    if world.get_rank() == 0:
        message = {"function": function, "device": "cpu", "args": (), "kwargs": {}}
        world.send_obj(message, world.get_ttp_rank(), world.ttp_group)
