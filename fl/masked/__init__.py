"""Masked aggregation: the server learns the sum of the updates alone, whoever drops out."""

from fl.masked.aggregator import MaskedAggregator
from fl.masked.sparse.degrees import SparseGraph

__all__ = ["MaskedAggregator", "SparseGraph"]
