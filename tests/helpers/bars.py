"""Images that a model can learn: bars which lie where their classes say, under noise."""

import numpy as np

from extensions.data.datasets import Split


def bars(owners: int, records: int, side: int, norm: float) -> list[Split]:
    """Returns each owner's images of ten classes, as rows of that norm; they are tested on, too."""
    found = []
    for owner in range(owners):
        draws = np.random.default_rng(owner)
        y = np.arange(records) % 10
        x = draws.normal(0, 1, (records, side, side))
        thick = side // 10
        for image, label in zip(x, y, strict=True):
            image[thick * label : thick * label + 5] += 2.0
        x = x.reshape(records, -1)
        x *= norm / np.linalg.norm(x, axis=1, keepdims=True)
        found.append(Split(train_x=x, train_y=y, test_x=x, test_y=y))
    return found
