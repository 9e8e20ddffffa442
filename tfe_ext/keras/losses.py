"""The losses of private training: cross-entropies from logits, of which nothing is opened."""

from typing import Any

from extensions.errors import ArgumentError
from extensions.layers.losses import Loss

from tf_encrypted.keras import losses


class BinaryCrossentropy(losses.BinaryCrossentropy):
    """Sums the sigmoid cross-entropy over examples and outputs.

    Its gradient is that of the **sum**, sigmoid(logits) - labels, so the optimizer can clip each
    example on its own; the optimizer then divides by the expected batch size. Only the gradient is
    computed, never the loss.

    Examples:
        >>> model = tfe_ext.keras.Sequential([Dense(3, batch_input_shape=[1, 4])])
        >>> model.compile(tfe_ext.keras.SGD(1.0), tfe_ext.keras.BinaryCrossentropy())
    """

    def __init__(self) -> None:
        super().__init__(from_logits=True)


class CategoricalCrossentropy(losses.CategoricalCrossentropy):
    """Sums the softmax cross-entropy over examples; targets are one-hot.

    Its gradient is that of the **sum**, softmax(logits) - labels, with the error that
    `extensions.layers.softmax` states. Only the gradient is computed, never the loss.

    Examples:
        >>> model = tfe_ext.keras.Sequential([Dense(3, batch_input_shape=[1, 4])])
        >>> model.compile(tfe_ext.keras.SGD(1.0), tfe_ext.keras.CategoricalCrossentropy())
    """

    def __init__(self) -> None:
        super().__init__(from_logits=True)


_HOSTS: dict[Loss, type] = {
    "sigmoid": losses.BinaryCrossentropy,
    "softmax": losses.CategoricalCrossentropy,
}
_METHODS = ("call", "grad", "__call__")


def loss_of(loss: Any) -> Loss:
    """Returns which loss it is: ours, or the host's class with equal settings."""
    found = next((kind for kind, host in _HOSTS.items() if isinstance(loss, host)), None)
    if found is None:
        raise ArgumentError(
            "loss",
            type(loss).__name__,
            "tfe_ext.keras.BinaryCrossentropy() or CategoricalCrossentropy(), or the host's with "
            "from_logits=True",
            code="type",
        )
    if not loss.from_logits:
        advice = "Leave out the activation after the last Dense."
        raise ArgumentError("loss.from_logits", False, "True", advice)
    if loss.lazy_normalization:
        advice = "The optimizer divides by the batch size."
        raise ArgumentError("loss.lazy_normalization", True, "False", advice)
    host = _HOSTS[found](from_logits=True)
    own = [name for name in _METHODS if getattr(type(loss), name) is not getattr(type(host), name)]
    own += [name for name in vars(loss) if getattr(host, name, None) != getattr(loss, name)]
    if own:
        raise ArgumentError(
            f"loss.{own[0]}",
            "one of its own",
            f"that of {type(host).__name__}, whose gradient a private step uses",
            "Training uses no other gradient.",
        )
    return found
