"""Whole rounds of Flower: ours, its own SecAgg+ and its plain FedAvg, as apps on one engine."""
