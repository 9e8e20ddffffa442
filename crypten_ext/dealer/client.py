"""One party's side of the dealing: its own stream for every tuple, put right by corrections."""

from __future__ import annotations

import os
from contextlib import suppress

import torch

from crypten_ext.dealer import messages
from crypten_ext.dealer.corrections import Corrections
from crypten_ext.dealer.recipes import recipe_of
from crypten_ext.dealer.requests import Request
from crypten_ext.dealer.wire import BrokenFrameError, connect
from crypten_ext.keystream import Keystream, derive_key
from extensions.errors import DealerLostError, PeaError

from crypten import communicator

ADDRESS = "DEALER_ADDRESS"
_PATIENCE = 30.0
_LEAVING = 10.0


def tuple_stream(key: bytes, sequence: int, request: Request) -> Keystream:
    """Returns the stream of one party for one tuple.

    The stream depends on the tuple's number and on all that was asked for, so that the words of a
    tuple which was expected but not asked for are never used for another one.
    """
    return Keystream(derive_key(key, f"tuple {sequence} {request.digest.hex()}"))


class Client:
    """A party's tuples; all parties ask for the same tuples in the same order.

    Args:
        address: "HOST:PORT" of the dealer.
        rank: of this party; the last one receives the corrections.
        parties: number of parties.

    Raises:
        DealerLostError: no dealer answers there, or it refuses this party.
    """

    def __init__(self, address: str, rank: int, parties: int) -> None:
        try:
            self._link, self._key = connect(address, rank, parties, _PATIENCE)
        except OSError as error:
            raise DealerLostError(f"does not answer at {address}: {error}.") from error
        except BrokenFrameError as error:
            raise DealerLostError(f"at {address} {error}.") from error
        self.corrections = Corrections(self._link) if rank == parties - 1 else None
        self._sequence = 0
        self.corrected_bytes = 0

    def deal(self, kind: str, *parameters: object) -> list[torch.Tensor]:
        """Returns this party's shares of one tuple: masks, then the words that depend on them.

        Raises:
            DealerLostError: the dealer died, is late, or sent what cannot be used.
        """
        request = Request.of(kind, *parameters)
        recipe = recipe_of(request)
        share = recipe.expand(tuple_stream(self._key, self._sequence, request))
        if self.corrections is not None:
            words = self.corrections.take(self._sequence, request, recipe.corrected_words)
            share = recipe.correct(share, words)
        self._sequence += 1
        self.corrected_bytes += 8 * recipe.corrected_words
        return share

    def begin_step(self) -> None:
        """A step begins (see `crypten_ext.dealer.begin_step`)."""
        if self.corrections is not None:
            self.corrections.begin_step(self._sequence)

    def close(self) -> None:
        """The dealer knows that this party needs nothing more."""
        with suppress(OSError):
            if self.corrections is not None:
                self.corrections.finish(_LEAVING)
            else:
                self._link.send(messages.BYE)
        self._link.close()


_client: Client | None = None


def current() -> Client:
    """Returns this process's client, connected to ``DEALER_ADDRESS`` at the first call.

    Raises:
        PeaError: no address is known.
        DealerLostError: no dealer answers there.
    """
    global _client
    if _client is None:
        if ADDRESS not in os.environ:
            raise PeaError(
                "No dealer is known. Start one with `pea dealer` and set the environment variable "
                f"{ADDRESS} to its HOST:PORT, or set crypten.cfg.mpc.provider to 'TFP'."
            )
        world = communicator.get()
        _client = Client(os.environ[ADDRESS], world.get_rank(), world.get_world_size())
    return _client


def disconnect() -> None:
    """The dealer knows that this process needs no more tuples; a later request connects anew."""
    global _client
    if _client is not None:
        _client.close()
        _client = None


def corrected_bytes() -> int:
    """Returns the bytes of all corrections so far that the dealer sent the last party."""
    return _client.corrected_bytes if _client is not None else 0
