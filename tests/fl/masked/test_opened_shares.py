"""The keys that clients tell the server open one share of each dealer and no other one."""

import pytest

from fl.masked.ciphers import unseal
from fl.masked.terms import MASK_KEY, SECRETS, SEED
from fl.protocols import SERVER
from fl.simulation import DropOut
from tests.helpers.federated.masked_rounds import half, run, updates


@pytest.mark.parametrize("lost", [(), (1,), (1, 5)])
def test_a_key_opens_the_seed_of_a_survivor_or_the_mask_key_of_another_and_nothing_else(lost):
    drop_outs = [DropOut(client, "masked") for client in lost]
    outcome, _ = run(half(), updates(6), drop_outs=drop_outs)
    received = outcome.transcript.received
    sealed = {m.sender: m.body["sealed"] for m in received(SERVER, "shares")}
    cells = {
        (dealer, holder, kind): rows[holder][SECRETS.index(kind)].tobytes()
        for dealer, rows in sealed.items()
        for holder in range(6)
        for kind in SECRETS
    }
    helpers = received(SERVER, "unmask")
    assert len(helpers) == 6 - len(lost)
    for message in helpers:
        for dealer, key in zip(sorted(sealed), message.body["keys"], strict=True):
            kind = MASK_KEY if dealer in lost else SEED
            opened = [place for place, cell in cells.items() if unseal(key.tobytes(), cell)]
            assert opened == [(dealer, message.sender, kind)]
