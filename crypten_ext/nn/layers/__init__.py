"""Layers whose gradients a private step can clip example by example.

A model is built from them with `crypten.nn.Sequential`, or by `crypten.nn.from_pytorch`; in both
cases our optimizers adopt CrypTen's own modules (`crypten_ext.nn.layers.adoption`).
"""

from crypten_ext.nn.layers.images import (
    AvgPool2d,
    Conv,
    Conv1d,
    Conv2d,
    GlobalAveragePool,
    MaxPool2d,
)
from crypten_ext.nn.layers.linear import BiasFree, Gemm, Linear
from crypten_ext.nn.layers.without_weights import Add, Flatten, ReLU, Reshape, Sigmoid, Tanh

__all__ = [
    "Add",
    "AvgPool2d",
    "BiasFree",
    "Conv",
    "Conv1d",
    "Conv2d",
    "Flatten",
    "Gemm",
    "GlobalAveragePool",
    "Linear",
    "MaxPool2d",
    "ReLU",
    "Reshape",
    "Sigmoid",
    "Tanh",
]
