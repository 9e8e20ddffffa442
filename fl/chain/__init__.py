"""Chained aggregation: clients hand on a masked sum, and no single party sees an update."""

from fl.chain import neighbours
from fl.chain.aggregator import ChainAggregator

__all__ = ["ChainAggregator", "neighbours"]
