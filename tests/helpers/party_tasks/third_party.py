"""What CrypTen's third party deals to the parties of test_third_party.py.

Run as a script, one process of a computation by hand, after torch was seeded alike in all.
"""

import os
import sys

import torch

import crypten_ext
from crypten_ext import third_party
from crypten_ext.processes.worker import Context
from crypten_ext.ring.exchange import open_sum
from extensions.errors import InsecureError

import crypten
from crypten.common import rng
from crypten.mpc.provider import TTPServer
from crypten.mpc.provider.ttp_provider import TTPClient


def share_of_mask() -> list[int]:
    """Returns this party's share of a mask that is dealt, with its right square."""
    dealt = [each.share for each in crypten.mpc.get_default_provider().square((8,))]
    mask, square = open_sum(dealt)
    assert torch.equal(mask * mask, square)
    shares: list[int] = dealt[0].tolist()
    return shares


def draw(context: Context) -> dict[str, list[int]]:
    """Returns words that are dealt by CrypTen's streams, and by ours after each `enable`.

    The guess is what 32 bits of the seed, which travelled in the clear, make of CrypTen's stream:
    the first draw of a fresh pool.
    """
    seed = TTPClient.get().generator.initial_seed()
    guess = torch.Generator().manual_seed(seed & 0xFFFFFFFF)
    drawn = {"guess": rng.generate_random_ring_element((8,), generator=guess).tolist()}
    drawn["CrypTen"] = share_of_mask()
    for name in ("first", "second"):
        torch.manual_seed(7)
        crypten_ext.enable()
        drawn[name] = share_of_mask()
        crypten_ext.disable()
    drawn["CrypTen again"] = share_of_mask()
    return drawn


def ask_nonsense(context: Context) -> None:
    """Asks the third party for something that it does not know."""
    if context.rank == 0:
        TTPClient.get().ttp_request("no such function", "cpu")


def by_hand(role: str) -> None:
    """One process: a party, or a third party of either kind."""
    torch.manual_seed(7)
    crypten.cfg.mpc.provider = "TTP"
    if role == "CrypTen's server":
        TTPServer()
    elif role == "server":
        third_party.serve()
    elif role == "CrypTen's server, enabled":
        crypten_ext.enable()
        TTPServer()
    else:
        crypten_ext.enable()
        try:
            crypten.init()
        except InsecureError as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)  # past gloo's threads, which abort where a connection broke
        print(*share_of_mask(), flush=True)
        crypten.uninit()


if __name__ == "__main__":
    by_hand(sys.argv[1])
