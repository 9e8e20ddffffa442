"""The host's layers as the public facts and the private variables of a chain of stages."""

from tfe_ext.keras.layers.chain import Chain, chain_of
from tfe_ext.keras.layers.kinds import check_layer, check_place, config_of, layers_of
from tfe_ext.keras.layers.residual import Residual

__all__ = ["Chain", "Residual", "chain_of", "check_layer", "check_place", "config_of", "layers_of"]
