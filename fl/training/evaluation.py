"""How well a model does on records held out."""

import torch
from torch import Tensor, nn

from fl.training.local_training import Loss

ROWS = 1000


@torch.no_grad()
def evaluate(model: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> tuple[float, float]:
    """Returns the share of records whose largest output is their label, and the mean loss."""
    model.eval()
    right, total = 0, 0.0
    for rows, labels in zip(torch.split(x, ROWS), torch.split(y, ROWS), strict=True):
        outputs = model(rows)
        right += int((outputs.argmax(1) == labels).sum())
        total += float(loss(outputs, labels)) * len(labels)
    return right / len(y), total / len(y)
