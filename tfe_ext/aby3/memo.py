"""Results that a protocol keeps while one graph is traced, and no longer.

TF Encrypted's `memoize` keeps every result for the life of the process, under a key without graph
and protocol. A function that is traced anew would get tensors of the first trace, and one protocol
another's results; tensors that print alike, or 1 and True, would be taken for one; a result would
outlive a changed variable; and memory grows.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import tensorflow as tf

from extensions.errors import ArgumentError
from tfe_ext.streams.devices import kept_on_graph

from tf_encrypted.config import get_config
from tf_encrypted.protocol.aby3.aby3_tensors import ABY3Tensor
from tf_encrypted.protocol.protocol import TFEVariable
from tf_encrypted.tensor.factory import AbstractFactory, AbstractTensor, AbstractVariable

_Class = TypeVar("_Class", bound=type)
_KEPT = "_tfe_ext_kept"
KEPT_METHODS = """
_decode a2b add add_n and_ argmax assign avgpool2d b2a b2a_single b_add b_sub bit_extract
bit_gather bit_reverse bit_split_and_gather bits carry cast cmp_swap concat conv2d div equal
equal_zero exp exp2 exp2_pade expand expand_dims gather greater_equal greater_than im2col
im2patches indexer inv_sqrt less_equal less_than log logical_rshift lshift matmul maximum
maxpool2d maxpool2d_with_argmax msb mul mul_ab mul_pow2 mul_trunc2 multi_polynomial negative
not_ or_ pad patches2im polynomial polynomial_piecewise pow pow2_from_bits ppa prod reciprocal
reduce_max reduce_max_with_argmax reduce_sum relu relu_with_cmp reshape reveal reverse rshift
scatter_nd select sigmoid softmax sort split sqrt square squeeze stack strided_slice sub tile
transpose truncate truncate_msb0 xor zeros
"""
"""The host's methods whose results are kept: all that its `memoize` wraps, but for NEVER_KEPT."""
NEVER_KEPT = "while_loop"
"""It is given functions, which may draw noise or read what changes."""


class _Unsuitable(Exception):
    """An argument that may have another value the next time."""


def keep_per_graph(protocol: _Class) -> _Class:
    """Returns the class with `kept` in place of the host's `memoize` on each of its methods."""
    for name in KEPT_METHODS.split():
        # AutoGraph finds nothing to convert in the host's methods, but looks for long.
        plain = tf.autograph.experimental.do_not_convert(kept(_bare(protocol, name)))
        setattr(protocol, name, plain)
    setattr(protocol, NEVER_KEPT, _bare(protocol, NEVER_KEPT))
    return protocol


def _bare(protocol: type, name: str) -> Callable[..., Any]:
    method: Callable[..., Any] = getattr(protocol, name).__wrapped__
    return method


def kept(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the method, computed once a graph for the same operands; outside of graphs, always.

    A result is kept only if all operands are of a kind that cannot change: shared or public tensors
    that are no variables, and numbers, names and shapes, told apart by type. Randomness is no
    operand, so a method that draws must not be decorated; none of the host's that draws for its own
    sake is. The method raises ArgumentError for a tensor of another protocol, which may lie on
    other servers and have another scale.
    """

    @wraps(method)
    def once(self: Any, *args: Any, **kwargs: Any) -> Any:
        for operand in tf.nest.flatten(args):
            if isinstance(operand, ABY3Tensor) and operand.prot is not self:
                raise ArgumentError(
                    f"operand of {method.__name__}",
                    operand,
                    "a tensor of the protocol that computes",
                    "Another protocol made it: share the value again with this one.",
                )
        if tf.executing_eagerly() or get_config().debug:
            return method(self, *args, **kwargs)
        try:
            key = (self, method.__name__, _key(args), _key(kwargs))
        except _Unsuitable:
            return method(self, *args, **kwargs)
        results = kept_on_graph(_KEPT)
        if key not in results:
            results[key] = method(self, *args, **kwargs)
        return results[key]

    return once


def _key(x: Any) -> Any:
    """Returns what tells operands apart: a tensor is itself, and lives as long as the key."""
    if isinstance(x, (tuple, list)):
        return type(x), tuple(_key(part) for part in x)
    if isinstance(x, dict):
        return dict, tuple((name, _key(x[name])) for name in sorted(x))
    if isinstance(x, slice):
        return slice, _key((x.start, x.stop, x.step))
    if isinstance(x, tf.TensorShape):
        return tf.TensorShape, tuple(x.as_list()) if x.rank is not None else None
    if isinstance(x, (bool, int, float, str, type(None), type(...), tf.DType)):
        return type(x), x
    changes = isinstance(x, (TFEVariable, AbstractVariable))
    if isinstance(x, (ABY3Tensor, AbstractTensor, AbstractFactory)) and not changes:
        return x
    raise _Unsuitable
