"""Protocol 2 in CrypTen: encrypted Gaussian noise that no party knows."""

from collections.abc import Iterable, Sequence

import torch

from crypten_ext.ring.crypten_ring import CrypTenRing, as_tensor
from extensions.privacy.randomness import SystemSource
from extensions.protocols.noise import NoiseShares, NoiseSplit, add_gaussian_noise
from extensions.ring.interface import NoiseSource
from extensions.rules import Whole

import crypten
from crypten.mpc import MPCTensor
from crypten.mpc.primitives import ArithmeticSharedTensor


def gaussian_noise(
    shape: int | Sequence[int],
    sigma: float,
    *,
    colluders: int = 1,
    noise_shares: NoiseShares = "exact",
    dealer_noise: bool = False,
    source: NoiseSource | None = None,
) -> MPCTensor:
    """Returns fresh encrypted noise, a discrete Gaussian that all parties share.

    Args:
        shape: shape of the result.
        sigma: standard deviation that remains after any `colluders` parties subtract their own
            summands, in user units. It is 0, which gives zeros, or at least a few units of the last
            place (`extensions.protocols.noise.least_sigma`; 46 with three parties).
        colluders: number of parties that may pool what they know.
        noise_shares: "exact", or "paper" for the paper's variance of each party's noise where that
            is more.
        dealer_noise: whether the dealer, CrypTen's provider "DEALER", adds noise as well, which
            stays secret from all parties.
        source: where noise comes from; by default each party's operating system, whatever
            ``torch.manual_seed`` says.

    Guarantees:
        The total variance is m / (m - colluders) sigma^2 with m parties, and (m + 1) / (m + 1 -
        colluders) sigma^2 with the dealer's noise. `extensions.protocols.noise.add_gaussian_noise`
        says against whom sigma^2 remains.

    Cost:
        0 rounds and 0 bytes; with the dealer's noise 8 bytes a value, dealt to one of the parties.

    Raises:
        ArgumentError: sigma is negative, infinite, too small for the fractional bits or too
            large for the ring; the shape is invalid; there are fewer other parties than colluders;
            or the provider is another one than the dealer whose noise you ask for.

    Source:
        Ruan et al., S&P 2023, Protocol 2.

    Examples:
        >>> noise = crypten_ext.gaussian_noise((1000,), sigma=1.0)
        >>> abs(noise.get_plain_text().mean()) < 0.5
        tensor(True)
    """
    ring = CrypTenRing(int(crypten.cfg.encoder.precision_bits))
    zero = ArithmeticSharedTensor.PRZS(_size(shape)).share
    (share,) = add_gaussian_noise(
        ring,
        [zero],
        sigma,
        frac_bits=ring.frac_bits,
        source=source or SystemSource(),
        split=NoiseSplit(colluders=colluders, noise_shares=noise_shares),
        dealer_noise=dealer_noise,
    )
    return as_tensor(ring, share)


def _size(shape: int | Sequence[int]) -> torch.Size:
    """Returns the shape as torch has it; ArgumentError of what is none."""
    sizes = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    for each in sizes:
        Whole(0).check("shape", each)
    return torch.Size(map(int, sizes))
