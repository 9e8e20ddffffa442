"""Where entries stand in polynomials, so that a product's coefficients are the entries of W o x.

The packing is Cheetah's (Huang, Lu, Hong, Ding, USENIX Security 2022, section 3), with several
images and kernels in one polynomial: with c channels of H W pixels and k kernels,

    image b, channel i, pixel p    at  b (k c H W) + i H W + p,
    kernel o, channel i, pixel p   at  o (c H W) + (c - 1 - i) H W + (last - p),
    output (b, o, p)               at  b (k c H W) + o (c H W) + (c - 1) H W + last + p,

where p counts in rows of the image and `last` is the kernel's last pixel. What wraps around at
degree 8192 falls below the first output.
"""

import numpy as np
import numpy.typing as npt

from extensions.ring.fixed_point import Integers
from extensions.two_party.lattice.plan import Convolution
from extensions.two_party.lattice.residues import Words
from extensions.two_party.lattice.scheme import DEGREE

Places = npt.NDArray[np.intp]


def image_polynomials(plan: Convolution, x: Integers) -> Words:
    """Returns x, once for each limb of W, as words (image blocks, channel blocks, limbs, 8192).

    Limb l holds 2^(l limb_bits) x, so that limbs of W times these sum to W o x modulo 2^64.
    """
    cut = plan.cut
    images, channels, _ = cut.blocks(plan)
    pixels = plan.height * plan.width
    whole = np.zeros((images * cut.batch, channels * cut.channels, pixels), dtype=np.int64)
    whole[: plan.batch, : plan.channels] = x.reshape(plan.batch, plan.channels, pixels)
    parts = whole.reshape(images, cut.batch, channels, cut.channels * pixels).swapaxes(1, 2)
    stretch = cut.outputs * cut.channels * pixels
    placed = np.zeros((images, channels, cut.batch, stretch), dtype=np.int64)
    placed[..., : cut.channels * pixels] = parts
    polynomials = np.zeros((images, channels, DEGREE), dtype=np.int64)
    polynomials[..., : cut.batch * stretch] = placed.reshape(images, channels, -1)
    shifts = np.arange(cut.limbs, dtype=np.int64) * cut.limb_bits
    return (polynomials[:, :, None] << shifts[:, None]).view(np.uint64)


def kernel_polynomials(plan: Convolution, weights: Integers, outputs: int) -> Integers:
    """Returns limbs of a block of W's kernels as integers (channel blocks, limbs, 8192)."""
    cut = plan.cut
    channels = cut.blocks(plan)[1]
    whole = np.zeros((cut.outputs, channels * cut.channels, *plan.kernel), np.int64)
    held = weights[outputs * cut.outputs : (outputs + 1) * cut.outputs]
    whole[: len(held), : plan.channels] = held
    parts = whole.reshape(cut.outputs, channels, cut.channels, *plan.kernel).swapaxes(0, 1)
    pixels = plan.height * plan.width
    rows, columns = np.ogrid[: plan.kernel[0], : plan.kernel[1]]
    pixel = _last(plan) - rows * plan.width - columns
    kernel, channel = np.ogrid[: cut.outputs, : cut.channels]
    start = kernel * (cut.channels * pixels) + (cut.channels - 1 - channel) * pixels
    result = np.zeros((channels, cut.limbs, DEGREE), dtype=np.int64)
    for limb, digits in enumerate(_limbs(parts, cut.limbs, cut.limb_bits)):
        result[:, limb, start[..., None, None] + pixel] = digits
    return result


def output_places(plan: Convolution, images: int, outputs: int) -> Places:
    """Returns where the outputs of a block of images and one of kernels stand, in their order."""
    cut, pixels = plan.cut, plan.height * plan.width
    image = np.arange(min(cut.batch, plan.batch - images * cut.batch))
    kernel = np.arange(min(cut.outputs, plan.outputs - outputs * cut.outputs))
    rows, columns = (np.arange(count) * plan.stride for count in plan.places)
    held = cut.channels * pixels
    first = (cut.channels - 1) * pixels + _last(plan)
    starts = image[:, None] * (cut.outputs * held) + kernel * held + first
    places: Places = starts[..., None, None] + rows[:, None] * plan.width + columns
    return places


def _last(plan: Convolution) -> int:
    return (plan.kernel[0] - 1) * plan.width + plan.kernel[1] - 1


def _limbs(x: Integers, count: int, width: int) -> list[Integers]:
    """Returns signed digits whose sum, shifted by multiples of the width, is x modulo 2^64."""
    limbs = []
    half, mask = 1 << (width - 1), (1 << width) - 1
    for _ in range(count - 1):
        low = ((x + half) & mask) - half
        limbs.append(low)
        x = (x - low) >> width
    return [*limbs, x]
