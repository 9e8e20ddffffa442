"""Estimators as scikit-learn has them, which train on several owners' records in memory."""

from extensions.data.schema import Schema
from extensions.estimator.estimators import PrivateClassifier, PrivateRegressor
from extensions.estimator.records import encode_frame

__all__ = ["PrivateClassifier", "PrivateRegressor", "Schema", "encode_frame"]
