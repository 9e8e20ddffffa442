"""What the parties of tests/crypten_ext/pencil do: rank 0 has the model, rank 1 the records."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from crypten_ext import pairwise
from crypten_ext.pairwise import rounds
from crypten_ext.pencil import turn
from crypten_ext.pencil.account import Account, Budget
from crypten_ext.pencil.model import Model
from crypten_ext.pencil.terms import Terms
from crypten_ext.processes.worker import Context
from crypten_ext.ring.crypten_ring import CrypTenRing
from crypten_ext.ring.exchange import open_sum
from extensions.errors import PeaError
from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import OwnRecords, check_records
from extensions.ring.fixed_point import Integers, Reals
from extensions.two_party.pairwise.products import MODEL
from extensions.two_party.pairwise.rounds import Round

STEPS = 2
FEATURES, CLASSES = 40, 6
TERMS: dict[str, Any] = {"features": FEATURES, "classes": CLASSES, "max_grad_norm": 0.1}
BUDGET: dict[str, Any] = {"epsilon": 20.0, "delta": 1e-4, "steps": STEPS, "sample_rate": 1.0}


def records(scale: float = 1.0, count: int = 8) -> tuple[Reals, Any]:
    """Returns records of norm at most 1, and their labels."""
    draws = np.random.default_rng(27)
    x = draws.normal(size=(count, FEATURES))
    return scale * x / np.linalg.norm(x, axis=1, keepdims=True), np.arange(count) % CLASSES


def encoded(terms: Terms, scale: float = 1.0) -> OwnRecords:
    """Returns them as a data owner gives them."""
    x, y = records(scale)
    return check_records(
        x,
        y,
        frac_bits=terms.frac_bits,
        classes=terms.classes,
        max_feature_norm=terms.max_feature_norm,
    )


def model_of(model: str, seed: int = 3) -> Model:
    """Returns a model with weights that are not public."""
    owned = Model.begin(Terms(model=model, **TERMS), 0.0)
    draws = np.random.default_rng(seed)
    owned.layers = [
        (draws.normal(size=w.shape) / 2, draws.normal(size=b.shape)) for w, b in owned.layers
    ]
    return owned


class Kept(Model):
    """A model that keeps what it was told, and learns nothing."""

    def __init__(self, owned: Model) -> None:
        super().__init__(owned.terms, owned.layers, 0.0)
        self.told: list[Any] = []

    def learn(self, sums: Any, expected: float) -> None:
        self.told.append(sums)


def sums(
    context: Context, model: str, ledger: Path, seed: int | None = None, piece: int = 8
) -> Any:
    """Returns what the model's owner was told in each step, and what the data owner stated.

    At most `piece` of 8 rows are computed at once.
    """
    pairwise.disconnect()
    with patch.object(Terms, "piece", piece):
        if context.rank == MODEL:
            kept = Kept(model_of(model))
            told, offer = turn.lead(kept, STEPS)
            return kept.told, offer, told
        account = Account(ledger, Budget(**BUDGET), len(records()[0]))
        source = None if seed is None else InsecureSeededSource(seed)
        told = turn.follow(encoded, account, source)
        return told, account.made


@contextmanager
def noted(seen: list[dict[int, bytes]]) -> Iterator[None]:
    """In the block all that this party is sent is noted: tuples, products, releases, openings."""
    exchange = rounds._exchange

    def on_exchange(step: Round, group: Any) -> dict[int, bytes]:
        seen.append(exchange(step, group))
        return seen[-1]

    with patch.object(rounds, "_exchange", on_exchange):
        yield


def view(context: Context, model: str, ledger: Path, scale: float, seed: int) -> Any:
    """Returns what this party is sent in a turn: messages of rounds, and what is opened."""
    pairwise.disconnect()
    seen: list[dict[int, bytes]] = []
    opened: list[Integers] = []
    host = {name: getattr(CrypTenRing, name) for name in ("open_sum", "open_xor")}

    def noting(name: str) -> Any:
        def open_noted(self: Any, shares: Any) -> Any:
            found = host[name](self, shares)
            opened.extend(each.numpy().ravel().copy() for each in found)
            return found

        return open_noted

    patches = [patch.object(CrypTenRing, name, noting(name)) for name in host]
    with noted(seen), patches[0], patches[1]:
        if context.rank == MODEL:
            turn.lead(Kept(model_of(model, seed)), STEPS)
        else:
            account = Account(ledger, Budget(**BUDGET), len(records()[0]))
            turn.follow(lambda terms: encoded(terms, scale), account)
    other = 1 - context.rank
    return [each.get(other, b"") for each in seen], np.concatenate(opened)


def order(context: Context, ledger: Path) -> list[str]:
    """Returns in which order a data owner charges, draws noise and tells."""
    pairwise.disconnect()
    done: list[str] = []
    if context.rank == MODEL:
        turn.lead(Kept(model_of("logistic")), 1)
        return done

    class Noting(InsecureSeededSource):
        def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
            done.append("noise")
            return super().gaussian(party, scale, shape)

    class NotingAccount(Account):
        def charge(self) -> None:
            super().charge()
            again = Account(ledger, self.budget, self.records)
            done.append("charged" if again.made == 1 else "charged in memory")

    tell = turn.products.told_to_model

    def telling(*arguments: Any) -> Any:
        done.append("told")
        return tell(*arguments)

    account = NotingAccount(ledger, Budget(**BUDGET), len(records()[0]))
    with patch.object(turn.products, "told_to_model", telling):
        turn.follow(encoded, account, Noting(1))
    return done


def refused(context: Context, ledger: Path, **terms: Any) -> str:
    """Returns what this party raises when terms do not fit the records."""
    pairwise.disconnect()
    try:
        if context.rank == MODEL:
            stated = Terms(**{"model": "logistic", **TERMS, **terms})
            turn.lead(Model.begin(stated, 1.0), 1)
        else:
            turn.follow(encoded, Account(ledger, Budget(**BUDGET), len(records()[0])))
    except PeaError as error:
        return str(error)
    return "it began"


def products(context: Context, shares: Any) -> Any:
    """Returns the opened results of both algorithms on shares of x and d, and a weight."""
    pairwise.disconnect()
    x, d, weight = shares
    with turn.joint_ring(16) as ring:
        own = turn.Weight(
            (weight.shape[1], weight.shape[0]), weight.T if ring.rank == MODEL else None
        )
        whole = turn.Inputs(torch.from_numpy(x * ring.rank), whole=True)
        shared = turn.Inputs(torch.from_numpy(x))
        found = ring.matmul(
            [
                (shared, own),
                (whole, own),
                (torch.from_numpy(d), shared),
                (torch.from_numpy(d), whole),
            ]
        )
        return [each.numpy() for each in open_sum(found)]
