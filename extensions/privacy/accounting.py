"""Privacy accounting: epsilon of a run, noise for a wanted epsilon, and the ledger of it all."""

from extensions.privacy.calibration import CALIBRATIONS, calibrate_noise, epsilon
from extensions.privacy.composition import ACCOUNTANTS, total_epsilon
from extensions.privacy.ledger import Charge, GaussianPhase, Ledger
from extensions.privacy.mechanisms import SubsampledGaussian, check_real

__all__ = [
    "ACCOUNTANTS",
    "CALIBRATIONS",
    "Charge",
    "GaussianPhase",
    "Ledger",
    "SubsampledGaussian",
    "calibrate_noise",
    "check_real",
    "epsilon",
    "total_epsilon",
]
