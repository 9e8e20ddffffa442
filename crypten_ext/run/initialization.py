"""Protocol 4 in CrypTen: an encrypted model starts from what the parties trained locally."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from crypten_ext.ring.crypten_ring import CrypTenRing, ring_of
from crypten_ext.ring.factors import share_rows
from crypten_ext.world import exchange
from extensions.errors import ArgumentError
from extensions.layers.activations import relu, sigmoid
from extensions.layers.chain import Network
from extensions.protocols.agreement import Statement
from extensions.protocols.host import pairs as in_pairs
from extensions.protocols.initialization import (
    Strategy,
    Weighting,
    check_choice,
    encode_model,
    number_of_candidates,
)
from extensions.protocols.initialization import initialize as initialize_shares
from extensions.protocols.records import blocks_for, exchange_public
from extensions.public import Public
from extensions.ring.fixed_point import Integers, Reals
from extensions.rules import Whole

from crypten.mpc import MPCTensor
from crypten.nn import ReLU, Sigmoid


def initialize(
    model: Any,
    local: Sequence[tuple[Reals, Reals]],
    records: int,
    *,
    strategy: Strategy = "local",
    held_out: tuple[MPCTensor, MPCTensor] | None = None,
    weighting: Weighting = "records",
) -> None:
    """Sets an encrypted model's parameters to a start made of all parties' local models.

    Every party calls it with its own local model, trained by DPSGD on its own records from the
    parameters that `model` has now; it is shared, and nothing is opened. Charge the local training
    to the optimizer's ledger: ``optimizer.ledger.record("local training", ...)``.

    Args:
        model: an encrypted model of Linear layers with biases, and ReLU or Sigmoid between them.
        local: this party's (weight, bias) of each layer; their norm together is at most 100.
        records: number of this party's training records, public.
        strategy: "local", "local-average" or "local-accuracy".
        held_out: encrypted features and one-hot labels, of use but for "local-average".
        weighting: of the average: "records" by the parties' numbers of records, or "uniform".

    Cost:
        One round for the numbers of records, and those of the protocol, in blocks of held-out ones.

    Raises:
        ArgumentError: in every party and before anything is shared: a local model of other shapes
            or too large, another strategy or weighting than the other parties', a weighting where
            nothing is averaged, or missing held-out records.

    Source:
        Protocol 4, `extensions.protocols.initialization.initialize`.
    """
    pairs = parameter_pairs(model)
    network = _network(model, pairs)
    ring = ring_of(pairs[0][0])
    problem = own = None
    try:
        check_choice(strategy, weighting, held_out)
        own = _encoded(ring, pairs, local, records)
    except ArgumentError as error:
        problem = error
    chosen = {"strategy": strategy, "weighting": weighting, "frac_bits": ring.frac_bits}
    announced = [Public(records=max(records, 0))]
    everybody = exchange_public(exchange, announced, Statement(run=chosen), problem)
    assert own is not None
    started = initialize_shares(
        ring,
        strategy,
        in_pairs(share_rows([1] * ring.parties, own)),
        [each.records for each in everybody],
        start=[(weight.share, bias.share) for weight, bias in pairs],
        held_out=() if held_out is None else _blocks(network, strategy, held_out),
        weighting=weighting,
        network=network,
    )
    for pair, values in zip(pairs, started, strict=True):
        for parameter, value in zip(pair, values, strict=True):
            parameter.share = value


def _blocks(
    network: Network, strategy: Strategy, held_out: tuple[MPCTensor, MPCTensor]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Returns held-out records in blocks whose comparisons of all candidates memory holds."""
    x, targets = (tensor.share for tensor in held_out)
    candidates = number_of_candidates(strategy, ring_of(held_out[0]).parties)
    compared = candidates * max(network.comparisons, network.widths[-1])
    blocks = blocks_for([len(x)], network.widths[0], compared)
    return list(zip(x.tensor_split(blocks), targets.tensor_split(blocks), strict=True))


def parameter_pairs(model: Any) -> list[tuple[Any, Any]]:
    """Returns the encrypted (weight, bias) of each linear layer; ArgumentError for others."""
    parameters = list(model.parameters())
    if [p.dim() for p in parameters] != [2, 1] * (len(parameters) // 2):
        shapes = [tuple(p.size()) for p in parameters]
        allowed = "the weights and biases of linear layers"
        raise ArgumentError("model", shapes, allowed, code="shape")
    return in_pairs(parameters)


def _network(model: Any, pairs: Sequence[tuple[Any, Any]]) -> Network:
    """The public facts about the model, CrypTen's own modules being what they are adopted as."""
    found = [module for module in model.modules() if isinstance(module, ReLU | Sigmoid)]
    layers = len(pairs)
    if len(found) != layers - 1:
        kinds = [type(module).__name__ for module in found]
        raise ArgumentError(
            "model", f"{layers} layers with {kinds}", f"with {layers - 1} activations between them"
        )
    return Network.dense(
        widths=(pairs[0][0].size(1), *(weight.size(0) for weight, _ in pairs)),
        activations=tuple(
            sigmoid() if isinstance(module, Sigmoid) else relu(getattr(module, "max_value", 8.0))
            for module in found
        ),
        has_bias=(True,) * layers,
    )


def _encoded(
    ring: CrypTenRing,
    pairs: Sequence[tuple[Any, Any]],
    local: Sequence[tuple[Reals, Reals]],
    records: int,
) -> list[Integers]:
    """This party's model as ring integers with a leading axis of one, checked."""
    Whole(1).check("records", records)
    wanted = [(tuple(w.size()), tuple(b.size())) for w, b in pairs]
    given = [(np.shape(w), np.shape(b)) for w, b in local]
    if given != wanted:
        raise ArgumentError("local", given, f"of the model's shapes, {wanted}", code="shape")
    return encode_model(local, ring.frac_bits)
