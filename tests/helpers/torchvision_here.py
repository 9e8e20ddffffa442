"""torchvision, also where its compiled operators are of a build for another torch."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def torchvision_here() -> Iterator[Any]:
    """Yields torchvision; where its operators are missing, whose names suffice, it has the names.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    try:
        import torchvision
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision

        yield torchvision
        library._destroy()
    else:
        yield torchvision
