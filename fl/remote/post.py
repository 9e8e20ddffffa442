"""What an engine does for a run: it carries requests to nodes, and answers back."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """What came back of a request.

    Attributes:
        node: to which it was sent.
        data: the answer; None if there is none.
        reason: why there is none.
    """

    node: int
    data: bytes | None
    reason: str = ""


class Post(ABC):
    """Carries bytes to nodes, each of which answers every request once, or never.

    Requests are made while they are sent, and answers are used up as they come, so that one that
    keeps neither has no more of them in memory than it holds at a time.
    """

    @abstractmethod
    def nodes(self) -> Iterable[int]:
        """Returns the nodes that are connected."""

    def owner(self, node: int) -> bytes | None:
        """Returns the public key by which the engine authenticated a node, in PEM; or None."""
        return None

    @abstractmethod
    def send(self, requests: Iterable[tuple[int, bytes]]) -> None:
        """Sends each node a request."""

    @abstractmethod
    def collect(self, wait: float) -> Iterable[Answer]:
        """Returns answers that came, waiting for so many seconds at most until there is one."""
