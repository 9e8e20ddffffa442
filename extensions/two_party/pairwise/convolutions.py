"""Convolutions of shared images and kernels as one product of matrices: windows by kernels."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from extensions.errors import ArgumentError
from extensions.ring.fixed_point import Integers
from extensions.two_party.pairwise.matrices import product
from extensions.two_party.pairwise.peers import Peers
from extensions.two_party.pairwise.rounds import Making, together

CONVOLUTIONS = {"conv1d": 1, "conv2d": 2, "conv_transpose1d": 1, "conv_transpose2d": 2}
"""Axes of an image, by torch's name."""
Number = int | Sequence[int]


def convolution(
    peers: Peers, op: str, x: Integers, kernels: Integers, *, groups: int = 1, **options: Number
) -> Making[Integers]:
    """Returns additive shares of what torch's function of that name returns for shared operands.

    Args:
        peers: this party's end.
        op: of `CONVOLUTIONS`.
        x: shares (images, channels, *sizes).
        kernels: shares (outputs, channels / groups, *sizes); of a transposed one
            (channels, outputs / groups, *sizes).
        groups: of channels.
        options: stride, padding, dilation and, of a transposed one, output_padding.

    Raises ArgumentError for another option.
    """
    sizes = _sizes(op, options)
    own = [np.split(x, groups, axis=1), np.split(kernels, groups, axis=0)]
    make = _transposed if "transpose" in op else _straight
    each = zip(*own, strict=True)
    parts = yield from together([make(peers, part, kernel, sizes) for part, kernel in each])
    return np.concatenate(parts, axis=1)


def as_matrices(
    op: str, x: Sequence[int], kernels: Sequence[int], *, groups: int = 1, **options: Number
) -> tuple[int, tuple[int, int, int]]:
    """Returns how many products of matrices a convolution is, and their (rows, inner, columns).

    `x` and `kernels` are shapes; the rest is as in `convolution`.
    """
    sizes = _sizes(op, options)
    if "transpose" in op:
        return groups, (x[0] * prod(x[2:]), x[1] // groups, prod(kernels[1:]))
    each = zip(x[2:], sizes["padding"], _spans(kernels[2:], sizes), sizes["stride"], strict=True)
    places = [(size + 2 * padding - span) // stride + 1 for size, padding, span, stride in each]
    return groups, (x[0] * prod(places), prod(kernels[1:]), kernels[0] // groups)


Sizes = dict[str, tuple[int, ...]]


def _sizes(op: str, options: Mapping[str, Number]) -> Sizes:
    known = {"stride": 1, "padding": 0, "dilation": 1}
    known |= {"output_padding": 0} if "transpose" in op else {}
    if options.keys() - known.keys():
        raise ArgumentError("options", sorted(options), f"some of {', '.join([*known, 'groups'])}")
    axes = CONVOLUTIONS[op]
    return {name: _each(options.get(name, usual), axes) for name, usual in known.items()}


def _straight(peers: Peers, x: Integers, kernels: Integers, sizes: Sizes) -> Making[Integers]:
    shape = kernels.shape[2:]
    axes = tuple(range(2, 2 + len(shape)))
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in sizes["padding"])])
    spans = _spans(shape, sizes)
    windows = np.lib.stride_tricks.sliding_window_view(padded, spans, axes)
    steps = (slice(None, None, step) for step in (*sizes["stride"], *sizes["dilation"]))
    windows = np.moveaxis(windows[(slice(None), slice(None), *steps)], 1, len(shape) + 1)
    places = windows.shape[: len(shape) + 1]
    rows = windows.reshape(int(np.prod(places)), -1)
    found = yield from product(peers, rows, kernels.reshape(len(kernels), -1).T)
    return np.moveaxis(found.reshape(*places, len(kernels)), -1, 1)


def _transposed(peers: Peers, x: Integers, kernels: Integers, sizes: Sizes) -> Making[Integers]:
    outputs, *shape = kernels.shape[1:]
    moved = np.moveaxis(x, 1, -1)
    rows = moved.reshape(-1, moved.shape[-1])
    found = yield from product(peers, rows, kernels.reshape(len(kernels), -1))
    spread = np.moveaxis(found.reshape(*moved.shape[:-1], outputs, *shape), len(shape) + 1, 1)
    places = moved.shape[1:-1]
    spans, strides = _spans(shape, sizes), sizes["stride"]
    each = zip(places, strides, spans, sizes["output_padding"], strict=True)
    whole = [(count - 1) * stride + span + more for count, stride, span, more in each]
    total = np.zeros((len(x), outputs, *whole), dtype=np.int64)
    for pixel in np.ndindex(*shape):
        each_axis = zip(pixel, sizes["dilation"], places, strides, strict=True)
        at = (slice(p * d, p * d + (n - 1) * s + 1, s) for p, d, n, s in each_axis)
        total[(slice(None), slice(None), *at)] += spread[(..., *pixel)]
    ends = zip(sizes["padding"], whole, strict=True)
    kept = (slice(padding, size - padding) for padding, size in ends)
    return total[(slice(None), slice(None), *kept)]


def _spans(shape: Sequence[int], sizes: Sizes) -> list[int]:
    return [(count - 1) * step + 1 for count, step in zip(shape, sizes["dilation"], strict=True)]


def _each(number: Number, axes: int) -> tuple[int, ...]:
    return (number,) * axes if isinstance(number, int) else tuple(number)
