"""A model learns from another party's records: what it is told, and what each gets to see."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("seal", reason="seal-python is not installed: there is no wheel here.")

from crypten_ext.pencil.account import Account, Budget
from crypten_ext.pencil.terms import MESSAGE_BYTES, Offer, Terms
from extensions.errors import ArgumentError
from extensions.privacy.randomness import InsecureSeededSource
from extensions.protocols.host import Batch
from extensions.protocols.noise import summand_scale
from extensions.protocols.pencil.step import encoded_layer, noisy_sums
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode, encode
from extensions.runs.budget import Cap, read, update
from extensions.two_party.pairwise.products import DATA
from tests.conftest import SHARED
from tests.helpers.party_tasks.pencil import BUDGET, STEPS, TERMS, encoded, model_of, records
from tests.helpers.refused import refused
from tests.helpers.strategies import ALARM

TASKS = "tests.helpers.party_tasks.pencil:"

pytestmark = pytest.mark.xdist_group(SHARED["pools"])


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "model.ledger"


def test_products_are_those_of_algorithms_1_and_2(pools):
    draws = np.random.default_rng(1)

    def words(*shape: int):
        return draws.integers(-(2**63), 2**63, (2, *shape))

    x, d, weight = words(5, 7), words(3, 5), draws.integers(-(2**25), 2**25, (4, 7))
    given = [{"shares": (x[rank], d[rank], weight)} for rank in range(2)]
    whole_x, whole_d = x.sum(0), d.sum(0)
    right = [whole_x @ weight.T, x[1] @ weight.T, whole_d @ whole_x, whole_d @ x[1]]
    for found in pools.run(2, TASKS + "products", per_party=given):
        assert all(np.array_equal(one, other) for one, other in zip(found, right, strict=True))


class OfOne:
    """The noise of the data owner alone, by a seed."""

    def __init__(self, seed: int) -> None:
        self._source = InsecureSeededSource(seed)

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]):
        drawn = self._source.gaussian(party, scale, shape)
        return drawn if party == DATA else np.zeros(shape, dtype=np.int64)


def test_a_step_is_the_clear_rings(pools, ledger: Path):
    """Whatever a step's roundings are, its sums of 8 records differ by far less than one's part."""
    given = {"model": "mlp:5", "ledger": ledger, "seed": 9, "piece": 5}
    (told, offer, _), _ = pools.run(2, TASKS + "sums", **given)
    owned = model_of("mlp:5")
    terms, own = owned.terms, encoded(owned.terms)
    plan, source = terms.plan(offer), OfOne(9)
    parameters = [encoded_layer(*layer, terms.frac_bits) for layer in owned.layers]
    norms = np.einsum("ij,ij->i", own.features, own.features)
    batch = Batch(own.features, own.labels, norms, np.zeros(len(own), dtype=np.int64))
    assert len(told) == STEPS
    for step in told:
        ring = ClearRing(terms.frac_bits, parties=2, seed=1)
        clear = noisy_sums(ring, terms.network, plan, parameters, [batch], source)
        for one, other in zip(step, clear, strict=True):
            apart = one - decode(other, terms.frac_bits + plan.factor_bits)
            assert np.abs(apart).max() < 0.02 * terms.max_grad_norm


def test_what_is_told_has_the_stated_noise_and_clipped_gradients(pools, ledger: Path):
    """Of 246 noises the sum of squares is outside by chance once in ten million."""
    (told, offer, _), _ = pools.run(2, TASKS + "sums", model="logistic", ledger=ledger)
    terms = Terms(model="logistic", **TERMS)
    plan = terms.plan(offer)
    bits = terms.frac_bits + plan.factor_bits
    deviation = summand_scale(2, plan.sigma, frac_bits=bits) * 2.0**-bits
    assert deviation >= offer.noise_multiplier * terms.max_grad_norm
    first, second = (np.concatenate([part.ravel() for part in step]) for step in told)
    low, high = stats.chi2.ppf([5e-8, 1 - 5e-8], first.size)
    spread = ((first - second) ** 2).sum() / 2  # of one batch twice: noise alone
    assert low < spread / deviation**2 < high
    for wrong in (0.5, 2.0):
        assert not low < spread / (wrong * deviation) ** 2 < high
    # What is left of the noise's mean is at most so long, but with probability 1e-7.
    left = deviation * np.sqrt(stats.chi2.isf(1e-7, first.size) / STEPS)
    most = len(records()[0]) * terms.max_grad_norm * (1 + plan.eta)
    assert np.linalg.norm((first + second) / 2) < most + left


def test_noise_and_charge_come_before_the_telling(pools, ledger: Path):
    _, done = pools.run(2, TASKS + "order", ledger=ledger)
    assert done == ["charged", "noise", "noise", "told"]


def test_what_each_gets_to_see_tells_nothing(pools, tmp_path: Path):
    """Messages have sizes that depend on shapes alone; what is opened has uniform bits."""
    weights = [part for pair in model_of("mlp:5").layers for part in pair]
    secret = [encode(part, 16) for part in weights]
    features = encoded(model_of("mlp:5").terms).features
    seen = []
    for number, (scale, seed) in enumerate([(1.0, 3), (0.3, 4)]):
        path = tmp_path / f"{number}.ledger"
        given = {"model": "mlp:5", "ledger": path, "scale": scale, "seed": seed}
        seen.append(pools.run(2, TASKS + "view", **given))
    for (one, opened), (other, _) in zip(*seen, strict=True):
        assert [len(message) for message in one] == [len(message) for message in other]
        both = zip(one, other, strict=True)
        long = [pair for pair in both if 64 <= len(pair[0]) != MESSAGE_BYTES]
        assert len(long) > 20
        assert all(first != again for first, again in long)
        everything = b"".join(one) + opened.tobytes()
        for hidden in (*secret, features):
            for word in hidden.ravel()[:40]:
                if abs(int(word)) > 255:  # else its bytes are found anywhere
                    assert word.tobytes() not in everything
        bits = np.unpackbits(opened.view(np.uint8).reshape(-1, 8), axis=1).sum(axis=0)
        odds = stats.binom.cdf(len(opened) / 2 - np.abs(bits - len(opened) / 2), len(opened), 0.5)
        assert 2 * 64 * odds.min() > ALARM


def test_a_spent_ledger_ends_the_turn(pools, ledger: Path):
    for steps in (STEPS, 0):
        (told, _, ended), (own, made) = pools.run(
            2, TASKS + "sums", model="logistic", ledger=ledger
        )
        assert len(told) == ended.steps == own.steps == steps
        assert made == STEPS
        assert ended.spent
        assert own.spent
    account = Account(ledger, Budget(**BUDGET), len(records()[0]))
    assert account.left == 0
    assert 0 < account.epsilon() <= BUDGET["epsilon"]
    with pytest.raises(ArgumentError) as refused:
        account.charge()
    assert refused.value.argument == "steps"


def test_pieces_are_equal():
    terms = Terms(model="mlp:128,128", features=784, classes=10)
    assert terms.piece == 256
    for rows in (1, 256, 257, 511, 663):
        padded = terms.in_pieces(rows)
        assert rows <= padded < rows + 3
        assert padded % -(-rows // terms.piece) == 0


def test_pieces_of_a_convolutional_model_are_smaller():
    """LeNet has 6,508 values in between, 25 times as many as a piece may have rows."""
    terms = Terms(model="lenet", features=784, classes=10)
    assert terms.piece == 256 // 25
    assert terms.in_pieces(68) == 70


def test_terms_that_do_not_fit_the_records_end_both(pools, ledger: Path):
    told, own = pools.run(2, TASKS + "refused", ledger=ledger, max_feature_norm=0.5)
    assert "of norm at most max_feature_norm = 0.5" in own
    assert told.endswith("They do not fit its records.")
    assert not re.search(r"\brow\b|norm", told)
    assert not ledger.exists()


def test_a_cap_that_does_not_allow_the_run_ends_both_and_stays_its_owners(pools, ledger: Path):
    update(ledger, lambda before: replace(before, cap=Cap(epsilon=0.25, delta=1e-4)))
    told, own = pools.run(2, TASKS + "refused", ledger=ledger)
    assert "0.25" in own
    assert "0.25" not in told
    assert not re.search(r"epsilon|cap|budget|model\.ledger", told)
    assert read(ledger).entries == ()


TERM = Terms(model="logistic", **TERMS)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"{}",
        b"[" * MESSAGE_BYTES,
        TERM.pack().replace(b'"features": 40', b'"features": "x"'),
        TERM.pack().replace(b'"features": 40', b'"features": 99999999'),
        TERM.pack().replace(b'"sigmoid"', b'"least-squares"'),
        TERM.pack().replace(b"logistic", b"mlp:0"),
        TERM.pack().replace(b'"max_grad_norm": 0.1', b'"max_grad_norm": NaN'),
    ],
)
def test_malformed_terms_are_refused(message: bytes):
    assert Terms.unpack(TERM.pack()) == TERM
    with pytest.raises(ArgumentError):
        Terms.unpack(message)


def test_offers_and_weights_have_bounds():
    offer = Offer(rows=8, expected=8.0, noise_multiplier=1.0, steps=2)
    assert Offer.unpack(offer.pack()) == offer
    for name, value in (("rows", 0), ("expected", -1.0), ("noise_multiplier", 0.0)):
        with refused(name, "range", value):
            Offer(**{**vars(offer), name: value})
    encoded_layer(np.array([[240.0]]), np.array([320.0]), 16)
    for weight, bias in ((401.0, 0.0), (0.0, 401.0), (300.0, -300.0), (0.0, math.nan)):
        with refused("weights", "range"):
            encoded_layer(np.array([[weight]]), np.array([bias]), 16)
