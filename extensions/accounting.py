"""Privacy accounting: epsilon of a run, noise for a wanted epsilon, and the ledger of it all."""

from extensions.calibration import CALIBRATIONS, calibrate_noise, epsilon
from extensions.composition import ACCOUNTANTS
from extensions.ledger import Charge, GaussianPhase, Ledger
from extensions.mechanisms import SubsampledGaussian, check_real

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
]
