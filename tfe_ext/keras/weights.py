"""A model's weights from the clear, into the clear, and as one file of shares for each server."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np
import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.owners.data import write_private
from extensions.protocols.agreement import common_name
from extensions.ring.fixed_point import Integers, Reals, decode, encode
from tfe_ext.keras.layers import Chain, config_of, layers_of
from tfe_ext.keras.steps.iterates import Iterates
from tfe_ext.keras.steps.kernels import from_matrix, to_matrix
from tfe_ext.keras.steps.step import store
from tfe_ext.keras.trainer import Trainer
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.inputs import deal
from tfe_ext.streams.devices import HERE


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
    optimizer: Any
    _trainer: Trainer

    @property
    def chain(self) -> Chain:
        """The model as a chain of stages."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Returns the model without its weights, as JSON can hold it: name and layers.

        It is a configuration of Keras: ``tf_keras.Sequential.from_config`` makes a model of it too,
        whose activations are not these piecewise-linear ones.
        """
        return {"name": self.name, "layers": config_of(self.layers)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Returns the model of such a configuration, with weights of its own, not compiled.

        Args:
            config: what `get_config` returned, or the one of a Keras model of the same layers.

        Raises:
            UnsupportedLayerError: a layer that cannot be trained privately.
        """
        model: Any = cls
        built: Self = model(layers_of(config["layers"]), name=config.get("name"))
        return built

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Sets kernel and bias of each layer, given in the clear.

        Args:
            weights: arrays of the shapes of `get_weights`; kernels are (in, out), those of Conv2D
                (height, width, in, out), and its biases (out, 1, 1), as the host has them.

        Raises:
            ArgumentError: other shapes, or values that do not fit the ring.
        """
        self._trainer.start_fits = None
        assign(self._trainer.ring, self.chain.flat, weights)

    def get_weights(self) -> list[Reals]:
        """Returns kernel and bias of each layer, **opened**; charge it where it matters."""
        self.opened += 1
        return opened(self._trainer.ring, self.chain.flat)

    def save_shares(self, folder: str | Path) -> list[Path]:
        """Writes each server's summand of the model to ``party-R.npz``, with mode 0600.

        The sum of the three files modulo 2^64, times 2^-frac_bits, is the model; arrays are
        ``weight_i``, (out, in), of a convolution (out, in x height x width), and ``bias_i`` of the
        i-th layer, as in the files of the CrypTen backend. One file tells nothing. This process
        reads all three, as it may read all tensors.
        """
        return save(self._trainer.ring, self.chain, Path(folder))

    def load_shares(self, folder: str | Path) -> None:
        """Restores the model that `save_shares` wrote.

        Raises:
            ArgumentError: a file is missing or damaged, is of another model, or was not written
                together with the others.
        """
        self._trainer.start_fits = None
        load(self._trainer.ring, self.chain, Path(folder))

    @property
    def beside(self) -> Iterates:
        """What a training with this optimizer goes on from beside the weights."""
        return self._trainer.beside(self.chain, self.optimizer)

    def training_shares(self) -> list[dict[str, Integers]]:
        """Returns all that a training goes on from, as summands of each server; secret."""
        beside = self.beside.shares()
        return [own | more for own, more in zip(shares(self.chain), beside, strict=True)]

    def resume(self, parts: Sequence[Mapping[str, Integers]]) -> None:
        """Restores a training that goes on, whose optimizer's state is restored as well.

        Args:
            parts: what `training_shares` returned.

        Raises:
            ArgumentError: other parameters.
        """
        names = _shapes(self.chain)
        restore(self.chain, [{name: own[name] for name in names if name in own} for own in parts])
        self.beside.restore(parts)
        self._trainer.start_fits = 0.0


def assign(ring: ABY3Ring, variables: Sequence[Any], weights: Sequence[Any]) -> None:
    """Shares real numbers anew, and stores them in the variables.

    Raises:
        ArgumentError: other shapes, or values that do not fit the ring.
    """
    shapes = [tuple(variable.shape.as_list()) for variable in variables]
    given = [np.shape(weight) for weight in weights]
    if given != shapes:
        raise ArgumentError("weights", given, f"of shapes {shapes}")
    integers = [encode(weight, ring.frac_bits, name="weights") for weight in weights]
    shares = [deal(ring.servers, tf.constant(values), HERE) for values in integers]
    store(ring, variables, shares)


def opened(ring: ABY3Ring, variables: Sequence[Any]) -> list[Reals]:
    """Returns the values of the variables."""
    return [decode(np.sum(summands(variable), axis=0), ring.frac_bits) for variable in variables]


def summands(variable: Any) -> list[Integers]:
    """Returns the first share of each server, x_0, x_1 and x_2; their sum is the value."""
    return [pair[0].variable.numpy() for pair in variable.unwrapped]


def shares(chain: Chain) -> list[dict[str, Integers]]:
    """Returns x_R of every weight, (out, in), and bias, for each server R."""
    arrays: list[dict[str, Integers]] = [{} for _ in range(ABY3Ring.parties)]
    for i, (kernel, bias) in enumerate(chain.variables):
        for rank, part in enumerate(summands(kernel)):
            arrays[rank][f"weight_{i}"] = to_matrix(part)
        if bias is not None:
            for rank, part in enumerate(summands(bias)):
                arrays[rank][f"bias_{i}"] = to_matrix(part)
    return arrays


def save(ring: ABY3Ring, chain: Chain, folder: Path) -> list[Path]:
    """Writes what `shares` returns, that of server R into ``party-R.npz``.

    All files of one save have the same name in the array ``save``, and no other files have it.
    """
    name = common_name(list, ABY3Ring.parties)
    return [
        write_private(folder / f"party-{rank}.npz", frac_bits=ring.frac_bits, save=name, **own)
        for rank, own in enumerate(shares(chain))
    ]


def load(ring: ABY3Ring, chain: Chain, folder: Path) -> None:
    """Restores the shares that `save` wrote.

    Raises:
        ArgumentError: a file is missing or damaged, is of another model, or was written at another
            moment than the others; the model stays as it is.
    """
    paths = [folder / f"party-{rank}.npz" for rank in range(ABY3Ring.parties)]
    files = [_read(path) for path in paths]
    facts = {"frac_bits": (), "save": (ABY3Ring.parties,)}
    expected: dict[str, tuple[int, ...]] = {**facts, **_shapes(chain)}
    for path, own in zip(paths, files, strict=True):
        shapes = {name: array.shape for name, array in own.items()}
        if shapes != expected or int(own["frac_bits"]) != ring.frac_bits:
            raise ArgumentError(
                "folder",
                str(path),
                f"shares of this model, {expected}, with {ring.frac_bits} fractional bits",
                f"It has {shapes} with {own.get('frac_bits')}.",
            )
        if (own["save"] != files[0]["save"]).any():
            raise ArgumentError(
                "folder",
                str(path),
                f"of the same save as {paths[0].name}",
                "Shares of two saves add up to noise: put back the files of one.",
            )
    restore(chain, [{k: v for k, v in own.items() if k not in facts} for own in files])


def restore(chain: Chain, parts: Sequence[Mapping[str, Integers]]) -> None:
    """Restores what `shares` returned.

    Raises:
        ArgumentError: other parameters.
    """
    expected = _shapes(chain)
    for own in parts:
        given = {name: array.shape for name, array in own.items()}
        if given != expected:
            raise ArgumentError("shares", given, f"of this model, {expected}")
    for i, (kernel, bias) in enumerate(chain.variables):
        shape = kernel.shape.as_list()
        _restore(kernel, [from_matrix(own[f"weight_{i}"], shape) for own in parts])
        if bias is not None:
            shape = bias.shape.as_list()
            _restore(bias, [from_matrix(own[f"bias_{i}"], shape) for own in parts])


def _shapes(chain: Chain) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for i, (kernel, bias) in enumerate(chain.variables):
        *inputs, outputs = kernel.shape.as_list()
        shapes[f"weight_{i}"] = outputs, math.prod(inputs)
        if bias is not None:
            shapes[f"bias_{i}"] = (outputs,)
    return shapes


def _restore(variable: Any, parts: Sequence[Integers]) -> None:
    for rank, pair in enumerate(variable.unwrapped):
        for share, part in zip(
            pair, (parts[rank], parts[(rank + 1) % ABY3Ring.parties]), strict=True
        ):
            share.variable.assign(part)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise ArgumentError(
            "folder", str(path), "a file that save_shares wrote", str(error)
        ) from error
