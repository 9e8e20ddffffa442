"""Protocol 4 on a model of the host's layers: it starts from what the owners trained locally."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.protocols.host import flat, pairs
from extensions.protocols.initialization import Strategy, Weighting, encode_model, initialize
from extensions.ring.fixed_point import Integers
from tfe_ext.costs.cost import Cost, cost_of_graph
from tfe_ext.graphs.batches import check_players
from tfe_ext.keras.base_optimizer import Optimizer
from tfe_ext.keras.layers import Chain
from tfe_ext.keras.steps.step import parameters_of, store
from tfe_ext.keras.trainer import Trainer
from tfe_ext.ring.inputs import share_rows

import tf_encrypted as tfe

_CHOICE = "choice among local models"


class LocalStart:
    """A model whose weights can be made of what owners trained locally."""

    _trainer: Trainer
    _optimizer: Optimizer | None

    @property
    def chain(self) -> Chain:
        """The model as a chain of stages."""
        raise NotImplementedError

    def initialize_from(
        self,
        local: Mapping[str, Sequence[Any]],
        records: Mapping[str, int],
        *,
        strategy: Strategy = "local",
        held_out: tuple[Any, Any] | None = None,
        weighting: Weighting = "records",
    ) -> Cost:
        """Makes a start of all owners' local models, and returns what that costs.

        Each local model is trained by DPSGD on its owner's records alone, from the weights that the
        model has now, which are public. Nothing is opened, not even whose model is taken
        (`extensions.protocols.initialization.initialize`). Charge the local training to the
        optimizer's ledger: ``model.optimizer.ledger.record("local training", ...)``.

        Args:
            local: each owner's model by its player's name, {"server0": [kernel, bias, ...], ...}:
                as `get_weights` has it, a kernel and its bias together of norm 100 at most.
            records: each owner's number of training records, public.
            strategy: "local", "local-average" or "local-accuracy".
            held_out: features and labels, both as in `evaluate`, on which candidates are tried and
                no local model was trained, unless "local-average"; no epsilon covers the choice.
            weighting: of the average: "records" by the owners' numbers of records, or "uniform".

        Guarantees:
            Each local model is a variable on the device of its owner, and is shared from there. It
            is no constant of the graph, of which every player gets a copy. What does not fit is
            refused before anything is shared.

        Cost:
            Of a model of one layer, sharing included: 2 rounds for "local-average", 21 for "local",
            whatever the number of owners. A graph is traced for each call.
        """
        chain, ring = self.chain, self._trainer.ring
        checked = _check(chain, local, records, ring.frac_bits)
        tried = None
        if held_out is not None and strategy != "local-average":
            tried = self._trainer.records(chain, *held_out, self._optimizer)
            self._trainer.held_out.record(_CHOICE, noise_multiplier=0.0, sample_rate=1.0, steps=1)
        models = [_placed(name, integers) for name, integers in checked.items()]

        def start() -> None:
            batch = None if tried is None else tried.everything()
            started = initialize(
                ring,
                strategy,
                pairs(share_rows(ring.servers, models)),
                [records[name] for name in checked],
                start=parameters_of(ring, chain),
                held_out=() if batch is None else [(batch.x, batch.y)],
                weighting=weighting,
                network=chain.network,
            )
            store(ring, chain.held, flat([(weight.T, bias) for weight, bias in started]))

        self._trainer.start_fits = None
        return _run_once(start)


def _run_once(function: Callable[[], None]) -> Cost:
    """Runs the function as a graph, and returns what that costs."""
    traced = tf.function(function, autograph=False).get_concrete_function()
    cost = cost_of_graph(traced.graph)
    traced()
    return cost


def _placed(name: str, integers: Sequence[Integers]) -> tuple[str, list[tf.Variable]]:
    """Returns an owner's device, and its model as variables there and nowhere else."""
    owner = tfe.get_config().get_player(name).device_name
    with tf.init_scope(), tf.device(owner):
        return owner, [tf.Variable(x, trainable=False, name="local_model") for x in integers]


def _check(
    chain: Chain, local: Any, records: Mapping[str, int], frac_bits: int
) -> dict[str, list[Integers]]:
    """Returns every owner's model in ring integers, weights (1, out, in) and biases (1, out)."""
    if not chain.network.is_dense:
        raise ArgumentError("model", "layers of images", "Dense layers, with activations between")
    if not all(chain.network.has_bias):
        raise ArgumentError("model", "a Dense layer without bias", "Dense layers with biases")
    if not isinstance(local, Mapping) or not local:
        raise ArgumentError(
            "local",
            type(local).__name__,
            "a dictionary of each owner's model by its name",
            'For that of the first server: local={"server0": weights}.',
            code="type",
        )
    if not isinstance(records, Mapping) or set(records) != set(local):
        raise ArgumentError("records", records, f"numbers of the same owners, {sorted(local)}")
    check_players("local", local)
    wanted = [tuple(variable.shape.as_list()) for variable in chain.flat]
    checked = {}
    for name, weights in local.items():
        given = [np.shape(weight) for weight in weights]
        if given != wanted:
            allowed = f"of the model's shapes, {wanted}"
            raise ArgumentError("local", f"{given} at {name}", allowed, code="shape")
        model = pairs([np.asarray(weight, dtype=np.float64).T for weight in weights])
        try:
            checked[name] = encode_model(model, frac_bits)
        except ArgumentError as error:
            error.add_note(f"This is the model of {name}.")
            raise
    return checked
