"""What parties do together with their shares of a model, on any host."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from extensions.data.datasets import Labels, has_labels, no_labels
from extensions.errors import ArgumentError
from extensions.layers.passes import Parameters, forward
from extensions.layers.tally import check_number
from extensions.privacy.randomness import uniform
from extensions.privacy.sampling import OwnRecords, check_records
from extensions.protocols.agreement import Statement, check_equal
from extensions.protocols.host import Host, Placed, in_blocks, pairs
from extensions.protocols.records import Records, blocks_for
from extensions.protocols.settings import Split
from extensions.ring.fixed_point import Integers, Reals, decode, encode
from extensions.ring.interface import Share
from extensions.runs.config import COUNTED, Evaluate, TrainConfig
from extensions.runs.manifest import comparable_settings, versions
from extensions.runs.model.charges import Charge, charge_of_count, charge_of_opening
from extensions.runs.model.header import Header
from extensions.runs.model.private_opening import Rows, open_rows, open_to_owners
from extensions.runs.model.shares import SharedModel, read_shares
from extensions.runs.outputs import Outputs
from extensions.runs.report import whose

Task = Literal["predict", "evaluate", "open"]

_NO_START: dict[str, Any] = {
    "init": None,
    "init_weighting": TrainConfig.init_weighting,
    **dict.fromkeys(("epsilon_init", "noise_multiplier_init", "init_steps", "init_lr")),
    "whiten": False,
    **dict.fromkeys(("whiten_share", "whiten_ridge", "noise_multiplier_whiten")),
}
"""What a count has nothing to do with: how the training began, which a config may not have then."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of the parties; equal at all of them.

    Attributes:
        task: predict: the logits of each owner's records, to this owner alone; evaluate: the number
            of correct predictions on all owners' records, to all; open: the model, to all, or where
            parties have columns of each record, to each what its own columns have of it.
        noisy: whether that number is noised.
        count_noise: its standard deviation, in records.
        owner: rank of who gets the logits, where all parties have columns of each record.
    """

    task: Task
    owner: int = 0
    noisy: bool = False
    count_noise: float = TrainConfig.count_noise


@dataclass(frozen=True, kw_only=True)
class PartyInput:
    """What one party has of its own.

    Attributes:
        shared: its share of the model.
        x: features of its records, (records, features); None without any.
        y: their labels, where predictions are counted.
        ledger: of its records; None where none is kept.
    """

    shared: SharedModel
    x: Reals | None = None
    y: Labels | None = None
    ledger: Path | None = None


@dataclass(frozen=True, kw_only=True)
class PartyFiles:
    """Where one party has what is its own.

    Attributes:
        shares: its share of the model.
        records: its features and labels, arrays x and y; None without any.
        ledger: of its records, or None.
    """

    shares: Path
    records: Path | None = None
    ledger: Path | None = None

    def read(self) -> PartyInput:
        """Returns what they hold.

        Raises:
            ArgumentError: of `read_shares`.
        """
        shared = read_shares(self.shares)
        if self.records is None:
            return PartyInput(shared=shared, ledger=self.ledger)
        with np.load(self.records, allow_pickle=False) as arrays:
            x, y = arrays["x"], arrays.get("y")
        return PartyInput(shared=shared, x=x, y=y, ledger=self.ledger)


def manifest_of(request: Request, shared: SharedModel, software: Sequence[str] = ()) -> Statement:
    """Returns what a party states before it takes part.

    Args:
        request: what is asked.
        shared: its share.
        software: distributions that the host is made of.
    """
    model = hashlib.sha256(shared.header.common.encode()).hexdigest()
    said: dict[str, Any] = {"parties": len(shared.save), "save": shared.name, "model": model}
    return Statement(run={**comparable_settings(request), **said, **versions(software)})


def perform(host: Host, request: Request, own: Sequence[PartyInput]) -> list[dict[str, Any]]:
    """Returns what each party of this program gets: `logits`, `accuracy` or `parameters`.

    Args:
        host: whose holders have the shares, and whose ranks have the records.
        request: what is asked.
        own: of each of them.

    Guarantees:
        All parties agree on the request, and on the save and the header of their shares, before
        anything is shared. A ledger is charged before anything is opened.

    Cost:
        One round to agree, that of a forward pass or a count, and one to open.

    Raises:
        ArgumentError: in every party: what does not fit; a cap that does not allow it; or a model
            that was released otherwise.
    """
    header = own[0].shared.header
    records, charge, problem = [_none(each.shared.header) for each in own], Charge(), None
    try:
        _check_shares(host, own)
        records = [_encoded(each) for each in own]
        charge = _charge_of(host, request, own)
        charge.reserve()
    except ArgumentError as error:
        problem = error
    try:
        manifest = manifest_of(request, own[0].shared, host.software)
        split: Split = "columns" if header.widths else "rows"
        announced = Records.agreed(host.exchange, records, manifest, problem, split=split)
        if request.task != "open" and not sum(announced.sizes):
            raise ArgumentError("records", None, "at one party at least", code="missing")
        host.begin(manifest.digest)
        model = host.restore([each.shared.parts for each in own])
        asked = _Asked(request, header, announced, charge)
        if header.apart and request.task == "predict":
            return _added_up(host, asked, own)
        tasks = _OF_COLUMNS if header.widths else _TASKS
        return tasks[request.task](host, asked, model)
    except BaseException:
        charge.free()
        raise


@dataclass(frozen=True)
class _Asked:
    """What parties have agreed on.

    Attributes:
        request: what is asked.
        header: of the model.
        records: of this program's owners, and all sizes.
        charge: what is noted before anything is opened.
    """

    request: Request
    header: Header
    records: Records
    charge: Charge


def _predicted(host: Host, asked: _Asked, model: Parameters) -> list[dict[str, Any]]:
    """Returns the logits of each owner's records, (records, outputs)."""
    network, records = asked.header.spec.network, asked.records

    def logits(model: Parameters, x: Share) -> Share:
        return forward(host.ring, network, model, x).logits

    found = []
    blocks = blocks_for(records.sizes, records.features, network.comparisons)
    for part, sizes in in_blocks(records.own, records.sizes, blocks):
        rows = Rows(own=[own.features for own in part], sizes=sizes)
        found.append(open_to_owners(host, model, rows, logits, network.widths[-1]))
    whole = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    return [{"logits": decode(words, asked.header.frac_bits)} for words in whole]


def _evaluated(host: Host, asked: _Asked, model: Parameters) -> list[dict[str, Any]]:
    """Returns what counts over all records say of the model, and what they cost a record."""
    outputs = Outputs(host, settings_of(asked.header, asked.request), asked.records)
    words = outputs.compute(model)
    asked.charge.spend()
    measured = outputs.quality(host.open(words))
    found = {
        **measured,
        "held_out_epsilon": outputs.epsilon,
        "delta": None if outputs.epsilon is None else asked.header.config.delta,
        "held_out_records": list(asked.records.sizes),
        "unit": whose(asked.header.config),
        "opened": outputs.titles,
    }
    return [found for _ in host.holders]


def _opened(host: Host, asked: _Asked, model: Parameters) -> list[dict[str, Any]]:
    """Returns weight and bias of each layer."""
    words = host.summands(model)
    asked.charge.spend()
    parts = [decode(each, asked.header.frac_bits) for each in host.open(words)]
    return [{"parameters": pairs(parts)} for _ in host.holders]


def _predicted_of_columns(host: Host, asked: _Asked, model: Parameters) -> list[dict[str, Any]]:
    """Returns the logits of all records, to the one who asks."""
    network, records, owner = asked.header.spec.network, asked.records, asked.request.owner
    found: list[list[Integers]] = []
    blocks = blocks_for(records.sizes, records.features, network.comparisons)
    for part, (size,) in in_blocks(records.own, records.sizes, blocks):
        placed = host.place([[own.features.T] for own in part])
        sizes = [size * (rank == owner) for rank in range(len(records.widths))]

        def logits(model: Parameters, placed: Placed = placed) -> Share:
            (x,) = host.share_rows(records.widths, placed)
            return forward(host.ring, network, model, x.T).logits

        found.append(open_rows(host, model, sizes, network.widths[-1], logits))
    whole = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    return [{"logits": decode(words, asked.header.frac_bits)} for words in whole]


def _added_up(host: Host, asked: _Asked, own: Sequence[PartyInput]) -> list[dict[str, Any]]:
    """Returns the same of a model whose parts owners have: a masked sum of what each computes.

    Whoever sees all that is sent sees uniform words: the asker's have a mask that only it knows.
    Each other party sends 8 bytes a record and output to each of the others, once masked.
    """
    f, owner = asked.header.frac_bits, asked.request.owner
    words, masks = [], []
    for rank, records, each in zip(host.ranks, asked.records.own, own, strict=True):
        weight, bias = each.shared.parts
        block = decode(weight[:, asked.records.block(rank)], f)
        partial = encode(decode(records.features, f) @ block.T, f) + bias
        masks.append(uniform(partial.shape) if rank == owner else np.zeros_like(partial))
        words.append([partial + masks[-1]])
    (opened,) = host.open(host.masked(words))
    return [{"logits": decode(opened - mask, f)} for mask in masks]


def _opened_to_columns(host: Host, asked: _Asked, model: Parameters) -> list[dict[str, Any]]:
    """Returns, as a share, to each owner the weights of its own columns; biases stay shared."""
    records, outputs = asked.records, asked.header.spec.widths[-1]
    biases = [bias for _, bias in host.summands(model)]
    asked.charge.spend()
    own = open_rows(host, model, records.widths, outputs, lambda model: model[0][0].T)
    found = []
    for rank, rows, bias in zip(host.ranks, own, biases, strict=True):
        weight = np.zeros((outputs, records.features), dtype=np.int64)
        weight[:, records.block(rank)] = rows.T
        found.append({"parts": [weight, bias]})
    return found


_TASKS = {"predict": _predicted, "evaluate": _evaluated, "open": _opened}
_OF_COLUMNS = {
    "predict": _predicted_of_columns,
    "evaluate": _evaluated,
    "open": _opened_to_columns,
}


def _check_shares(host: Host, own: Sequence[PartyInput]) -> None:
    """Checks that the shares of this program's holders are theirs, and belong together."""
    for rank, each in zip(host.holders, own, strict=True):
        if each.shared.rank != rank:
            given = f"party {each.shared.rank}'s, at party {rank}"
            raise ArgumentError("shares", given, f"party-{rank}.npz, this party's own", code="file")
    said = [{"save": each.shared.name, "model": each.shared.header.common} for each in own]
    check_equal({rank: Statement(run=each) for rank, each in enumerate(said)})


def _charge_of(host: Host, request: Request, own: Sequence[PartyInput]) -> Charge:
    config = settings_of(own[0].shared.header, request)
    ledgers = [each.ledger for each in own]
    if request.task == "open":
        if own[0].shared.header.widths and own[0].shared.header.spec.network.layers > 1:
            advice = "Predict together from shares."
            raise ArgumentError("shares", "of several layers", "of a linear model", advice)
        return charge_of_opening(host, config, [each.shared for each in own], ledgers)
    if request.task == "evaluate":
        with_records = [None if each.x is None else each.ledger for each in own]
        return charge_of_count(host, config, with_records)
    return Charge()


def settings_of(header: Header, request: Request) -> TrainConfig:
    """Returns the settings of the run that trained a model; where a count is asked for, with that.

    Raises:
        ArgumentError: a header without them, or a noised count of a model that was chosen by exact
            ones.
    """
    config = header.config
    if request.task != "evaluate":
        return config
    if request.noisy and header.chosen_by_counts:
        raise ArgumentError("noisy", True, "for this model", COUNTED, code="conflict")
    evaluate: Evaluate = "noisy" if request.noisy else "mpc"
    return replace(config, evaluate=evaluate, count_noise=request.count_noise, **_NO_START)


def _encoded(own: PartyInput) -> OwnRecords:
    header = own.shared.header
    if own.x is None:
        return _none(header)
    check_number(len(own.x), len(own.shared.save))
    x, whitening, outputs = own.x, own.shared.whitening, header.spec.widths[-1]
    norm = header.max_feature_norm / math.sqrt(max(1, len(header.widths)))
    if whitening is not None and x.ndim == 2 and x.shape[1] == header.inputs:
        x = whitening.rows(x, norm)
    elif header.widths:
        x = x * (norm / header.max_feature_norm)
    y = np.zeros(len(x), dtype=np.int64) if own.y is None else own.y
    if header.widths and ((own.y is None and header.rank) or not has_labels(y)):
        y, outputs = no_labels(len(x)), 0
    return check_records(x, y, frac_bits=header.frac_bits, classes=outputs, max_feature_norm=norm)


def _none(header: Header) -> OwnRecords:
    outputs = header.spec.widths[-1] * (header.rank == 0)
    return OwnRecords.none(header.inputs, outputs, header.frac_bits)
