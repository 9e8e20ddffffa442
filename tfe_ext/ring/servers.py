"""The three servers of ABY3: their devices, and the streams from which they draw uniform words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from tfe_ext.streams import chacha
from tfe_ext.streams.chacha import KeystreamOn
from tfe_ext.streams.randomness import PrivateStreams, Stream


@dataclass(frozen=True)
class Servers:
    """What our protocols need to know of the servers.

    Attributes:
        devices: names of the servers' devices, in the servers' order.
        pairwise: one stream for each pair of servers; servers i - 1 and i hold ``pairwise[i]``.
        private: by device, the stream that it alone holds; owners of inputs have one as well.
    """

    devices: tuple[str, ...]
    pairwise: tuple[Stream, ...]
    private: PrivateStreams

    @classmethod
    def with_fresh_keys(
        cls, devices: Sequence[str], keystream_on: KeystreamOn = chacha.keystream_on
    ) -> Self:
        """Returns servers on these devices, every pair of them with a key of its own."""
        pairs = [(devices[i], devices[i - 1]) for i in range(len(devices))]
        return cls(
            tuple(devices),
            tuple(Stream(pair, keystream_on) for pair in pairs),
            PrivateStreams(keystream_on),
        )

    def rekey(self) -> None:
        """Gives every stream a new key; graphs that were traced before draw from it too."""
        for stream in (*self.pairwise, *self.private.values()):
            stream.rekey()
