"""A residual connection: what comes to some layers and what they make of it, added up."""

from collections.abc import Sequence
from typing import Any

from extensions.errors import ArgumentError

from tf_encrypted.keras.engine import Layer


class Residual(Layer):
    """What comes here, added to what some layers make of it.

    Args:
        layers: in order, of those that a private step can train; they return as many values as come
            here. Behind a layer with weights, the last one included, the sum needs an activation
            before the next such layer.
        kwargs: as in the host, such as the name.

    Cost:
        None beside that of its layers; where the way parts, the gradients of both are added.

    Example:
        >>> branch = [Dense(16, activation="tanh"), Dense(16)]
        >>> model = tfe_ext.keras.Sequential([
        ...     Dense(16, activation="tanh", batch_input_shape=[1, 64]),
        ...     tfe_ext.keras.Residual(branch), Activation("tanh"), Dense(10),
        ... ])
    """

    def __init__(self, layers: Sequence[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not layers:
            raise ArgumentError("layers", list(layers), "at least one", "Leave the Residual out.")
        self.layers = list(layers)

    def build(self, input_shape: Sequence[int]) -> None:
        """Makes the variables of its layers."""
        shape = [*input_shape]
        for layer in self.layers:
            if not layer.built:
                layer.build(shape)
                layer.built = True
            shape = [int(size) for size in layer.compute_output_shape(shape)]
            self.weights += layer.weights
        if [*shape[1:]] != [int(size) for size in input_shape[1:]]:
            raise ArgumentError(
                f"layers of {self.name}",
                f"records of {[*input_shape[1:]]} to {shape[1:]}",
                "layers that return records of the shape they take, for the sum",
                code="shape",
            )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Returns the sum, by the host's own layers."""
        found = inputs
        for layer in self.layers:
            found = layer(found)
        return inputs + found

    def compute_output_shape(self, input_shape: Sequence[int]) -> Sequence[int]:
        """Returns the shape of what comes here."""
        return input_shape
