"""A sum over all owners' records, of which nothing but it is opened, with Protocol 2's noise."""

from collections.abc import Callable, Sequence

from extensions.protocols.host import Arrays, Host
from extensions.protocols.noise import EVEN, NoiseSplit, summand_scale
from extensions.protocols.pea import RunCallbacks
from extensions.ring.fixed_point import Integers


def noisy_sum(
    host: Host,
    callbacks: RunCallbacks,
    name: str,
    own: Callable[[int], Arrays],
    sigmas: Sequence[float],
    *,
    frac_bits: int,
    split: NoiseSplit = EVEN,
) -> list[Integers]:
    """Returns to every party the sum of all owners' arrays, with noise.

    Args:
        callbacks: of the run, which has the release if it was made before.
        own: returns an owner's arrays, given its rank: integers with `frac_bits` fractional bits,
            of the same shapes at every owner. It is not called for a release that was made before.
        sigmas: standard deviation of the noise of each array, which remains after
            colluding parties subtract theirs.

    Guarantees:
        Each owner adds its own summand of the noise before its array leaves it, masked
        (`Host.masked`): any coalition learns the noisy sum of the others' arrays.

    Cost:
        One round; an owner sends its arrays once to each other party.

    Source:
        Ruan et al., S&P 2023, Protocol 2, for owners that have their records in the clear.
    """

    def words() -> list[list[Integers]]:
        return noisy_words(host, own, sigmas, frac_bits=frac_bits, split=split)

    return callbacks.open(name, words)


def noisy_words(
    host: Host,
    own: Callable[[int], Arrays],
    sigmas: Sequence[float],
    *,
    frac_bits: int,
    split: NoiseSplit = EVEN,
) -> list[list[Integers]]:
    """Returns, for each of the host's holders, words that add up to what `noisy_sum` opens.

    The arguments and errors are those of `noisy_sum`. Nothing is sent.
    """
    parties = host.ring.parties
    scales = [summand_scale(parties, each, frac_bits=frac_bits, split=split) for each in sigmas]

    def noised(rank: int) -> list[Integers]:
        return [
            array + host.noise.gaussian(rank, scale, array.shape) if scale else array
            for array, scale in zip(own(rank), scales, strict=True)
        ]

    return host.masked([noised(rank) for rank in host.ranks])
