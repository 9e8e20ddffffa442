"""An app of Flower: mnist of several owners, learnt by masked federated averaging."""
