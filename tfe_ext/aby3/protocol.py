"""ABY3 whose masks are fresh in every call: TF Encrypted's protocol on portable randomness."""

import functools
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from extensions.errors import ArgumentError, InsecureError
from extensions.rules import Whole, one_of
from tfe_ext.aby3 import operations
from tfe_ext.aby3.encoding import Constant, fitting, fixed64_f20
from tfe_ext.aby3.functions import Functions
from tfe_ext.aby3.memo import keep_per_graph
from tfe_ext.aby3.player_functions import compute_by
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.inputs import deal
from tfe_ext.ring.private_tensors import pairs_of
from tfe_ext.streams.choice import choose
from tfe_ext.streams.devices import HERE, on_each
from tfe_ext.streams.randomness import TYPES, Servers, Stream

import tf_encrypted as tfe
from tf_encrypted.protocol.aby3.aby3_tensors import ABY3PrivateTensor, ABY3Tensor, ShareType
from tf_encrypted.tensor import factories
from tf_encrypted.tensor.fixed import FixedpointConfig

_OUTER = "last_protocol"
"""Where the host keeps the protocol that a ``with`` puts back."""
_WIDTHS = {
    "nbits": Whole(64, 64, "64"),
    "scaling_base": Whole(2, 2, "2"),
    "precision_fractional": Whole(0, 30, "from 0 to 30, because a product of two ones must fit"),
}


def check_widths(config: FixedpointConfig) -> None:
    """Checks that the protocol can compute with the encoding."""
    for name, rule in _WIDTHS.items():
        rule.check(f"fixedpoint_config.{name}", getattr(config, name))


def check_servers(*names: Any) -> None:
    """Checks that the servers are three players of the present configuration."""
    config = tfe.get_config()
    players = [config.get_player(name) for name in names]
    if None in players or len({player.name for player in players}) < 3:
        raise ArgumentError(
            "server_0, server_1, server_2",
            [getattr(name, "name", name) for name in names],
            "three distinct players of the configuration",
            "Call tfe.set_config(...) first.",
        )


def native_type(factory: Any) -> tf.DType:
    """Returns TensorFlow's type of the words that one of TF Encrypted's own factories makes."""
    for dtype in TYPES:
        if factory is factories[dtype]:
            return dtype
    raise ArgumentError("factory", factory, "that of bool, or of 8, 16, 32 or 64 bits")


def current_protocol() -> "ABY3":
    """Returns the protocol that computes; ArgumentError if it is none of ours."""
    if not isinstance(found := tfe.get_protocol(), ABY3):
        advice = 'Call tfe.set_protocol(tfe_ext.ABY3(fixedpoint_config="f20")) first.'
        raise ArgumentError("protocol", type(found).__name__, "tfe_ext.ABY3", advice, code="type")
    return found


@keep_per_graph
class ABY3(Functions, tfe.protocol.ABY3):
    """Runs TF Encrypted's three-server protocol on fresh masks from ChaCha20.

    Use it as TF Encrypted's own, with ``tfe.set_protocol(tfe_ext.ABY3())`` or
    ``with tfe_ext.ABY3():``, after ``tfe.set_config``.

    Args:
        server_0: name or player of the first server; by default "server0".
        server_1: likewise.
        server_2: likewise.
        fixedpoint_config: "low" as in TF Encrypted (16 bits after the point, the default), "f20"
            (20 bits), or a 64-bit configuration of TF Encrypted.
        randomness: "portable", "native" or "auto" (`tfe_ext.streams.choice.choose`); None takes it
            from the environment variable TFE_EXT_RANDOMNESS, and "auto" if that is not set.

    Guarantees:
        It protects against one server that follows the protocol and looks at all it sees. Every
        mask is uniform over its whole type, from a 256-bit key of the operating system, and serves
        once: each call, step, tracing and output element has its own
        (`tfe_ext.streams.randomness`).

    Limits:
        Two colluding servers learn everything. The process that builds the graph is trusted.

    Raises:
        ArgumentError: the configuration is unknown or has other than 64 bits, or the randomness is
            unknown.
        NativeError: the compiled operation was asked for by name and cannot be had.

    Examples:
        >>> tfe.set_protocol(tfe_ext.ABY3())
        >>> x = tfe.define_private_input("owner", lambda: tf.constant([0.25, 4.0]))
        >>> tfe.inverse_sqrt(x).reveal().to_native().numpy().round(2)
        array([2. , 0.5])
    """

    servers: Any
    fixedpoint_config: Any

    def __init__(
        self,
        server_0: Any = None,
        server_1: Any = None,
        server_2: Any = None,
        fixedpoint_config: FixedpointConfig | str | None = None,
        randomness: str | None = None,
    ) -> None:
        if fixedpoint_config == "f20":
            fixedpoint_config = fixed64_f20
        elif isinstance(fixedpoint_config, str) and fixedpoint_config not in ("l", "low"):
            advice = 'The host\'s "high" needs native operations that it does not have here.'
            rule = one_of(("low", "f20"))
            raise ArgumentError("fixedpoint_config", fixedpoint_config, rule, advice)
        if isinstance(fixedpoint_config, FixedpointConfig):
            check_widths(fixedpoint_config)
        check_servers(server_0 or "server0", server_1 or "server1", server_2 or "server2")
        self._randomness = randomness
        super().__init__(server_0, server_1, server_2, fixedpoint_config)
        with self._unlocked():
            self.servers = tuple(self.servers)
            self.fixedpoint_config = Constant(**vars(self.fixedpoint_config))

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute, but none of the protocol's own once shares depend on it."""
        own = name in vars(self) or hasattr(type(self), name)
        if "ring" in vars(self) and not self.__dict__["_open"] and own and name != _OUTER:
            raise ArgumentError(
                f"ABY3.{name}",
                type(value).__name__,
                "shares and graphs depend on it",
                "Make another protocol: tfe.set_protocol(tfe_ext.ABY3(...)).",
                code="fixed",
            )
        super().__setattr__(name, value)

    @contextmanager
    def _unlocked(self) -> Iterator[None]:
        self.__dict__["_open"] = True
        try:
            yield
        finally:
            self.__dict__["_open"] = False

    def reset(self) -> None:
        """Gives every pair of servers a fresh key, as `initialize_keys`."""
        with self._unlocked():
            super().reset()

    def initialize_keys(self) -> None:
        """Gives every pair of servers a fresh key; graphs that were traced before use it too."""
        if hasattr(self, "ring"):
            self.ring.servers.rekey()
            return
        devices = [server.device_name for server in self.servers]
        servers = Servers.with_fresh_keys(devices, choose(self._randomness, devices))
        self.ring = ABY3Ring(servers, int(self.fixedpoint_config.precision_fractional))

    def pairwise_keys(self) -> tuple[tuple[Stream, Stream], ...]:
        """Returns each server's two streams, which the host hands on to the methods below."""
        first, second, third = self.ring.servers.pairwise
        return (first, second), (second, third), (third, first)

    def pairwise_nonces(self) -> tuple[None, None, None]:
        """Returns nothing of use: a stream needs no nonce from outside."""
        return None, None, None

    def b2a_keys_1(self) -> Stream:
        """Returns the stream of servers 0 and 1, which the host hands on likewise."""
        return self.ring.servers.pairwise[1]

    def b2a_keys_2(self) -> Stream:
        """Returns the stream of servers 1 and 2."""
        return self.ring.servers.pairwise[2]

    def _update_pairwise_nonces(self) -> None:
        """Does nothing, since a stream never repeats."""

    def define_local_computation(
        self, player: Any, computation_fn: Any, arguments: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Returns shares of what a player computes, as in the host, on that player's device alone.

        So do `define_private_input` and `define_output`. Nobody else gets what the function has as
        constants or takes from outside (`tfe_ext.aby3.player_functions.compute_by`). Raises
        InsecureError if it takes a constant of a ``tf.function``, or computes on another player's
        device.
        """
        native_type(kwargs.get("factory") or self.default_factory)
        given = arguments if isinstance(arguments, (list, tuple)) else [arguments]

        def compute(*inputs: Any) -> Any:
            pairs = zip(given, inputs, strict=False)
            opened = [value for shared, value in pairs if isinstance(shared, ABY3Tensor)]
            return compute_by(player, lambda: computation_fn(*inputs), opened)

        return super().define_local_computation(player, compute, arguments, *args, **kwargs)

    def define_private_variable(self, initial_value: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns a variable as in the host, whose present value enters each computation on it.

        Raises InsecureError if it is made of a value in the clear within a ``tf.function``, of
        which everybody would get the value.
        """
        native_type(kwargs.get("factory") or self.default_factory)
        if not (tf.executing_eagerly() or isinstance(initial_value, ABY3Tensor)):
            raise InsecureError(
                "A private variable that a tf.function makes from a clear value would show it to "
                "every server. Make it before, or from a private input."
            )
        return follow(super().define_private_variable(initial_value, *args, **kwargs))

    def define_public_variable(self, *args: Any, **kwargs: Any) -> Any:
        """Returns a variable as in the host, whose present value enters each computation on it."""
        return follow(super().define_public_variable(*args, **kwargs))

    def dispatch(self, base_name: str, *args: Any, container: Any = None, **kwargs: Any) -> Any:
        """Returns the result of our operation for these operands, or else of the host's."""
        kinds = [arg.dispatch_id for arg in args if hasattr(arg, "dispatch_id")]
        if container is None and hasattr(operations, f"_{base_name}_{'_'.join(kinds)}"):
            container = operations
        return super().dispatch(base_name, *args, container=container, **kwargs)

    def _encode(self, rationals: Any, apply_scaling: bool) -> Any:
        scaled = super()._encode(rationals, apply_scaling)
        return fitting(scaled, self.ring.frac_bits) if apply_scaling else scaled

    def _share(self, secret: Any, share_type: str, player: Any = None) -> list[list[Any]]:
        """Returns shares of a value that one player, or else this process, has (`deal`)."""
        one_of((ShareType.ARITHMETIC, ShareType.BOOLEAN)).check("share_type", share_type)
        factory = secret.factory
        take = tf.subtract if share_type == ShareType.ARITHMETIC else _xor(native_type(factory))
        owner = player.device_name if player is not None else HERE
        return pairs_of(factory, deal(self.ring.servers, secret.value, owner, take))

    def _gen_zero_sharing(
        self, shape: Any, share_type: str = ShareType.ARITHMETIC, factory: Any = None
    ) -> tuple[Any, Any, Any]:
        """Returns three values, one a server, that sum (or XOR) to zero; local."""
        pairs = self._pairs(shape, factory or self.default_factory)
        take = operator.sub if share_type == ShareType.ARITHMETIC else operator.xor
        first, second, third = on_each(self.ring.servers.devices, take, *zip(*pairs, strict=True))
        return first, second, third

    def _gen_random_sharing(
        self, shape: Any, share_type: str = ShareType.ARITHMETIC, factory: Any = None
    ) -> ABY3PrivateTensor:
        """Returns shares of a uniform value that no server knows; local."""
        pairs = self._pairs(shape, factory or self.default_factory)
        return ABY3PrivateTensor(self, pairs, True, share_type)

    def _pairs(self, shape: Any, factory: Any) -> list[list[Any]]:
        """Returns what each server expands from its two keys, in the order of its shares."""
        servers = self.ring.servers
        draws = [stream.draw(shape, native_type(factory)) for stream in servers.pairwise]
        return [
            [factory.tensor(draw.on(device)) for draw in (draws[i], draws[(i + 1) % 3])]
            for i, device in enumerate(servers.devices)
        ]

    def _gen_b2a_sharing(
        self, shape: Any, b2a_keys: Stream, factory: Any
    ) -> tuple[Any, Any, Any, list[list[Any]]]:
        """Returns a uniform value known to the two holders of a key, and its boolean sharing.

        The host draws the two shares that all three servers know; they are zero here, which shows a
        server nothing else.
        """
        draw = b2a_keys.draw(shape, native_type(factory))
        place = self.ring.servers.pairwise.index(b2a_keys)
        values: list[Any] = [None] * 3
        shares: list[list[Any]] = []
        for i, device in enumerate(self.ring.servers.devices):
            with tf.device(device):
                pair = [factory.tensor(tf.zeros(shape, factory.native_type)) for _ in range(2)]
                if device in b2a_keys.holders:
                    values[i] = factory.tensor(draw.on(device))
                    pair[(place - i) % 3] = values[i]
                shares.append(pair)
        return values[0], values[1], values[2], shares

    def _ot(
        self,
        sender: Any,
        receiver: Any,
        helper: Any,
        m0: Any,
        m1: Any,
        c_on_receiver: Any,
        c_on_helper: Any,
        key_on_sender: Stream,
        key_on_helper: Stream,
        nonce: None,
    ) -> Any:
        """Returns the one of two messages that the choice bit names, at the receiver.

        The sender and the helper share a key; the helper knows the choice bit as well. One round,
        three messages.
        """
        assert m0.shape == m1.shape, f"{m0.shape} and {m1.shape}"
        assert c_on_receiver.factory == c_on_helper.factory == factories[tf.bool]
        assert key_on_sender is key_on_helper
        factory = m0.factory
        draw = key_on_sender.draw([2, *m0.shape], factory.native_type)
        with tf.device(sender.device_name):
            mask = factory.tensor(draw.on(sender.device_name))
            masked0, masked1 = m0 ^ mask[0], m1 ^ mask[1]
        with tf.device(helper.device_name):
            mask = factory.tensor(draw.on(helper.device_name))
            chosen_mask = factory.where(c_on_helper.value, mask[1], mask[0])
        with tf.device(receiver.device_name):
            messages = masked0.identity(), masked1.identity()
            chosen = factory.where(c_on_receiver.value, messages[1], messages[0])
            return chosen ^ chosen_mask.identity()


def _xor(dtype: tf.DType) -> Any:
    return tf.math.logical_xor if dtype == tf.bool else tf.bitwise.bitwise_xor


def follow(variable: Any) -> Any:
    """Returns the protocol's variable, with shares that are read whenever they are used.

    The host reads them once, so that a computation goes on with the variable's first value.
    """
    for share in tf.nest.flatten(variable.unwrapped):
        kind: Any = type(share)
        share.__class__ = _following(kind)
    return variable


@functools.cache
def _following(kind: Any) -> Any:
    def value(share: Any) -> tf.Tensor:
        with tf.device(share.device):
            return share.variable.read_value()

    def assign(share: Any, value: Any) -> Any:
        """As in the host, whose boolean variables raise an error after they assigned."""
        return share.variable.assign(value.value)

    return type(kind.__name__, (kind,), {"value": property(value), "assign": assign})
