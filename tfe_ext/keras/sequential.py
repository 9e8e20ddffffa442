"""A model of the host's layers that is trained by DPSGD, with nothing opened on the way."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from extensions.cli import console
from extensions.errors import ArgumentError, GradientError, UnsupportedLayerError
from extensions.network.losses import Loss
from extensions.ring.fixed_point import Integers, Reals
from tfe_ext.aby3.protocol import ABY3
from tfe_ext.cost.cost import Cost
from tfe_ext.keras import weights as weights_of
from tfe_ext.keras.initialization import LocalStart
from tfe_ext.keras.layers import Chain, chain_of, check_layer
from tfe_ext.keras.losses import loss_of
from tfe_ext.keras.optimizers import Optimizer
from tfe_ext.keras.step import logits_of
from tfe_ext.keras.trainer import Trainer, steps_of
from tfe_ext.keras.training import Training
from tfe_ext.ring.private_tensors import share_of, tensor_of

import tf_encrypted as tfe
from tf_encrypted.keras.models import sequential as host

Progress = Callable[[int, int], None]


class Sequential(LocalStart, host.Sequential):
    """The host's Sequential, with private training in place of the host's.

    Layers are the host's Dense (activation None, "relu" or "sigmoid"), Activation, ReLU and
    Flatten. Activations are the piecewise-linear ones of `extensions.network.activations`: the
    sigmoid is at most 0.0107 from the true one, and ReLU ends at 8, which bounds the norms that
    rounding depends on.

    Args:
        layers: the first one needs ``batch_input_shape=[rows, features]``; the number of rows has
            no influence.
        name: as in the host.

    Raises:
        ArgumentError: the current protocol is not `tfe_ext.ABY3`, or the first layer has no shape.
        UnsupportedLayerError: a layer that cannot be trained privately.

    Example:
        >>> model = tfe_ext.keras.Sequential([Dense(10, batch_input_shape=[1, 64])])
        >>> model.compile(
        ...     tfe_ext.keras.DPSGD(10.0, 1.0, 1.1, sample_rate=0.1),
        ...     tfe_ext.keras.BinaryCrossentropy(),
        ... )
        >>> model.fit({"server0": x0, "server1": x1}, {"server0": y0, "server1": y1}, epochs=12)
        >>> model.optimizer.get_epsilon(delta=1e-5)
    """

    def __init__(self, layers: Sequence[Any] | None = None, name: str | None = None) -> None:
        prot = tfe.get_protocol()
        if not isinstance(prot, ABY3):
            raise ArgumentError(
                "protocol",
                type(prot).__name__,
                "tfe_ext.ABY3",
                'Call tfe.set_protocol(tfe_ext.ABY3(fixedpoint_config="f20")) before.',
            )
        self._prot = prot
        self._trainer = Trainer(prot.ring)
        self._width: tuple[int, ...] = ()
        self._kind: Loss = "sigmoid"
        super().__init__(layers, name)

    def add(self, layer: Any) -> None:
        """Appends a layer, and makes its variables."""
        check_layer(layer)
        if not self._layers:
            shape = getattr(layer, "_batch_input_shape", None)
            if shape is None or len(shape) < 2 or None in tuple(shape)[1:]:
                raise ArgumentError(
                    "layers[0].batch_input_shape", shape, "[rows, features] with known features"
                )
            self._width = tuple(int(size) for size in tuple(shape)[1:])
        if not layer.built:
            layer.build([1, *self._width])
            layer.built = True
        self._width = tuple(int(s) for s in layer.compute_output_shape([1, *self._width])[1:])
        self._layers.append(layer)
        self.weights.append(layer.weights)
        self._trainer.start_fits = None

    @property
    def optimizer(self) -> Any:
        """What `compile` was given."""
        return self._optimizer

    @property
    def frac_bits(self) -> int:
        """Fractional bits of the model's shares."""
        return self._prot.ring.frac_bits

    @property
    def chain(self) -> Chain:
        """The model as a chain of linear layers."""
        return chain_of(self.layers, self._kind)

    def compile(self, optimizer: Any, loss: Any) -> None:
        """Configures the model for private training.

        Args:
            optimizer: `tfe_ext.keras.DPSGD`, or `SGD` for comparison.
            loss: `tfe_ext.keras.BinaryCrossentropy()`, `CategoricalCrossentropy()`, or one of the
                host's classes with from_logits=True.

        Raises:
            ArgumentError: another optimizer or loss, or a loss that the outputs do not fit.
            UnsupportedLayerError: the layers cannot be trained in their order.
        """
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(
                "optimizer",
                type(optimizer).__name__,
                "tfe_ext.keras.DPSGD or SGD",
                "The host's optimizers know no single example's gradient.",
            )
        kind = loss_of(loss)
        chain_of(self.layers, kind)
        self._optimizer, self._loss, self._kind = optimizer, loss, kind
        self._trainer.start_fits = None

    def call(self, inputs: Any, training: None = None, mask: None = None) -> Any:
        """Returns the logits of private inputs (rows, features), as a private tensor."""
        x = share_of(self._prot.ring, inputs, "inputs")
        logits = logits_of(self._trainer.ring, self.chain, x.reshape(x.shape[0], -1))
        return tensor_of(self._prot, logits)

    def fit(
        self,
        x: Any,
        y: Any,
        *,
        epochs: float = 1.0,
        steps: int | None = None,
        initial_step: int = 0,
        verbose: bool = True,
        progress: Progress | None = None,
    ) -> None:
        """Makes all steps of private training; nothing is opened, not the loss either.

        Every step draws a fresh Poisson sample: each owner draws from its own records on its own
        device, and pads to a public number of rows. The step is one graph, which is traced at the
        first step and again only if shapes or settings change.

        Args:
            x: features by the owner's name, {"server0": (records, features), ...}; owners are
                players of the configuration. Or, for ``sample_rate=1.0``, of private tensors what
                `tfe_ext.keras.vouch_for` returned.
            y: labels by the owner's name: integers (records,) or targets in [0, 1],
                (records, classes). Or what `vouch_for` returned with x.
            epochs: number of steps times sample_rate, if `steps` is not given.
            steps: number of steps, those made before included.
            initial_step: number of steps made before, of a run that goes on.
            verbose: shows a bar.
            progress: called with (steps made, steps) after each step.

        Raises:
            ArgumentError: records or settings that do not fit, before anything is shared.
            UnsupportedLayerError: the model or a layer computes in a way of its own.
            GradientError: `compile` was not called, or so many steps might leave the range for
                which bounds are proven.
        """
        if not isinstance(self._optimizer, Optimizer):
            raise GradientError("The model has no optimizer: call compile() before fit().")
        optimizer = self._optimizer
        if type(self).call is not Sequential.call or "call" in vars(self):
            raise UnsupportedLayerError(
                f"{type(self).__name__} has a call of its own, which training would pass by. Put "
                "what it does into layers, or into what each owner makes of its records."
            )
        self._kind = loss_of(self._loss)
        steps = steps_of(steps, epochs, optimizer.settings.sample_rate)
        if not 0 <= initial_step <= steps:
            raise ArgumentError("initial_step", initial_step, f"in 0..{steps}")
        training = Training(self._trainer, self.chain, optimizer, x, y, steps)
        training.prepare(steps - initial_step)
        with console.counted("step", shown=verbose) as show:
            for done in range(initial_step + 1, steps + 1):
                training.step(steps - done + 1)
                show(done, steps)
                if progress is not None:
                    progress(done, steps)

    def step_cost(self) -> Cost:
        """Returns what a step of the last `fit` costs, read from its graph.

        Raises:
            GradientError: there was none.
        """
        return self._trainer.cost()

    def evaluate(self, x: Any, y: Any) -> float:
        """Returns the part of the records that the model gets right; opens that number only.

        Args:
            x: as in `fit`.
            y: as in `fit`, one-hot if targets are given.

        Cost:
            A graph is traced for each call.

        Raises:
            ArgumentError: records that do not fit.
        """
        return self._trainer.accuracy(self.chain, x, y, self._optimizer)

    def predict(self, x: Any, reveal: bool = True) -> Any:
        """Returns the logits of a private tensor (rows, features), **opened** unless told not to.

        The host's stops after as many rows as there are features.
        """
        logits = self.call(x)
        return logits.reveal().to_native().numpy() if reveal else logits

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Sets kernel and bias of each Dense layer, given in the clear.

        Args:
            weights: arrays of the shapes of `get_weights`; kernels are (in, out).

        Raises:
            ArgumentError: other shapes, or values that do not fit the ring.
        """
        self._trainer.start_fits = None
        weights_of.assign(self._prot.ring, self.chain.flat, weights)

    def get_weights(self) -> list[Reals]:
        """Returns kernel and bias of each Dense layer, **opened**; charge it where it matters."""
        return weights_of.opened(self._prot.ring, self.chain.flat)

    def save_shares(self, folder: str | Path) -> list[Path]:
        """Writes each server's summand of the model to ``party-R.npz``, with mode 0600.

        The sum of the three files modulo 2^64, times 2^-frac_bits, is the model; arrays are
        ``weight_i``, (out, in), and ``bias_i`` of the i-th Dense layer, as in the files of the
        CrypTen backend. One file tells nothing. This process reads all three, as it may read all
        tensors.
        """
        return weights_of.save(self._prot.ring, self.chain, Path(folder))

    def load_shares(self, folder: str | Path) -> None:
        """Restores the model that `save_shares` wrote.

        Raises:
            ArgumentError: a file is missing or damaged, is of another model, or was not written
                together with the others.
        """
        self._trainer.start_fits = None
        weights_of.load(self._prot.ring, self.chain, Path(folder))

    def resume(self, parts: Sequence[Mapping[str, Integers]]) -> None:
        """Restores the weights of a training that goes on, with its optimizer's state.

        Args:
            parts: what `tfe_ext.keras.weights.shares` returned.

        Raises:
            ArgumentError: other parameters.
        """
        weights_of.restore(self.chain, parts)
        self._trainer.start_fits = 0.0

    def backward(self, d_y: Any) -> None:
        """Raises GradientError: gradients of a batch are not those of its examples."""
        raise GradientError("There is no backward() of a whole batch here. Call fit().")

    def fit_batch(self, x: Any, y: Any) -> None:
        """Raises GradientError: the host's would reveal the loss of the batch."""
        raise GradientError("The host's fit_batch reveals the loss of every batch. Call fit().")
