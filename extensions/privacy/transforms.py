"""What SciPy keeps of transforms, which an accountant gives back."""

_PLANS = 16
"""Number of plans of either kind that SciPy keeps for its next transforms."""


def forget_transforms() -> None:
    """Lets SciPy drop its plans of earlier Fourier transforms, each of which is as large as one.

    An accountant's arrays have another length for each number of steps, so that none serves again:
    16 of up to 64 MB would stay. Plans of the smallest lengths take their places.
    """
    import numpy as np
    from scipy import fft

    for length in range(2, 2 + _PLANS):
        fft.fft(np.zeros(length, dtype=np.complex128))
        fft.rfft(np.zeros(length))
