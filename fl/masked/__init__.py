"""Masked aggregation: the server learns the sum of the updates alone, whoever drops out."""

from fl.masked.aggregator import MaskedAggregator

__all__ = ["MaskedAggregator"]
