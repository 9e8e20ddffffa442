"""A model's weights: given, made of owners' models, opened, and as files of shares."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.layers.losses import Loss
from extensions.protocols.agreement import common_name
from extensions.protocols.host import flat, pairs
from extensions.protocols.initialization import Strategy, Weighting, encode_model, initialize
from extensions.ring.fixed_point import Integers, Reals, decode, encode
from extensions.runs.checkpoints import run_concurrently
from extensions.runs.model import path_of
from tfe_ext.costs.cost import Cost
from tfe_ext.graphs.batches import check_players
from tfe_ext.graphs.program import Program
from tfe_ext.keras.iterates import Iterates, from_matrix, parameters_of, store, to_matrix
from tfe_ext.keras.layers import Chain, chain_of, config_of, layers_of
from tfe_ext.keras.trainer import Trainer
from tfe_ext.players.records.remote_store import share_store_on
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.inputs import deal, share_rows
from tfe_ext.ring.shares import Replicated
from tfe_ext.ring.variables import assign, from_summands
from tfe_ext.streams.devices import HERE, on_each

import tf_encrypted as tfe

_CHOICE = "choice among local models"
_RANKS = range(ABY3Ring.parties)


class Weighted:
    """A model whose weights can be set, opened, and kept as shares, beside its configuration.

    Examples:
        >>> config = model.get_config()
        >>> model.save_shares("kept")
        >>> again = tfe_ext.keras.Sequential.from_config(config)
        >>> again.load_shares("kept")
    """

    name: str
    layers: list[Any]
    opened: int
    keep_spent: Callable[[], None] | None
    optimizer: Any
    _trainer: Trainer
    _kind: Loss

    @property
    def chain(self) -> Chain:
        """The model as a chain of stages."""
        return chain_of(self.layers, self._kind)

    def get_config(self) -> dict[str, Any]:
        """Returns the model without its weights, as JSON can hold it: name and layers.

        It is a configuration of Keras: ``tf_keras.Sequential.from_config`` makes a model of it too,
        whose activations are not these piecewise-linear ones, but for a `Residual`, which that
        Sequential has not.
        """
        return {"name": self.name, "layers": config_of(self.layers)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Returns the model that `get_config` described, or Keras did; not compiled.

        Its weights are new. Raises UnsupportedLayerError for a layer without private training.
        """
        model: Any = cls
        built: Self = model(layers_of(config["layers"]), name=config.get("name"))
        return built

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Sets kernel and bias of each layer, given in the clear.

        Args:
            weights: arrays of the shapes of `get_weights`; kernels are (in, out), those of Conv2D
                (height, width, in, out), and its biases (out, 1, 1), as the host has them.
        """
        self._trainer.start_fits = None
        ring, chain = self._trainer.ring, self.chain
        shapes = [tuple(variable.shape.as_list()) for variable in chain.flat]
        given = [np.shape(weight) for weight in weights]
        if given != shapes:
            raise ArgumentError("weights", given, f"of shapes {shapes}", code="shape")
        integers = [encode(weight, ring.frac_bits, name="weights") for weight in weights]
        shares = [deal(ring.servers, tf.constant(values), HERE) for values in integers]
        store(ring, chain.held, shares)

    def get_weights(self) -> list[Reals]:
        """Returns kernel and bias of each layer, **opened**; charge it where it matters."""
        self.announce_opening()
        return opened(self._trainer.ring, self.chain.held)

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
            tried = self._trainer.records(chain, *held_out, self.optimizer)
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
        program = Program(start)
        program()
        return program.cost

    def announce_opening(self) -> None:
        """Counts an opening of the model, which is charged already; to be called before it."""
        self.opened += 1
        if self.keep_spent is not None:
            self.keep_spent()

    def save_shares(self, folder: str | Path) -> list[Path]:
        """Writes each server's summand of the model to ``party-R.npz``, with mode 0600.

        The sum of the three files modulo 2^64, times 2^-frac_bits, is the model; arrays are
        ``weight_i``, (out, in), of a convolution (out, in x height x width), and ``bias_i`` of the
        i-th layer, as in the files of the CrypTen backend; and ``save``, which only these three
        have in common. One file tells nothing. With `tfe_ext.remote_config` each player writes its
        own server's, where it is started, and no share comes to this process; without players of
        that kind this process writes all three.
        """
        ring = self._trainer.ring
        facts = {"frac_bits": ring.frac_bits, "save": common_name(list, ABY3Ring.parties)}
        parts = run_concurrently(partial(share, self.chain), _RANKS)
        return share_store_on(ring.servers.devices).put(Path(folder), facts, parts)

    def load_shares(self, folder: str | Path) -> None:
        """Restores the model that `save_shares` wrote.

        Raises ArgumentError if a file is missing or damaged, is of another model, or was not
        written together with the others; the model stays as it is.
        """
        self._trainer.start_fits = None
        ring, chain = self._trainer.ring, self.chain
        files = share_store_on(ring.servers.devices).get(Path(folder))
        facts = {"frac_bits": (), "save": (ABY3Ring.parties,)}
        expected: dict[str, tuple[int, ...]] = {**facts, **shapes_of(chain)}
        for rank, own in enumerate(files):
            path = path_of(Path(folder), rank)
            shapes = {name: tuple(array.shape) for name, array in own.items()}
            if shapes != expected or int(own["frac_bits"]) != ring.frac_bits:
                raise ArgumentError(
                    "folder",
                    str(path),
                    f"shares of this model, {expected}, with {ring.frac_bits} fractional bits",
                    f"It has {shapes} with {own.get('frac_bits')}.",
                    code="file",
                )
            if (own["save"] != files[0]["save"]).any():
                raise ArgumentError(
                    "folder",
                    str(path),
                    f"of the same save as {path_of(Path(folder), 0).name}",
                    "Shares of two saves add up to noise. Put back the files of one save.",
                    code="file",
                )
        restore(chain, [{k: v for k, v in own.items() if k not in facts} for own in files])

    @property
    def optimizer_state(self) -> Iterates:
        """What a training with this optimizer goes on from beside the weights."""
        return self._trainer.optimizer_state(self.chain, self.optimizer)

    def training_shares(self) -> list[dict[str, tf.Tensor]]:
        """Returns all that a training goes on from: summands, on the device of each server."""
        chain, beside = self.chain, self.optimizer_state
        return run_concurrently(lambda rank: share(chain, rank) | beside.shares(rank), _RANKS)

    def resume(self, parts: Sequence[Mapping[str, Any]]) -> None:
        """Restores what `training_shares` returned; the optimizer's state is restored as well."""
        names = shapes_of(self.chain)
        restore(self.chain, [{name: own[name] for name in names if name in own} for own in parts])
        self.optimizer_state.restore(parts)
        self._trainer.start_fits = 0.0


def opened(ring: ABY3Ring, variables: Sequence[Replicated]) -> list[Reals]:
    """Returns the values of shares in variables."""
    summands = [[part.numpy() for part in each.parts[::2]] for each in variables]
    return [decode(np.sum(each, axis=0), ring.frac_bits) for each in summands]


def share(chain: Chain, rank: int) -> dict[str, tf.Tensor]:
    """Returns x_R of every weight, (out, in), and bias, on the device of server R."""
    devices = [held.servers[rank] for held in chain.held]
    parts = on_each(devices, lambda held: to_matrix(held.parts[2 * rank]), chain.held)
    return dict(zip(shapes_of(chain), parts, strict=True))


def restore(chain: Chain, parts: Sequence[Mapping[str, Any]]) -> None:
    """Restores what `share` returned for all servers."""
    expected = shapes_of(chain)
    for own in parts:
        given = {name: tuple(array.shape) for name, array in own.items()}
        if given != expected:
            raise ArgumentError("shares", given, f"of this model, {expected}", code="shape")
    for name, held in zip(expected, chain.held, strict=True):
        shares = from_summands(held.servers, [own[name] for own in parts])
        assign(held, shares.each(partial(from_matrix, shape=held.shape)))


def shapes_of(chain: Chain) -> dict[str, tuple[int, ...]]:
    """Returns those of every weight, (out, in), and bias, by its name in files."""
    shapes: dict[str, tuple[int, ...]] = {}
    for i, (kernel, bias) in enumerate(chain.variables):
        *inputs, outputs = kernel.shape.as_list()
        shapes[f"weight_{i}"] = outputs, math.prod(inputs)
        if bias is not None:
            shapes[f"bias_{i}"] = (outputs,)
    return shapes


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
