"""A model of the host's layers that is trained by DPSGD, with nothing opened on the way."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from extensions.cli import console
from extensions.errors import ArgumentError, GradientError, UnsupportedLayerError
from extensions.layers.losses import Loss
from extensions.privacy.accounting import Ledger
from extensions.protocols.settings import Split
from tfe_ext.aby3.protocol import current_protocol
from tfe_ext.costs.cost import Cost
from tfe_ext.graphs.batches import pair_of
from tfe_ext.keras.base_optimizer import Optimizer
from tfe_ext.keras.columns import Columns, of_columns
from tfe_ext.keras.fitting.epochs import Epochs, Fitting, Validation
from tfe_ext.keras.iterates import logits_of
from tfe_ext.keras.layers import chain_of, check_layer, check_place
from tfe_ext.keras.losses import loss_of
from tfe_ext.keras.trainer import Count, Trainer, Training, steps_of
from tfe_ext.keras.weights import Weighted
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.private_tensors import share_of, tensor_of

from tf_encrypted.keras.models import sequential as host


class Sequential(Weighted, host.Sequential):
    """Trains TF Encrypted's Keras layers privately.

    Use TF Encrypted's Dense and Conv2D (activation None, "relu", "sigmoid" or "tanh"),
    AveragePooling2D, MaxPooling2D, Activation, ReLU and Flatten, and `tfe_ext.keras.Residual` of
    these. Images are (rows, height, width, channels). Activations are piecewise linear
    (`extensions.layers.activations`): sigmoid is within 0.0107 of the true one, tanh within 0.0214,
    and ReLU ends at 8, which bounds the norms that rounding depends on.

    Args:
        layers: the first one needs ``batch_input_shape=[rows, features]``; the number of rows is
            ignored.
        name: as in Keras.

    Attributes:
        history: numbers that the last `fit` passed to callbacks.
        opened: number of times that something of the model was opened.
        keep_spent: called before that, if it is set; `Checkpoints` set it.
        stop_training: set by a callback, it ends `fit`.

    Raises:
        ArgumentError: the current protocol is another one than `tfe_ext.ABY3`, or the first layer
            lacks its shape.
        UnsupportedLayerError: a layer that cannot be trained privately.

    Examples:
        >>> model = tfe_ext.keras.Sequential([Dense(3, batch_input_shape=[1, 4])])
        >>> optimizer = tfe_ext.keras.DPSGD(1.0, 1.0, 2.0, sample_rate=0.5)
        >>> model.compile(optimizer, tfe_ext.keras.BinaryCrossentropy())
        >>> history = model.fit(x, y, steps=2, verbose=False)
        >>> round(optimizer.get_epsilon(delta=1e-4), 1)
        1.5
    """

    def __init__(self, layers: Sequence[Any] | None = None, name: str | None = None) -> None:
        self._prot = current_protocol()
        self._trainer = Trainer(self._prot.ring)
        self.opened = 0
        self.keep_spent = None
        self.stop_training = False
        self._width: tuple[int, ...] = ()
        self._kind: Loss = "sigmoid"
        super().__init__(layers, name)
        if name is not None:  # which the host drops
            self._init_set_name(name)

    def add(self, layer: Any) -> None:
        """Appends a layer, and makes its variables."""
        check_layer(layer)
        if not self._layers:
            shape = getattr(layer, "_batch_input_shape", None)
            if shape is None or len(shape) < 2 or None in tuple(shape)[1:]:
                allowed = "[rows, features] with known features"
                raise ArgumentError("layers[0].batch_input_shape", shape, allowed, code="shape")
            self._width = tuple(int(size) for size in tuple(shape)[1:])
        check_place(layer, self._width)
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
    def held_out_ledger(self) -> Ledger:
        """What counts of correct predictions cost the records counted, if they are held out."""
        return self._trainer.held_out

    def spent(self) -> dict[str, Any]:
        """Returns what is counted of openings beside the optimizer's ledger, for JSON."""
        return {"opened": self.opened, "held_out": self.held_out_ledger.to_json()}

    def load_spent(self, state: Mapping[str, Any]) -> None:
        """Adds what `spent` returned of a run that goes on, whose ledger's phases come first."""
        before = Ledger.from_json(state["held_out"])
        before.add(self.held_out_ledger)
        self._trainer.held_out = before
        self.opened += state["opened"]

    @property
    def ring(self) -> ABY3Ring:
        """The ring of the model's protocol, which says where its servers are."""
        return self._prot.ring

    def summary(self, print_fn: Callable[[str], object] = print) -> None:
        """Prints each layer's name, output shape and number of weights. Opens nothing."""
        shape, total = (1, *self._layers[0]._batch_input_shape[1:]) if self._layers else (1,), 0
        rows = [("Layer (type)", "Output Shape", "Param #")]
        for layer in self._layers:
            shape = tuple(layer.compute_output_shape(shape))
            count = sum(math.prod(map(int, weight.shape)) for weight in layer.weights)
            total += count
            shown = (None, *map(int, shape[1:]))
            rows.append((f"{layer.name} ({type(layer).__name__})", str(shown), str(count)))
        first, second, _ = (max(map(len, column)) + 2 for column in zip(*rows, strict=True))
        for name, output, number in rows:
            print_fn(f"{name:<{first}}{output:<{second}}{number}")
        print_fn(f"Total params: {total}")

    def compile(
        self, optimizer: Any, loss: Any, metrics: Any = None, *, weighted_metrics: Any = None
    ) -> None:
        """Configures the model for private training.

        Args:
            optimizer: `tfe_ext.keras.DPSGD` or `DPAdam`; `SGD` or `Adam` for comparison.
            loss: `tfe_ext.keras.BinaryCrossentropy()`, `CategoricalCrossentropy()`, or one of the
                host's classes with from_logits=True; it must fit the outputs.
            metrics: left out or empty, since each step's metrics would open what is learnt.
            weighted_metrics: likewise.
        """
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(
                "optimizer",
                type(optimizer).__name__,
                "tfe_ext.keras.DPSGD, DPAdam, SGD or Adam",
                "The host's optimizers have no gradients of single examples.",
                code="type",
            )
        for name, given in (("metrics", metrics), ("weighted_metrics", weighted_metrics)):
            if given:
                advice = (
                    "Metrics of training records would be opened at each step without an epsilon. "
                    "Call evaluate(x, y), or fit(validation_data=(x, y)), which opens only the "
                    "number of right predictions on held-out records."
                )
                raise ArgumentError(name, given, "", advice, code="conflict")
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
        y: Any = None,
        *,
        epochs: float = 1.0,
        steps: int | None = None,
        initial_step: int = 0,
        verbose: bool = True,
        callbacks: Sequence[Any] = (),
        validation_data: Any = None,
        validation_freq: int | Sequence[int] = 1,
        count_noise: float | None = None,
        physical_rows: int | None = None,
        split: Split = "rows",
    ) -> Any:
        """Makes all steps of private training; returns their History. No loss is opened.

        Every step draws a fresh Poisson sample: each owner draws from its own records on its own
        device, and pads to a public number of rows. With a sample_rate of 1 all are shared once.

        Args:
            x: features by the owner's name, {"server0": (records, features), ...}, or data sets
                (`tfe_ext.graphs.datasets.read`); owners are players of the configuration.
                Or, for ``sample_rate=1.0``, of private tensors what `vouch_for` returned.
            y: labels by the owner's name, of all owners without a data set: integers (records,) or
                targets in [0, 1], (records, classes). Or what `vouch_for` returned with x.
            epochs: number of steps times sample_rate, if `steps` is not given.
            steps: number of steps, those made before included.
            initial_step: number of steps made before, of a run that goes on.
            verbose: shows a bar.
            callbacks: of `tf_keras.callbacks`; `Fitting` says what they are told.
            validation_data: x, or (x, y), as in `evaluate`: right predictions are counted after an
                epoch, and their number is **opened**.
            validation_freq: of epochs with a count, or their numbers, beginning with 1.
            count_noise: as in `evaluate`.
            physical_rows: about how many rows of a batch are computed at once, one piece after the
                other, of records by their owners' names: less memory, and more rounds. Clipping,
                noise and epsilon are those of the whole batch.
            split: rows, or columns of the same records (`tfe_ext.keras.columns.Columns`).

        Raises:
            ArgumentError: records or settings that do not fit, before anything is shared.
            UnsupportedLayerError: the model or a layer computes in a way of its own.
            GradientError: `compile` was not called, or so many steps might leave the range for
                which bounds are proven.
        """
        optimizer = self._checked()
        if split == "columns":
            x, y, validation_data = of_columns(optimizer.sample_rate, x, y, validation_data)
        total = steps_of(steps, epochs, optimizer.sample_rate)
        planned = Epochs(steps=total, initial_step=initial_step, sample_rate=optimizer.sample_rate)
        training = Training(self._trainer, self.chain, optimizer, x, y, total, physical_rows)
        held_out = None if validation_data is None else pair_of(validation_data)
        count = held_out and self._count("held out", held_out, count_noise)
        fitting = Fitting(self, planned, callbacks, Validation(count, validation_freq))
        training.prepare(total - initial_step)
        self._trainer.charge_counts(optimizer)
        with console.counted("step", shown=verbose) as show:
            return fitting.run(training, show)

    def _checked(self) -> Optimizer:
        if not isinstance(self._optimizer, Optimizer):
            raise GradientError("The model needs an optimizer: call compile() before fit().")
        if type(self).call is not Sequential.call or "call" in vars(self):
            raise UnsupportedLayerError(
                f"{type(self).__name__} overrides call, which training would skip. Move that code "
                "into layers, or into the owners' preparation of records."
            )
        self._kind = loss_of(self._loss)
        return self._optimizer

    def _count(self, use: str, data: tuple[Any, Any], noise: float | None) -> Count:
        return self._trainer.count(self.chain, data, self._optimizer, noise, use)

    def step_cost(self, *, memory: bool = False) -> Cost:
        """Returns what a step of the last `fit` costs, read from its graph.

        With its memory, if that is asked for, it takes some tenths of a second.
        """
        return self._trainer.cost(memory=memory)

    def evaluate(
        self, x: Any, y: Any = None, *, count_noise: float | None = None, split: Split = "rows"
    ) -> float:
        """Returns the part of the records that the model gets right; opens that number only.

        Args:
            x: as in `fit`, or a private tensor.
            y: as in `fit`, one-hot if targets are given.
            count_noise: standard deviation of the noise that the number gets, in records; without
                it the number is exact.
            split: as in `fit`.

        Guarantees:
            Of records that the model was not trained on, the number costs the training records
            nothing beyond the model. What it costs the records counted is charged to
            `held_out_ledger`: a Gaussian mechanism of multiplier `count_noise`, or infinity for an
            exact number; if the model is trained on them afterwards in private, to that optimizer's
            ledger as well. Of records that the model was trained on, it is charged to the
            optimizer's ledger instead, and refused without noise.

        Cost:
            A graph is traced for the first call with records of these shapes.
        """
        if split == "columns":
            x, y = Columns(x, y), None
        count = self._count("tried", (x, y), count_noise)
        return count.accuracy(self.announce_opening)

    def predict(self, x: Any, reveal: bool = True) -> Any:
        """Returns the logits of a private tensor (rows, features), **opened** unless told not to.

        The host's stops after as many rows as there are features.
        """
        logits = self.call(x)
        if not reveal:
            return logits
        self.announce_opening()
        return logits.reveal().to_native().numpy()

    def backward(self, d_y: Any) -> None:
        """Raises GradientError: gradients of a batch are not those of its examples."""
        raise GradientError("This model cannot run backward() on a whole batch. Call fit().")

    def fit_batch(self, x: Any, y: Any) -> None:
        """Raises GradientError: the host's would reveal the loss of the batch."""
        raise GradientError("The host's fit_batch reveals the loss of every batch. Call fit().")
