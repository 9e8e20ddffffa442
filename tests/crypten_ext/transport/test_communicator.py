"""CrypTen's communicator over TLS gives what it gives over gloo, in its own rounds and bytes."""

from contextlib import suppress

import pytest
import torch

from crypten_ext.processes.launch import Parties
from crypten_ext.transport.group import DIRECT_WORDS
from crypten_ext.transport.objects import decode, encode
from extensions.errors import MessageError, PartyLostError
from tests.helpers.patience import PATIENCE
from tests.helpers.refused import refused
from tests.helpers.wire import on_wire

TASKS = "tests.helpers.party_tasks.transport"


@pytest.fixture(scope="module")
def three():
    """Three parties that talk by TLS."""
    with Parties(3, timeout=PATIENCE, transport="tls") as parties:
        yield parties


def alike(ours, theirs) -> bool:
    if isinstance(ours, torch.Tensor):
        return ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    if isinstance(ours, torch.nn.Module):
        assert str(ours) == str(theirs)
        return alike(list(ours.parameters()), list(theirs.parameters()))
    if isinstance(ours, list | tuple):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(ours, dict):
        assert list(ours) == list(theirs)
        return alike(list(ours.values()), list(theirs.values()))
    return type(ours) is type(theirs) and ours == theirs


def test_every_function_gives_what_it_gives_over_gloo(three, pools):
    ours = three.run(f"{TASKS}:everything")
    theirs = pools.run(3, f"{TASKS}:everything", over="gloo")
    for mine, other in zip(ours, theirs, strict=True):
        for name, value in mine.items():
            assert alike(value, other[name]), name


@pytest.mark.parametrize("words", [1, 128, DIRECT_WORDS])
def test_a_small_sum_takes_one_round_and_its_words_to_each(three, words):
    for found in three.run(f"{TASKS}:counts", words=words, times=5):
        assert (found["rounds"], found["mesh"]) == (5, 5)
        assert found["sent"] == found["received"] == 5 * 2 * 8 * words
        assert found["wire"] == 5 * 2 * on_wire(8 * words)


@pytest.mark.parametrize("words", [DIRECT_WORDS + 3, 100_000])
def test_a_large_sum_is_a_round_of_two_latencies_and_four_thirds_of_its_words(three, words):
    results = three.run(f"{TASKS}:counts", words=words, times=5)
    for found in results:
        assert (found["rounds"], found["mesh"]) == (5, 10)
        assert abs(found["sent"] - 5 * 8 * words * 4 / 3) <= 5 * 4 * 8
        assert found["wire"] <= 1.01 * found["sent"]
    assert sum(one["sent"] for one in results) == sum(one["received"] for one in results)


def test_large_sums_begun_at_once_take_two_latencies(three):
    assert three.run(f"{TASKS}:together", number=4) == [2, 2, 2]


def test_crypten_begins_anew_over_the_same_connections(three):
    assert three.run(f"{TASKS}:again") == ["init_0", "init_1", "init_2"]


def test_bytes_that_are_no_object_are_refused(three):
    assert three.run(f"{TASKS}:stray")[1].startswith("MessageError: no object")


def test_a_party_that_dies_is_named():
    with Parties(3, timeout=PATIENCE, transport="tls") as parties:
        with pytest.raises(PartyLostError) as raised:
            parties.run(f"{TASKS}:lost")
        assert raised.value.rank == 1


def test_objects_are_values_of_known_types_alone():
    class Own:
        pass

    with refused("obj", "type", value="Own"):
        encode([1, {"a": Own()}])
    good = encode({"a": [torch.ones(2, 3), (1, None)]})
    assert decode(good)["a"][1] == (1, None)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    assert alike(decode(encode(model)), model)
    for at in range(len(good)):
        with pytest.raises(MessageError):
            decode(good[:at])
        altered = good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :]
        with suppress(MessageError):
            decode(altered)
    with pytest.raises(MessageError, match="bytes after"):
        decode(good + b"n")
    with pytest.raises(MessageError, match="too deep"):
        decode(b"l\0\0\0\1" * 100 + encode(None))
    with pytest.raises(MessageError):
        decode(b"M" + encode(("os.system", {})))
