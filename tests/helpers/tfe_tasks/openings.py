"""What servers 0 and 1 of ABY3 open between them."""

import numpy as np

from tests.conformance.arenas.servers import PROTOCOL, share
from tests.helpers.openings import COUNT, record_openings
from tfe_ext.ring.aby3_ring import ABY3Ring


def opened(unmasked: str = "") -> list[list[int]]:
    """Returns all opened words, by opening; both servers must see the same."""
    ring = ABY3Ring(PROTOCOL.ring.servers, 20)
    words = record_openings(ring, share(np.zeros(COUNT, dtype=np.int64)), unmasked)
    at_0, at_1 = (
        np.concatenate([word.parts[i].numpy().reshape(-1, COUNT) for word in words])
        for i in range(2)
    )
    np.testing.assert_array_equal(at_0, at_1)
    return at_0.tolist()
