"""Errors of the project, so that a caller can catch them apart from the host's own."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from extensions.sentences import sentence


class PeaError(Exception):
    """Is the base class of every error that PEA raises on purpose.

    A pickled one, as worker processes send it, has message and attributes again.

    Examples:
        >>> import fl
        >>> from extensions.errors import PeaError
        >>> try:
        ...     fl.CentralDP(clip=-1, noise_multiplier=1)
        ... except PeaError as error:
        ...     print(error)
        clip must be positive and finite, not -1.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, vars(self))


def _restored(kind: type[PeaError], args: tuple[Any, ...], state: dict[str, Any]) -> PeaError:
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(state)
    return error


class ArgumentError(PeaError, ValueError):
    """Says which argument is wrong, and what would be right (`extensions.sentences`).

    Attributes:
        code: what kind of error it is, a key of `extensions.sentences.SENTENCES`.
        argument: which one; several are joined by ", ".
        value: what was given, or what it is in words.
        rule: what it must be: a text, or one of `extensions.rules`. Other arguments stand in
            braces: ``{delta}``, ``{init=local}``.
        hint: what to do; likewise.

    Examples:
        >>> import fl
        >>> from extensions.errors import ArgumentError
        >>> try:
        ...     fl.CentralDP(clip=-1, noise_multiplier=1)
        ... except ArgumentError as error:
        ...     print(error.code, error.argument, error.value)
        range clip -1
    """

    def __init__(
        self, argument: str, value: object, rule: object, hint: str = "", *, code: str = ""
    ) -> None:
        super().__init__(argument, value, rule, hint)
        self.code = code or getattr(rule, "code", "value")
        self.argument = argument
        self.value = value
        self.rule = rule
        self.hint = hint

    def __str__(self) -> str:
        return sentence(self)

    def of(self, argument: str) -> "ArgumentError":
        """Returns the same error about an argument of another name."""
        return ArgumentError(argument, self.value, self.rule, self.hint, code=self.code)


def install_command(extra: str) -> str:
    """Returns what installs an extra. The project is on no index: it is typed in a clone of it."""
    return f"pip install '.[{extra}]'"


class MissingExtraError(PeaError, ImportError):
    """Says that an optional package is missing, and which command installs it.

    Examples:
        >>> from extensions.errors import MissingExtraError
        >>> print(MissingExtraError("torch", "fl"))
        torch is not installed. Type in your clone of PEA: pip install '.[fl]'
    """

    def __init__(self, package: str, extra: str) -> None:
        text = f"{package} is not installed. Type in your clone of PEA: {install_command(extra)}"
        super().__init__(text, name=package)


def optional(module: str, package: str, extra: str) -> Any:
    """Returns a module of a package that an extra installs, or raises MissingExtraError."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtraError(package, extra) from None


class UnsupportedVersionError(PeaError, ImportError):
    """A host's version is outside those that were tested; the message names both."""


class InsecureError(PeaError, RuntimeError):
    """The request would give a secret away; the message says what leaks and what to do.

    Examples:
        >>> from extensions.errors import InsecureError, PeaError
        >>> issubclass(InsecureError, PeaError)
        True
    """


class InsecureWarning(UserWarning):
    """Warns that an unchosen default shows a secret to somebody, and says to whom.

    Examples:
        >>> import warnings
        >>> from extensions.errors import InsecureWarning
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", InsecureWarning)  # an insecure choice now raises
    """


class PrivacyWarning(UserWarning):
    """Warns that an epsilon is too large to protect much.

    Examples:
        >>> import warnings
        >>> from extensions.errors import PrivacyWarning
        >>> from extensions.privacy.accounting import calibrate_noise
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = calibrate_noise(epsilon=30.0, delta=1e-5, sample_rate=0.1, steps=10)
        >>> [warning.category.__name__ for warning in caught]
        ['PrivacyWarning']
    """


class GradientError(PeaError, RuntimeError):
    """The gradients at hand are not the ones that a private step may use.

    Examples:
        >>> from extensions.errors import GradientError, PeaError
        >>> issubclass(GradientError, PeaError)
        True
    """


class UnsupportedLayerError(PeaError, TypeError):
    """A layer has no per-example norm, or was converted wrongly; the message names it.

    Examples:
        >>> from extensions.errors import UnsupportedLayerError, PeaError
        >>> issubclass(UnsupportedLayerError, PeaError)
        True
    """


class LostError(PeaError):
    """A process of a run died or fell silent, so that the run ended; base of such errors."""


class PartyLostError(LostError, ConnectionError):
    """Says that a party died or fell silent; the message begins with its rank.

    Examples:
        >>> from extensions.errors import PartyLostError
        >>> print(PartyLostError(2, "did not answer for 60 s"))
        party 2 did not answer for 60 s
    """

    def __init__(self, rank: int, reason: str) -> None:
        super().__init__(f"party {rank} {reason}")
        self.rank = rank


class PlayerLostError(LostError, ConnectionError):
    """A player of TF Encrypted never came, died or fell silent; the message names it first."""

    def __init__(self, player: str, reason: str) -> None:
        super().__init__(f"player {player} {reason}")
        self.player = player


class MaterialError(PeaError, RuntimeError):
    """Prepared tuples were used before, or are not those that a run asks for."""


class DealerLostError(LostError, RuntimeError):
    """The dealer died, fell silent or sent what cannot be used; begins with "the dealer"."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the dealer {reason}")


class ThirdPartyLostError(LostError, RuntimeError):
    """CrypTen's trusted third party died or fell silent; begins with "the third party"."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the third party {reason}")


class ServersLostError(LostError, RuntimeError):
    """The process of ABY3's servers died or was too slow; begins with "the servers"."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the servers {reason}")


class MessageError(PeaError, ValueError):
    """Bytes are no message of federated learning, or a value has no encoding."""


class CiphertextError(PeaError, ValueError):
    """Bytes or an integer are no ciphertext, key or answer of the parameters at hand."""


class TransferError(PeaError, ValueError):
    """Bytes are no message of this step of an oblivious transfer; the message says why."""


class UpdateError(PeaError, ValueError):
    """Says why a client's update is unusable; the message contains none of its values.

    Examples:
        >>> try:
        ...     fl.protocols.check_update(np.array([1.0, np.nan]), size=2)
        ... except fl.UpdateError as error:
        ...     print(error)
        values of the update are NaN or infinite
    """


class WorkerLostError(LostError, RuntimeError):
    """A process that trains clients died; the message begins with "a worker"."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"a worker {reason}")


_NAMED = 10


class RoundError(PeaError, RuntimeError):
    """Says why a federated round failed, and which clients were left out (at most 10).

    `refused` has all of them, and why.

    Examples:
        >>> from extensions.errors import RoundError
        >>> print(RoundError(3, "too few clients are left", {7: "late"}))
        round 3: too few clients are left Left out: client 7: late;
    """

    def __init__(self, number: int, reason: str, refused: Mapping[int, str] | None = None) -> None:
        self.number = number
        self.reason = reason
        self.refused = dict(refused or {})
        few = list(self.refused.items())[:_NAMED]
        culprits = "".join(f" client {client}: {why};" for client, why in few)
        if (more := len(self.refused) - len(few)) > 0:
            culprits += f" and {more} more;"
        left_out = f" Left out:{culprits}" if culprits else ""
        super().__init__(f"round {number}: {reason}{left_out}")


class EmulationError(PeaError, RuntimeError):
    """This machine cannot emulate a network; the message names what is missing and the remedy."""

    def __init__(self, missing: str, reason: object, advice: str) -> None:
        super().__init__(f"cannot emulate a network: {missing}: {reason}. {advice}")
