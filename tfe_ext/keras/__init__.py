"""Private training of TF Encrypted's Keras layers on ABY3."""

from extensions.runs.config.scripts import calibrate_noise
from tfe_ext.keras.averaging import MeanOfIterates
from tfe_ext.keras.checkpoints import Checkpoints
from tfe_ext.keras.fitting.defaults import defaults
from tfe_ext.keras.layers import Residual
from tfe_ext.keras.losses import BinaryCrossentropy, CategoricalCrossentropy
from tfe_ext.keras.optimizers import DPSGD, SGD, Adam, DPAdam
from tfe_ext.keras.records import vouch_for
from tfe_ext.keras.sequential import Sequential

__all__ = [
    "DPSGD",
    "SGD",
    "Adam",
    "BinaryCrossentropy",
    "CategoricalCrossentropy",
    "Checkpoints",
    "DPAdam",
    "MeanOfIterates",
    "Residual",
    "Sequential",
    "calibrate_noise",
    "defaults",
    "vouch_for",
]
