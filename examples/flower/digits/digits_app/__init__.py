"""An app of Flower: digits of several owners, learnt by masked federated averaging."""
