"""The loss of private training: sigmoid cross-entropy from logits, of which nothing is opened."""

from typing import Any

from extensions.errors import ArgumentError

from tf_encrypted.keras import losses


class BinaryCrossentropy(losses.BinaryCrossentropy):
    """The host's loss with the only settings that a private step can use.

    A model trained with `tfe_ext.keras.DPSGD` takes its gradient as that of the **sum** over
    examples and outputs, sigmoid(logits) - labels, so that each example is clipped on its own; the
    optimizer divides by the expected batch size. The loss itself is never computed.
    """

    def __init__(self) -> None:
        super().__init__(from_logits=True)


def check_loss(loss: Any) -> None:
    """Returns only for ours, or the host's class with equal settings.

    Raises:
        ArgumentError: any other loss.
    """
    allowed = "tfe_ext.keras.BinaryCrossentropy(), or the host's with from_logits=True"
    if not isinstance(loss, losses.BinaryCrossentropy):
        raise ArgumentError("loss", type(loss).__name__, allowed)
    if not loss.from_logits:
        raise ArgumentError(
            "loss.from_logits", False, "True", "Leave the activation behind the last Dense out."
        )
    if loss.lazy_normalization:
        raise ArgumentError(
            "loss.lazy_normalization", True, "False", "The optimizer divides by the batch size."
        )
