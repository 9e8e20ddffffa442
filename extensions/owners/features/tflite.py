"""Embeddings of images by a .tflite model: a backbone that runs without a deep-learning host."""

import hashlib
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError, MissingExtraError
from extensions.owners.data.records import Raw
from extensions.owners.features.extractor import Extractor, Features
from extensions.owners.features.images import resized


def make(argument: str | None) -> Extractor:
    """Returns the extractor ``tflite:PATH`` or ``tflite:PATH#TENSOR``.

    The features are the model's first output, or the tensor of that name: in a classifier the
    pooled activations before its last layer, such as ``MobilenetV1/Logits/AvgPool_1a/AvgPool``.

    Raises:
        ArgumentError: no such file, no model of one image in colour, or no such tensor.
        MissingExtraError: LiteRT is not installed.
    """
    path, _, tensor = (argument or "").partition("#")
    if not Path(path).is_file():
        raise ArgumentError("features", f"tflite:{path}", "tflite:PATH of an existing model")
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        raise MissingExtraError("ai-edge-litert", "features") from None
    model = Path(path).read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that keeping all tensors takes memory
            interpreter = Interpreter(
                model_content=model, experimental_preserve_all_tensors=bool(tensor)
            )
        interpreter.allocate_tensors()
    except ValueError as error:
        raise ArgumentError("features", f"tflite:{path}", "an undamaged model") from error
    given = interpreter.get_input_details()[0]
    if len(given["shape"]) != 4 or tuple(given["shape"][[0, 3]]) != (1, 3):
        shape = tuple(map(int, given["shape"]))
        raise ArgumentError("features", f"tflite:{path}, of input {shape}", "of input (1, h, w, 3)")
    wanted = _tensor(interpreter, tensor) if tensor else interpreter.get_output_details()[0]

    def one(image: npt.NDArray[np.uint8]) -> Features:
        interpreter.set_tensor(given["index"], _as_input(image[None], given))
        interpreter.invoke()
        value: Features = interpreter.get_tensor(wanted["index"]).astype(np.float32).ravel()
        scale, zero = wanted["quantization"]
        return ((value - zero) * scale).astype(np.float32) if scale else value

    def extract(x: Raw) -> Features:
        height, width = map(int, given["shape"][1:3])
        return np.stack([one(image) for image in resized(x, height, width)])

    return Extractor(
        name=f"tflite:{Path(path).name}" + (f"#{tensor}" if tensor else ""),
        kinds=("images",),
        function=extract,
        identity={
            "ai-edge-litert": version("ai-edge-litert"),
            "pillow": version("pillow"),
            "model": hashlib.sha256(model).hexdigest(),
        },
    )


def _tensor(interpreter: Any, name: str) -> dict[str, Any]:
    details: list[dict[str, Any]] = interpreter.get_tensor_details()
    for tensor in details:
        if tensor["name"] == name:
            return tensor
    rows = [
        tensor["name"]
        for tensor in details
        if len(tensor["shape"]) > 1 and tensor["shape"].prod() == tensor["shape"][-1] > 1
    ]
    raise ArgumentError("features", f"tflite:...#{name}", f"one of {', '.join(rows)}")


def _as_input(image: npt.NDArray[np.uint8], given: dict[str, Any]) -> npt.NDArray[Any]:
    """Returns the pixels in the type of the input; what is not in bytes is taken as [-1, 1]."""
    if given["dtype"] is np.uint8:
        return image
    reals = image.astype(np.float32) / np.float32(127.5) - np.float32(1)
    scale, zero = given["quantization"]
    return (np.rint(reals / scale + zero) if scale else reals).astype(given["dtype"])
