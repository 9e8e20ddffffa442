"""Privacy accounting: epsilon of a run, noise for a wanted epsilon, and the ledger of it all."""

from extensions.privacy.accountant_cache import Answers, cached_answers, fill_cache
from extensions.privacy.calibration import CALIBRATIONS, calibrate_noise, epsilon
from extensions.privacy.composition import FILTER
from extensions.privacy.ledger import Charge, GaussianPhase, Ledger
from extensions.privacy.mechanisms import (
    NEIGHBOURS,
    WEAK_EPSILON,
    Neighbours,
    SubsampledGaussian,
    check_real,
    check_target,
    weakness,
)
from extensions.privacy.planning import allowed_overflow

__all__ = [
    "CALIBRATIONS",
    "FILTER",
    "NEIGHBOURS",
    "WEAK_EPSILON",
    "Answers",
    "Charge",
    "GaussianPhase",
    "Ledger",
    "Neighbours",
    "SubsampledGaussian",
    "allowed_overflow",
    "cached_answers",
    "calibrate_noise",
    "check_real",
    "check_target",
    "epsilon",
    "fill_cache",
    "weakness",
]
