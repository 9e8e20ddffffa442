"""Protocol 4 in CrypTen: an encrypted model starts from what the parties trained locally."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from crypten_ext.nn.batches import share_rows
from crypten_ext.ring.crypten_ring import CrypTenRing, ring_of
from crypten_ext.world import exchange
from extensions.errors import ArgumentError
from extensions.network.activations import PiecewiseLinear, relu, sigmoid
from extensions.network.chain import Network
from extensions.protocols.announcement import Announcement, agree_on_records, blocks_for
from extensions.protocols.initialization import (
    STRATEGIES,
    Strategy,
    Weighting,
    check_weighting,
    encode_model,
    number_of_candidates,
)
from extensions.protocols.initialization import initialize as initialize_shares
from extensions.ring.fixed_point import Integers, Reals
from extensions.rules import Whole, one_of

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
        One round for the numbers of records, and those of the protocol, of held-out records in
        blocks that memory holds.

    Raises:
        ArgumentError: in every party and before anything is shared: a local model of other shapes
            or too large, another strategy or weighting than the other parties', a weighting where
            nothing is averaged, or missing held-out records.

    Source:
        Protocol 4, `extensions.protocols.initialization.initialize`.
    """
    pairs = parameter_pairs(model)
    functions = _activations(model, len(pairs))
    ring = ring_of(pairs[0][0])
    problem = own = None
    try:
        _check(strategy, weighting, held_out)
        own = _encoded(ring, pairs, local, records)
    except ArgumentError as error:
        problem = error
    settings = {"strategy": strategy, "weighting": weighting, "frac_bits": ring.frac_bits}
    announced = [Announcement(records=max(records, 0))]
    everybody = agree_on_records(exchange, announced, settings, problem)
    started = initialize_shares(
        ring,
        strategy,
        _shared(ring, pairs, own),
        [each.records for each in everybody],
        start=[(weight.share, bias.share) for weight, bias in pairs],
        held_out=() if held_out is None else _blocks(ring, pairs, functions, strategy, held_out),
        weighting=weighting,
        activations=functions,
    )
    for pair, values in zip(pairs, started, strict=True):
        for parameter, value in zip(pair, values, strict=True):
            parameter.share = value


def _blocks(
    ring: CrypTenRing,
    pairs: Sequence[tuple[Any, Any]],
    functions: Sequence[PiecewiseLinear],
    strategy: Strategy,
    held_out: tuple[MPCTensor, MPCTensor],
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Returns held-out records in blocks whose comparisons of all candidates memory holds."""
    x, targets = (tensor.share for tensor in held_out)
    outputs = [weight.size(0) for weight, _ in pairs]
    network = Network.dense(
        widths=(pairs[0][0].size(1), *outputs),
        activations=tuple(functions),
        has_bias=(True,) * len(pairs),
    )
    candidates = number_of_candidates(strategy, ring.parties)
    compared = candidates * max(network.comparisons, outputs[-1])
    blocks = blocks_for([len(x)], network.widths[0], compared)
    return list(zip(x.tensor_split(blocks), targets.tensor_split(blocks), strict=True))


def _shared(
    ring: CrypTenRing, pairs: Sequence[tuple[Any, Any]], own: Sequence[Integers] | None
) -> list[tuple[Any, Any]]:
    """Returns shares of all parties' (weight, bias) of each layer, stacked by rank."""
    shapes = [tuple(part.size()) for pair in pairs for part in pair]
    shares = share_rows([1] * ring.parties, shapes, own)
    return list(zip(shares[::2], shares[1::2], strict=True))


def parameter_pairs(model: Any) -> list[tuple[Any, Any]]:
    """Returns the encrypted (weight, bias) of each linear layer.

    Raises:
        ArgumentError: the parameters are not those of linear layers with biases.
    """
    parameters = list(model.parameters())
    if [p.dim() for p in parameters] != [2, 1] * (len(parameters) // 2):
        shapes = [tuple(p.size()) for p in parameters]
        allowed = "the weights and biases of linear layers"
        raise ArgumentError("model", shapes, allowed, code="shape")
    return list(zip(parameters[::2], parameters[1::2], strict=True))


def _activations(model: Any, layers: int) -> list[PiecewiseLinear]:
    """The functions between the layers, CrypTen's own modules being what they are adopted as."""
    found = [module for module in model.modules() if isinstance(module, ReLU | Sigmoid)]
    if len(found) != layers - 1:
        kinds = [type(module).__name__ for module in found]
        raise ArgumentError(
            "model", f"{layers} layers with {kinds}", f"with {layers - 1} activations between them"
        )
    return [
        sigmoid() if isinstance(module, Sigmoid) else relu(getattr(module, "max_value", 8.0))
        for module in found
    ]


def _check(strategy: Strategy, weighting: Weighting, held_out: object) -> None:
    """Raises ArgumentError unless the strategy is known and has what it needs."""
    one_of(STRATEGIES).check("strategy", strategy)
    check_weighting(strategy, weighting)
    if strategy != "local-average" and held_out is None:
        raise ArgumentError("held_out", None, f"with {{strategy={strategy}}}", code="missing")


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
