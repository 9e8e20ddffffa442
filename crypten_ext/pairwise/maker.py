"""One party's tuples, made with the others when they are asked for, or a step's all at once.

After a whole step the next one is expected to ask for the same. Its tuples are then made together
when it begins, in as many rounds as the longest of them takes; what is not asked for is dropped.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch

from crypten_ext.dealer.messages import LONGEST_STEP
from crypten_ext.dealer.provider import AskingProvider, add, drop
from crypten_ext.dealer.recipes import recipe_of
from crypten_ext.dealer.requests import Request
from crypten_ext.pairwise.rounds import run
from extensions.errors import ArgumentError
from extensions.two_party import Peers, cost_of, made, meet, together

from crypten import communicator

PORTION = 1 << 22
"""Transfers of all parties whose tuples are made together, which bounds what each of them holds."""
Shares = list[torch.Tensor]


class Source(Protocol):
    """Where this party's tuples come from; all parties ask for the same, in one order."""

    @property
    def number(self) -> int:
        """That of the tuple that is asked for next."""

    def deal(self, request: Request) -> Shares:
        """Returns this party's shares of one tuple: masks, then the words that follow."""

    def begin_step(self) -> None:
        """A step of a loop begins, at every party."""

    def close(self) -> None:
        """No more tuples are needed."""


class Maker:
    """The tuples that the parties of a process group make; they meet when it is built.

    Raises:
        ArgumentError: fewer than 2 parties, or more than 4.
        MissingExtraError: `seal-python` is not installed.
        CiphertextError, TransferError: a party's keys are malformed; it is named.
        PartyLostError: a party is lost meanwhile.
    """

    def __init__(self, rank: int, parties: int, group: Any) -> None:
        self.parties, self.group = parties, group
        self.tuples = 0
        self.peers: Peers = run(meet(rank, parties), group)
        self.number = 0
        self._stock: deque[tuple[Request, Shares]] = deque()
        self._asked: list[Request] | None = None

    def deal(self, request: Request) -> Shares:
        """Returns this party's shares of one tuple.

        Raises:
            CiphertextError, TransferError: a party sent what cannot be used; it is named.
            PartyLostError: a party is lost.
        """
        self.number += 1
        if self._asked is not None and len(self._asked) <= LONGEST_STEP:
            self._asked.append(request)
        if self._stock and self._stock[0][0] == request:
            return self._stock.popleft()[1]
        self._stock.clear()
        (shares,) = self.make([request])
        return shares

    def begin_step(self) -> None:
        """Makes what the last step asked for: the next one is expected to ask for the same."""
        asked, self._asked = self._asked, []
        if not asked or len(asked) > LONGEST_STEP:
            return
        self._stock.clear()
        for portion in portions(asked, self.parties):
            self._stock.extend(zip(portion, self.make(portion), strict=True))

    def close(self) -> None:
        """Does nothing: what the parties have in common is forgotten with this object."""

    def make(self, requests: Sequence[Request]) -> list[Shares]:
        """Returns shares of fresh tuples, which are made at once."""
        for request in requests:
            recipe_of(request)  # or parties would stop at different places
        makings = [made(self.peers, one.kind, one.parameters) for one in requests]
        found = run(together(makings), self.group)
        self.tuples += len(requests)
        return [[torch.from_numpy(share.copy()) for share in shares] for shares in found]


def portions(requests: Sequence[Request], parties: int) -> Iterator[list[Request]]:
    """Yields requests that are made at once, in their order."""
    portion: list[Request] = []
    transfers = 0
    for request in requests:
        size = cost_of(request.kind, request.parameters, parties).transfers
        if portion and transfers + size > PORTION:
            yield portion
            portion, transfers = [], 0
        portion.append(request)
        transfers += size
    if portion:
        yield portion


_source: Source | None = None


def current() -> Source:
    """Returns where this process's tuples come from; the parties meet for the first one.

    Raises what `Maker` does.
    """
    global _source
    world = communicator.get()
    if isinstance(_source, Maker) and _source.group is not world.main_group:
        _source = None  # CrypTen was started anew
    if _source is None:
        _source = Maker(world.get_rank(), world.get_world_size(), world.main_group)
    return _source


def peers() -> Peers:
    """Returns this party's end of all pairs; the parties meet if they have not.

    Raises ArgumentError if prepared tuples are in use, with which nobody meets; else as `Maker`.
    """
    source = current()
    if not isinstance(source, Maker):
        given, rule = type(source).__name__, "where parties must meet"
        raise ArgumentError("material", given, rule, code="conflict")
    return source.peers


def use(source: Source) -> None:
    """This process's tuples come from there."""
    global _source
    _source = source


def is_in_use() -> bool:
    """Whether this process has tuples already."""
    return _source is not None


def disconnect() -> None:
    """No more tuples are needed; the next one has the parties meet anew."""
    global _source
    if _source is not None:
        _source.close()
    _source = None


class PartiesProvider(AskingProvider):
    """Tuples of CrypTen's kinds and of ours (`extensions.ring.tuples.TupleSource`).

    Guarantees:
        What any n - 1 parties that follow the protocol see tells only their own shares of the
        masks. There is no noise that no party knows: that takes a dealer.

    Cost:
        Rounds and bytes among the parties, of which neither counts as an opening's
        (`extensions.two_party.pairwise`); from the second step of a loop on, all at its beginning.
    """

    NAME = "PARTIES"

    def ask(self, request: Request) -> list[torch.Tensor]:
        """Returns this party's shares of one tuple."""
        return current().deal(request)

    @property
    def number(self) -> int:
        """That of the tuple that is asked for next."""
        return current().number

    rows_stay = True

    def stand(self, rows: Sequence[int], own: torch.Tensor) -> tuple[int, torch.Tensor | None]:
        """Returns a number under which each party multiplies its own rows, and sends them nowhere.

        With prepared tuples, which were made without them, it is as with a dealer.
        """
        source = current()
        if not isinstance(source, Maker):
            return super().stand(rows, own)
        source.number += 1
        source.peers.standing[source.number] = own.numpy()
        return source.number, None

    def begin_step(self) -> None:
        """A step of a loop begins, at every party."""
        current().begin_step()


def install() -> None:
    """``crypten.cfg.mpc.provider = "PARTIES"`` chooses them from here on."""
    add(PartiesProvider())


def remove() -> None:
    """CrypTen knows this provider no more, and what the parties had in common is forgotten."""
    disconnect()
    drop(PartiesProvider.NAME)
