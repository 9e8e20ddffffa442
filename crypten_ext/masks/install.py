"""CrypTen's masks from keyed streams instead of Mersenne Twisters with 32 effective seed bits.

Each party agrees on a key with either neighbour by X25519, whose public values travel over the
process group, and draws what it alone knows from a key of its operating system. CrypTen's zero
sharings, and all that its default provider deals, then come from AES-256-CTR.
`crypten_ext.third_party` does the same for the streams of CrypTen's trusted third party.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from crypten_ext.masks.key_agreement import KeyPair
from crypten_ext.masks.keystream import KeyedGenerator, Keystream

import crypten
from crypten import communicator
from crypten.common import rng
from crypten.mpc.primitives import arithmetic, binary
from crypten.mpc.provider import tfp_provider, ttp_provider

CPU = torch.device("cpu")
REPLACED = ("prev", "next", "local")
_MODULES = (rng, arithmetic, binary, tfp_provider, ttp_provider)
_NAMES = ("generate_random_ring_element", "generate_kbit_random_tensor")

_host_functions: dict[str, Callable[..., torch.Tensor]] = {n: getattr(rng, n) for n in _NAMES}
_host_setup: Callable[[], None] = crypten._setup_prng
_host_generators: dict[str, Any] = {}


def install() -> None:
    """CrypTen draws its masks from keyed streams from here on; a second call changes nothing.

    If CrypTen is initialised, keys are agreed at once, in one round, so that every party must
    call it; otherwise `crypten.init` agrees on them.
    """
    crypten._setup_prng = _setup_keyed
    read_keystreams()
    if crypten.is_initialized() and not is_installed():
        _agree_on_keys()


def read_keystreams() -> None:
    """CrypTen's functions that draw words accept a `Keystream` as their generator from here on."""
    _set_functions(_keyed_functions)


def remove() -> None:
    """CrypTen draws its masks as it did before `install`."""
    crypten._setup_prng = _host_setup
    _set_functions(_host_functions)
    for name, generator in _host_generators.items():
        crypten.generators[name][CPU] = generator
    _host_generators.clear()


def is_installed() -> bool:
    """Whether the streams in use are keyed."""
    return all(isinstance(crypten.generators[name].get(CPU), Keystream) for name in REPLACED)


def _draw(host: Callable[..., torch.Tensor], size: Any, **kwargs: Any) -> torch.Tensor:
    """Returns words of the named stream if it is keyed, else what the host draws."""
    generator = kwargs.get("generator")
    if generator is None:
        generator = crypten.generators["local"].get(CPU)
    device = kwargs.get("device")
    if not isinstance(generator, Keystream) or torch.device(device or CPU) != CPU:
        return host(size, **kwargs)
    words = generator.words(size)
    bits = kwargs.get("bitlength")
    return words if bits in (None, 64) else words & ((1 << bits) - 1)


_keyed_functions = {n: functools.partial(_draw, f) for n, f in _host_functions.items()}


def _set_functions(functions: Mapping[str, Callable[..., torch.Tensor]]) -> None:
    for module in _MODULES:
        for name, function in functions.items():
            if hasattr(module, name):
                setattr(module, name, function)


def _setup_keyed() -> None:
    _host_generators.clear()
    _host_setup()
    _agree_on_keys()


def _agree_on_keys() -> None:
    """Replaces the generators of this process by streams that its neighbours share."""
    world = communicator.get()
    rank, parties = world.get_rank(), world.get_world_size()
    before, after = (rank - 1) % parties, (rank + 1) % parties
    own = KeyPair()
    everybody = world.all_gather(own.public)

    def stream(owner: int, neighbour: int) -> KeyedGenerator:
        peer = neighbour if owner == rank else owner
        purpose = f"zero sharing {owner}->{neighbour} of {parties}"
        return KeyedGenerator(own.agree(everybody[peer], purpose))

    streams = {
        "prev": stream(before, rank),
        "next": stream(rank, after),
        "local": KeyedGenerator.fresh(),
    }
    for name, replacement in streams.items():
        _host_generators.setdefault(name, crypten.generators[name][CPU])
        crypten.generators[name][CPU] = replacement
