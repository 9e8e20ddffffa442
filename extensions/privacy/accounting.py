"""Privacy accounting: epsilon of a run, noise for a wanted epsilon, and the ledger of it all."""

from extensions.privacy.answers import Answers, answers, take
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
    "answers",
    "calibrate_noise",
    "check_real",
    "check_target",
    "epsilon",
    "take",
    "weakness",
]
