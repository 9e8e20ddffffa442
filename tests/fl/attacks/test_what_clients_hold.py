"""Clients hold weight, cohort, threshold and population, whatever the server announces."""

import re
from dataclasses import replace

import pytest

import fl
from extensions.errors import RoundError
from fl.protocols import SERVER, Machine, Message, Refusal, Round
from fl.round.machines import Plan
from fl.simulation import DropOut
from tests.fl.training.test_federated import small
from tests.helpers.federated.attackers import AGGREGATORS, CLIENTS, WEIGHTS, dead, play
from tests.helpers.federated.carriers import CARRIERS, places
from tests.helpers.federated.masked_rounds import half, run, updates
from tests.helpers.refused import refused

PLACES = places(AGGREGATORS)
ROUND = Round(number=1, size=5, weights=dict.fromkeys(range(6), 1))


def masked(**settings: int) -> fl.MaskedAggregator:
    return fl.MaskedAggregator(**settings)  # type: ignore[arg-type]


def announced(clients: int, cohort: int, population: int = 100) -> Round:
    weights = dict.fromkeys(range(clients), 1)
    return replace(ROUND, weights=weights, plan=Plan(cohort=cohort, population=population))


@pytest.mark.parametrize(("carrier", "name"), PLACES, indirect=["carrier"])
def test_client_withdraws_where_it_is_announced_with_another_weight(name, carrier):
    played = play(AGGREGATORS[name](), weights={**WEIGHTS, 3: WEIGHTS[3] + 1})
    kind = "key" if played.aggregator.hides_model else "begin"
    reason = f"'{kind}' gives this client a weight of 3, not its own 2"
    assert Refusal(3, reason) in played.refusals
    assert played.outcome is None or 3 not in played.outcome.included


class Stranger(Machine):
    """Whoever the server made up: it is ready at once, and greets where rounds begin so."""

    greets = False

    def start(self, now: float):
        if self.greets:
            yield self.send(SERVER, "hello", exchange=b"\x09" + bytes(31), modulus=0)

    def receive(self, message: Message, now: float):
        if message.kind == "model":
            yield self.send(SERVER, "ready")


@pytest.mark.parametrize(("carrier", "name"), PLACES, indirect=["carrier"])
def test_client_withdraws_where_clients_are_announced_that_the_run_has_not(name, carrier):
    def invite(machines: dict[int, Machine]) -> None:
        machines[CLIENTS] = Stranger(machines[0].round, CLIENTS)
        machines[CLIENTS].greets = name == "hidden"

    played = play(AGGREGATORS[name](), weights={**WEIGHTS, CLIENTS: 1}, change=invite)
    rule = f"client must be a whole number in 0..{CLIENTS - 1}, not {CLIENTS}"
    if played.aggregator.hides_model:
        rule = f"the server asked for keys of strangers [{CLIENTS}]"
    words = rule.removesuffix(f"[{CLIENTS}]")
    refused = {
        refusal.client
        for refusal in played.refusals
        if words in refusal.reason and str(CLIENTS) in refusal.reason
    }
    assert refused == set(range(CLIENTS))


def test_round_of_fewer_than_t_of_the_cohort_is_refused_by_its_clients():
    masked().check_round(announced(7, 10))
    with refused("clients of a round", "range", 6):
        masked().check_round(announced(6, 10))
    with refused("clients of a round", "range", 9):
        masked(min_clients=10).check_round(announced(9, 9))


@pytest.mark.parametrize(("clients", "t", "most"), [(10, 7, 3), (9, 7, 4), (7, 7, 5), (3, 3, 1)])
def test_colluders_are_fewer_than_2t_less_n_and_leave_two_honest_clients(clients, t, most):
    """With a cohort of 10 t is 7 however few are announced; 3 of 3 clients leave c = 1."""
    round = announced(clients, 10 if clients > 3 else 3)
    assert 2 * t - clients > most
    assert t - most >= 2
    masked(colluders=most).check_round(round)
    with refused("colluders", "range", value=most + 1):
        masked(colluders=most + 1).check_round(round)


@pytest.mark.parametrize(("name", "least"), [("min_clients", 2), ("colluders", 0)])
def test_settings_out_of_range_are_refused(name, least):
    with refused(name, "range", least - 1):
        masked(**{name: least - 1})


def test_run_that_cannot_withstand_its_colluders_is_refused_when_it_is_made():
    with refused("colluders", "range", value=4):
        small(aggregator=masked(colluders=4), client_fraction=1.0)


def test_liars_among_the_holders_of_shares_need_2t_less_n_and_leaks_to_says_so():
    """Of 6 clients t is 4: two that lie may sign two lists, one may not."""
    aggregator = half()
    outcome, _ = run(aggregator, updates(6))
    one, two = (fl.Coalition(range(k), server=True, lying=True) for k in (1, 2))
    assert aggregator.leaks_to(one, outcome) == {frozenset(range(1, 6))}
    assert aggregator.leaks_to(two, outcome) == {frozenset({k}) for k in range(2, 6)}
    curious = fl.Coalition(range(2), server=True)
    assert aggregator.leaks_to(curious, outcome) == {frozenset(range(2, 6))}


@pytest.mark.parametrize("carrier", CARRIERS, indirect=True)
def test_clients_of_one_model_never_verify_those_of_another(carrier):
    """Client 4 alone has another model, and is left out by name; the others' sum is made."""
    played = play(
        AGGREGATORS["masked"](),
        lying=False,
        change=lambda machines: _another_model(machines, 4),
    )
    (refusal,) = played.refusals
    assert refusal == Refusal(4, "a signature that is not client 4's")
    assert played.outcome is not None
    assert played.outcome.included == (0, 1, 2, 3, 5, 6)


def _another_model(machines: dict[int, Machine], client: int) -> None:
    inner = machines[client].receive

    def receive(message: Message, now: float):
        if message.kind == "model":
            message = replace(message, body={"values": dead(message.body["values"])})
        yield from inner(message, now)

    machines[client].receive = receive  # type: ignore[method-assign]


def test_clients_of_other_settings_never_verify_each_other():
    aggregator, given = half(), updates(6)
    other = replace(ROUND, weights={k: k + 1 for k in given}, context=b"other settings")

    def change(machines: dict[int, Machine]) -> None:
        machines[4] = aggregator.client(other, 4, given[4])

    outcome, _ = run(aggregator, given, change)
    assert outcome.refusals == (Refusal(4, "a signature that is not client 4's"),)


def test_every_setting_of_a_run_and_of_a_round_is_in_what_clients_sign():
    mechanism = fl.CentralDP(noise_multiplier=1.0, clip=1.0, adaptive=fl.AdaptiveClipping())

    def settings(**changed: object) -> bytes:
        averaging = small(client_fraction=1.0, weighting="equal", **changed)
        plan = averaging._announced(1, range(4)).plan
        assert plan is not None
        return plan.settings

    before = settings(mechanism=mechanism)
    mechanism.clip = 0.5
    digests = [before, settings(mechanism=mechanism), settings(), settings(lr=0.2)]
    digests += [settings(seed=7), settings(local_epochs=3), settings(exchange="weights")]
    assert len(set(digests)) == len(digests)


def test_plan_of_a_run_is_what_its_settings_select():
    plans = [
        small(client_fraction=fraction, aggregator=fl.PlainAggregator())._announced(1, [0]).plan
        for fraction in (0.5, 1.0)
    ]
    assert [(plan.cohort, plan.population) for plan in plans if plan] == [(3, 6), (6, 6)]
    poisson = fl.CentralDP(noise_multiplier=1.0, clip=1.0, min_clients=3)
    averaging = small(client_fraction=0.5, weighting="equal", mechanism=poisson)
    assert averaging._announced(1, range(3)).plan.cohort == 3


def test_run_whose_clients_mostly_vanish_fails_before_it_begins():
    averaging = small(
        client_fraction=1.0,
        aggregator=fl.MaskedAggregator(),
        drop_outs=lambda number: [DropOut(k, "ready") for k in (0, 1)],
    )
    with pytest.raises(RoundError, match=re.escape("4 clients are ready, of at least 5.")):
        averaging.fit(1, progress=False)
