"""A model's weights from the clear, into the clear, and as one file of shares for each server."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.protocols.agreement import common_name
from extensions.ring.fixed_point import Reals, decode, encode
from extensions.runs.checkpoints import at_once
from extensions.runs.model import path_of
from tfe_ext.keras.layers import Chain, config_of, layers_of
from tfe_ext.keras.steps.iterates import Iterates
from tfe_ext.keras.steps.kernels import from_matrix, to_matrix
from tfe_ext.keras.steps.step import store
from tfe_ext.keras.trainer import Trainer
from tfe_ext.players.records.shelves import shelves_on
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.inputs import deal
from tfe_ext.ring.shares import Replicated
from tfe_ext.ring.variables import assign, from_summands
from tfe_ext.streams.devices import HERE

_RANKS = range(ABY3Ring.parties)


class Weighted:
    """A model whose weights can be set, opened, and kept as shares, beside its configuration.

    Example:
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

    @property
    def chain(self) -> Chain:
        """The model as a chain of stages."""
        raise NotImplementedError

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
        parts = at_once(partial(share, self.chain), _RANKS)
        return shelves_on(ring.servers.devices).put(Path(folder), facts, parts)

    def load_shares(self, folder: str | Path) -> None:
        """Restores the model that `save_shares` wrote.

        Raises:
            ArgumentError: a file is missing or damaged, is of another model, or was not written
                together with the others; the model stays as it is.
        """
        self._trainer.start_fits = None
        ring, chain = self._trainer.ring, self.chain
        files = shelves_on(ring.servers.devices).get(Path(folder))
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
                    "Shares of two saves add up to noise. Put back the files of one.",
                    code="file",
                )
        restore(chain, [{k: v for k, v in own.items() if k not in facts} for own in files])

    @property
    def beside(self) -> Iterates:
        """What a training with this optimizer goes on from beside the weights."""
        return self._trainer.beside(self.chain, self.optimizer)

    def training_shares(self) -> list[dict[str, tf.Tensor]]:
        """Returns all that a training goes on from: summands, on the device of each server."""
        chain, beside = self.chain, self.beside
        return at_once(lambda rank: share(chain, rank) | beside.shares(rank), _RANKS)

    def resume(self, parts: Sequence[Mapping[str, Any]]) -> None:
        """Restores what `training_shares` returned; the optimizer's state is restored as well."""
        names = shapes_of(self.chain)
        restore(self.chain, [{name: own[name] for name in names if name in own} for own in parts])
        self.beside.restore(parts)
        self._trainer.start_fits = 0.0


def opened(ring: ABY3Ring, variables: Sequence[Replicated]) -> list[Reals]:
    """Returns the values of shares in variables."""
    summands = [[part.numpy() for part in each.parts[::2]] for each in variables]
    return [decode(np.sum(each, axis=0), ring.frac_bits) for each in summands]


def share(chain: Chain, rank: int) -> dict[str, tf.Tensor]:
    """Returns x_R of every weight, (out, in), and bias, on the device of server R."""
    own = {}
    for name, held in zip(shapes_of(chain), chain.held, strict=True):
        with tf.device(held.servers[rank]):
            own[name] = to_matrix(held.parts[2 * rank])
    return own


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
