"""Switching the new methods on and off; importing the package alone changes nothing in CrypTen."""

from collections.abc import Callable
from typing import Any

from omegaconf import OmegaConf

from crypten_ext import dealer, pairwise, third_party
from crypten_ext.functions import ClipByNorm, ClipFactor, InverseSqrt
from crypten_ext.masks import install as masks
from crypten_ext.nn.layers import Tanh, autograd, conversion
from crypten_ext.ring import exchange
from crypten_ext.ring.crypten_ring import check_configuration
from extensions.errors import PeaError
from extensions.rules import one_of

import crypten
from crypten.common.functions import approximations
from crypten.cryptensor import CrypTensor
from crypten.gradients import FUNCTION_REGISTRY, AutogradFunction
from crypten.nn import onnx_converter

METHOD_KEY = "functions.inv_sqrt_method"
METHODS = ("newton_raphson", "protocol1")

_host_inv_sqrt: Callable[..., Any] = approximations.inv_sqrt


class InvSqrt(AutogradFunction):
    """CrypTen's ``x.inv_sqrt()``, by Protocol 1 and with its gradient where the user opted in.

    Without ``cfg.functions.inv_sqrt_method = "protocol1"`` it is the host's, which has no gradient.
    """

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        if _chosen_method() == "protocol1":
            return InverseSqrt.forward(ctx, x)
        result = _host_inv_sqrt(x)
        ctx.mark_non_differentiable(result)
        return result

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return InverseSqrt.backward(ctx, grad_output)


def _inv_sqrt(self: Any) -> Any:
    """Returns the inverse square root by the method that the configuration names."""
    return self.inverse_sqrt() if _chosen_method() == "protocol1" else _host_inv_sqrt(self)


def _chosen_method() -> str:
    method = OmegaConf.select(crypten.cfg.config, METHOD_KEY, default=METHODS[0])
    one_of(METHODS).check(f"cfg.{METHOD_KEY}", method)
    return str(method)


FUNCTIONS: dict[str, type[AutogradFunction]] = {
    "inverse_sqrt": InverseSqrt,
    "clip_factor": ClipFactor,
    "clip_by_norm": ClipByNorm,
    "inv_sqrt": InvSqrt,
    **autograd.FUNCTIONS,
}


def enable() -> None:
    """Adds PEA's methods to encrypted tensors; a second call changes nothing.

    Adds ``inverse_sqrt``, ``clip_factor``, ``clip_by_norm`` (and what `crypten_ext.nn` calls) to
    CrypTen's function registry, and makes ``inv_sqrt`` and ``sqrt`` follow
    ``cfg.functions.inv_sqrt_method`` ("newton_raphson", the host's, or "protocol1").
    `crypten.nn.from_pytorch` takes ``torch.nn.Tanh``, and rejects a model that it converts to
    another function (`crypten_ext.nn.layers.conversion`).

    CrypTen's masks come from AES-256-CTR from here on (`crypten_ext.masks.install`), and so do the
    tuples of its third party (`crypten_ext.third_party`). If CrypTen is initialised already, the
    parties agree on keys now. Openings of few words go straight from party to party
    (`crypten_ext.ring.exchange`). All parties must call this, or none; likewise `disable`.
    ``cfg.mpc.provider = "DEALER"`` chooses the dealer (`crypten_ext.dealer`), "PARTIES" the parties
    themselves (`crypten_ext.pairwise`). With CrypTen's default party 0 deals and sees every secret,
    of which an `extensions.errors.InsecureWarning` warns; "INSECURE_TFP" chooses that by name.

    Raises:
        InsecureError: CrypTen is configured for its replicated protocol or for active security,
            or the third party at hand is CrypTen's own server.
        PeaError: another extension has taken one of the names.

    Examples:
        >>> crypten_ext.enable()
        >>> roots = crypten.cryptensor(torch.tensor([0.25, 4.0])).inverse_sqrt()
        >>> roots.get_plain_text().round(decimals=2)
        tensor([2.0000, 0.5000])
    """
    check_configuration()
    taken = [name for name, cls in FUNCTIONS.items() if FUNCTION_REGISTRY.get(name, cls) is not cls]
    if taken:
        raise PeaError(f"Another package has already registered the CrypTen functions {taken}.")
    third_party.install()
    for name, cls in FUNCTIONS.items():
        cls.name = name
        FUNCTION_REGISTRY[name] = cls
    onnx_converter.ONNX_TO_CRYPTEN["Tanh"] = Tanh
    conversion.install()
    approximations.inv_sqrt = _inv_sqrt
    CrypTensor.inv_sqrt = _inv_sqrt
    exchange.install()
    masks.install()
    dealer.install()
    pairwise.install()


def disable() -> None:
    """Restores CrypTen as it was before `enable`; a second call changes nothing.

    Examples:
        >>> crypten_ext.disable()
        >>> crypten_ext.is_enabled()
        False
        >>> crypten_ext.enable()
    """
    for name, cls in FUNCTIONS.items():
        if FUNCTION_REGISTRY.get(name) is cls:
            del FUNCTION_REGISTRY[name]
    if onnx_converter.ONNX_TO_CRYPTEN.get("Tanh") is Tanh:
        del onnx_converter.ONNX_TO_CRYPTEN["Tanh"]
    conversion.remove()
    approximations.inv_sqrt = _host_inv_sqrt
    CrypTensor.inv_sqrt = _host_inv_sqrt
    third_party.remove()
    exchange.remove()
    masks.remove()
    dealer.remove()
    pairwise.remove()


def is_enabled() -> bool:
    """Returns whether `enable` is in force.

    Examples:
        >>> crypten_ext.is_enabled()
        True
    """
    return all(FUNCTION_REGISTRY.get(name) is cls for name, cls in FUNCTIONS.items())
