"""The dealer's noise: of the stated law, known to no party, and the same whenever dealt again.

Every statistical assertion has a false-alarm probability of `ALARM`, or 1e-9 for `BINS_LIMIT`.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crypten_ext.dealer import Material, messages, prepare
from crypten_ext.dealer.client import Client
from crypten_ext.dealer.connection import connect
from crypten_ext.dealer.material import Header
from crypten_ext.dealer.recipes import recipe_of
from crypten_ext.dealer.requests import Request
from crypten_ext.dealer.streams import correction_of, portion, tuple_stream
from crypten_ext.local_dealer import local_end_at
from crypten_ext.processes.launch import Parties
from extensions.errors import DealerLostError, MaterialError, PartyLostError
from extensions.protocols.noise import LEAST_SCALE, summand_scale
from extensions.ring.fixed_point import Integers
from extensions.runs.config import TrainConfig
from extensions.runs.manifest import of_tuples, settings_of
from extensions.transport.handshake_messages import NO_RUN
from tests.crypten_ext.dealer.test_dealer import come, dealer_here
from tests.helpers.claims import claim
from tests.helpers.openings import COUNT, uniform_p_value
from tests.helpers.refused import refused
from tests.helpers.strategies import ALARM, BINS_LIMIT, bins_statistic, variance_p_value
from tests.helpers.talk import Talk

pytestmark = pytest.mark.usefixtures("imported")

TASKS = "tests.helpers.party_tasks.dealer_noise:"
SCALE = 1000.5
DRAWS = 50_000


def asked(*shapes: tuple[int, ...], scale: float = SCALE) -> Request:
    return Request.of("noise", scale.hex(), shapes)


def dealt(
    keys: list[bytes], dealers: bytes, sequence: int, request: Request
) -> tuple[list[Integers], Integers]:
    """Returns each party's words, its portion of the correction included, and the correction."""
    recipe = recipe_of(request)
    correction = torch.from_numpy(correction_of(keys, dealers, sequence, request))
    shares = []
    for rank, key in enumerate(keys):
        share = recipe.expand(tuple_stream(key, sequence, request), rank)
        own = portion(len(correction), sequence, rank, len(keys))
        recipe.correct(share, correction[own], own.start)
        shares.append(np.concatenate([words.numpy().ravel() for words in share]))
    return shares, correction.numpy()


def new_keys(count: int) -> list[bytes]:
    return [os.urandom(32) for _ in range(count)]


# --- law ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("parties", [2, 3, 5])
def test_the_sum_of_all_shares_is_a_discrete_gaussian(parties: int):
    shares, _ = dealt(new_keys(parties), os.urandom(32), 3, asked((DRAWS // 2, 1), (DRAWS // 2,)))
    noise = sum(shares)
    assert bins_statistic(noise, SCALE) < BINS_LIMIT < bins_statistic(noise, 1.05 * SCALE)


def test_noise_is_of_its_number_its_description_and_the_dealers_key():
    """So that what is dealt again is the same; different ones have nothing in common."""
    keys, own = new_keys(3), os.urandom(32)
    request = asked((40,))
    first, correction = dealt(keys, own, 7, request)
    again, same = dealt(keys, own, 7, request)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(correction, same)
    others = [
        dealt(keys, own, 8, request),
        dealt(keys, own, 7, asked((40,), scale=math.nextafter(SCALE, 0))),
        dealt(keys, own, 7, asked((8, 5))),
        dealt(keys, os.urandom(32), 7, request),
    ]
    noises = [sum(first), *(sum(shares) for shares, _ in others)]
    assert len({tuple(noise.tolist()) for noise in noises}) == len(noises)


def test_the_noise_itself_is_a_function_of_the_dealers_key_alone():
    own, request = os.urandom(32), asked((40,))
    one, other = (sum(dealt(new_keys(3), own, 7, request)[0]) for _ in range(2))
    np.testing.assert_array_equal(one, other)


# --- what the parties know of it ----------------------------------------------------------------


@claim("Two of three parties together still face all of this noise.")
@pytest.mark.parametrize("honest", range(3))
def test_nothing_that_two_of_three_parties_have_tells_them_the_noise(honest: int):
    """Their words and corrections are uniform together, and so is what they add up to."""
    keys, request, size = new_keys(3), asked((3 * COUNT // 2,)), 3 * COUNT // 2
    recipe = recipe_of(request)
    shares, correction = dealt(keys, os.urandom(32), 4, request)
    drawn = [
        recipe.expand(tuple_stream(key, 4, request), rank)[0].numpy()
        for rank, key in enumerate(keys)
    ]
    theirs = np.delete(np.arange(size), np.arange(size)[portion(size, 4, honest, 3)])
    words = [own[theirs] for rank, own in enumerate(drawn) if rank != honest]
    assert uniform_p_value(np.array([*words, correction[theirs]])) > ALARM
    guess = sum(words) + correction[theirs]
    assert uniform_p_value(np.array([guess])) > ALARM
    assert np.abs(guess + drawn[honest][theirs]).max() < 40 * SCALE
    np.testing.assert_array_equal(sum(shares), sum(drawn) + correction)


@pytest.mark.parametrize("parties", [2, 3, 5])
def test_a_value_costs_one_word_to_one_party(parties: int):
    request = asked((17,), (3, 4))
    assert recipe_of(request).corrected_words == 17 + 12
    _, correction = dealt(new_keys(parties), os.urandom(32), 4, request)
    sent = [range(29)[portion(29, 4, rank, parties)] for rank in range(parties)]
    assert correction.nbytes == 8 * sum(map(len, sent)) == 8 * 29


@pytest.mark.parametrize(
    ("parameters", "name", "code", "value"),
    [
        (((LEAST_SCALE / 2).hex(), [[3]]), "scale", "range", LEAST_SCALE / 2),
        (("nan", [[3]]), "scale", "range", math.nan),
        (("inf", [[3]]), "scale", "range", math.inf),
        (((2.0**61).hex(), [[3]]), "scale", "range", 2.0**61),
        (("much", [[3]]), "parameters", "shape", ("much", ((3,),))),
        ((5, [[3]]), "parameters", "shape", (5, ((3,),))),
        ((SCALE.hex(), [[-3]]), "parameters", "shape", (SCALE.hex(), ((-3,),))),
        ((SCALE.hex(), 3), "parameters", "shape", (SCALE.hex(), 3)),
        ((SCALE.hex(), [[1 << 31]]), "words", "value", 1 << 31),
    ],
)
def test_other_noise_is_not_dealt(parameters: tuple[Any, ...], name: str, code: str, value: object):
    with refused(name, code, value):
        recipe_of(Request.of("noise", *parameters))


# --- a dealer that runs -------------------------------------------------------------------------


def test_what_a_new_plan_asks_for_again_is_dealt_again_alike():
    """Else whoever is sent both corrections knows the difference of two noises."""
    request, words = asked((6,)), []

    def party(address: str, rank: int) -> None:
        talk = Talk(connect(partial(local_end_at, address, rank, 2), NO_RUN))
        talk.send(messages.announcement(1, 5, [request], plan=True))
        ahead = [messages.unpack(talk.receive()) for _ in range(2)]
        talk.send(messages.announcement(2, 5, [request], plan=False))
        again = messages.unpack(talk.receive())
        talk.leave()
        words.append([(tag.generation, tag.sequence, bytes(sent)) for tag, sent in (*ahead, again)])

    with dealer_here(2, {}) as address, ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(party, address, rank) for rank in range(2)]:
            done.result()
    for first, following, again in words:
        assert first[:2] == (1, 5)
        assert following[:2] == (1, 6)
        assert again == (2, 5, first[2])
        assert first[2] != following[2]


def test_parties_that_ask_for_different_scales_end_the_run():
    outcome: dict[str, Any] = {}

    def party(address: str, rank: int) -> None:
        client = come(address, rank, 2)
        try:
            client.deal(Request.of("noise", (SCALE + rank).hex(), [[4]]))
            client.deal(Request.of("square", [4]))
        finally:
            client.close()

    with dealer_here(2, outcome) as address, ThreadPoolExecutor(2) as pool:
        parties = [pool.submit(party, address, rank) for rank in range(2)]
        refusals = DealerLostError | PartyLostError
        assert any(isinstance(party.exception(), refusals) for party in parties)
    assert "asked the dealer for other tuples than another party" in str(outcome["lost"])


def test_total_variance_and_what_any_party_or_the_dealer_faces(dealer_pool: Parties):
    """Of 20,000 draws a deviation 10 % off passes with probability below 1e-40."""
    answers = dealer_pool.run(f"{TASKS}draw", size=20_000, sigma=1.5)
    opened = answers[0]["opened"]
    scale = summand_scale(4, 1.5, frac_bits=16)
    left = {
        4: opened,
        3: opened - answers[1]["own"],
        1: opened - sum(answer["own"] for answer in answers),  # the dealer's
    }
    for contributors, noise in left.items():
        variance = contributors * scale**2
        assert variance_p_value(noise, variance) > ALARM > variance_p_value(noise, variance / 0.81)
    assert scale == pytest.approx(1.5 * 2**16 / math.sqrt(3), rel=1e-6)
    assert [answer["rounds"] for answer in answers] == [0, 0, 0]
    assert [answer["dealt"] for answer in answers] == [8 * 20_000] * 3
    known = [answer["share"] for answer in answers]
    assert uniform_p_value(np.array([share[:COUNT] for share in known])) > ALARM


def test_steps_have_no_round_more_and_a_word_more_for_each_parameter(dealer_pool: Parties):
    alone, with_dealer = (
        dealer_pool.run(f"{TASKS}steps", dealer_noise=which, times=3) for which in (False, True)
    )
    parameters = 5 * 3 + 3
    for one, other in zip(alone, with_dealer, strict=True):
        assert one["rounds"] == other["rounds"]
        assert [more - less for more, less in zip(other["dealt"], one["dealt"], strict=True)] == [
            8 * parameters
        ] * 3
        assert one["epsilon"] == other["epsilon"]


def test_no_other_provider_adds_noise(dealer_pool: Parties):
    for told in dealer_pool.run(f"{TASKS}refusal", provider="INSECURE_TFP"):
        assert told.startswith("dealer_noise = True: conflict")


# --- prepared -----------------------------------------------------------------------------------


def test_prepared_noise_is_of_its_law_and_used_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    request = asked((20_000,))
    paths = prepare(tmp_path / "m", 3, [request], {})

    def deal(path: Path) -> torch.Tensor:
        client = Client.prepared(Material(path))
        try:
            return client.deal(request)[0]
        finally:
            client.close()

    noise = sum(deal(path).numpy() for path in paths)
    assert variance_p_value(noise, SCALE**2) > ALARM > variance_p_value(noise, SCALE**2 / 0.81)
    with pytest.raises(MaterialError, match="was used before"):
        deal(paths[0])


@pytest.mark.parametrize(
    "other",
    [{"noise_multiplier": 1.1}, {"max_grad_norm": 0.5}, {"colluders": 2}, {"dealer_noise": False}],
)
def test_prepared_noise_is_of_one_sigma_and_one_norm(other: dict[str, Any]):
    def settings(**changes: Any) -> dict[str, Any]:
        given: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, "dealer_noise": True}
        return of_tuples(settings_of(TrainConfig(**given | changes)))

    header = Header(run="", rank=0, parties=3, tuples=1, settings=settings())
    header.check(0, settings())
    with refused("material", "file"):
        header.check(0, settings(**other))
