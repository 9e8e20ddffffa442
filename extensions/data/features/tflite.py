"""Embeddings of images by a .tflite model: a backbone that runs without a deep-learning host."""

import hashlib
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.data.datasets.folders import folders_of
from extensions.data.datasets.records import Raw
from extensions.data.features.extractor import Extractor, Features
from extensions.data.features.images import resized
from extensions.errors import ArgumentError, optional
from extensions.machine import cores
from extensions.rules import one_of

FOLDER = "extractors"
MAX_WORKERS = 16


def make(argument: str | None) -> Extractor:
    """Returns the extractor ``tflite:PATH`` or ``tflite:PATH#TENSOR``.

    The features are the model's first output, or the tensor of that name: in a classifier the
    pooled activations before its last layer, such as ``MobilenetV1/Logits/AvgPool_1a/AvgPool``. A
    file that is not at PATH is looked for in the folder ``extractors`` among the public data sets
    (`folders_of`), where a saved model, which names the file alone, finds it too.

    Guarantees:
        the images of a batch are shared out among the machine's cores, one image at a time on each,
        which changes no bit of the features.
    """
    path, _, tensor = (argument or "").partition("#")
    places = [Path(path), *(folder / path for folder in folders_of(FOLDER))]
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        allowed = "tflite:PATH of an existing model"
        raise ArgumentError("features", f"tflite:{path}", allowed, code="file")
    model = file.read_bytes()
    first = Network(model, path, tensor)
    networks = [first]

    def extract(x: Raw) -> Features:
        images = resized(x, *first.size)
        workers = min(cores(), MAX_WORKERS, len(images))
        while len(networks) < workers:
            networks.append(Network(model, path, tensor))
        with ThreadPoolExecutor(workers) as pool:
            shares = np.array_split(images, workers)
            return np.concatenate(list(pool.map(Network.rows, networks, shares)))

    return Extractor(
        name=f"tflite:{file.name}" + (f"#{tensor}" if tensor else ""),
        kinds=("images",),
        function=extract,
        identity={
            "ai-edge-litert": version("ai-edge-litert"),
            "pillow": version("pillow"),
            "model": hashlib.sha256(model).hexdigest(),
        },
        size=first.size,
    )


class Network:
    """A model that is ready to run, by one thread at a time; it takes images of `size`."""

    def __init__(self, model: bytes, path: str, tensor: str) -> None:
        litert = optional("ai_edge_litert.interpreter", "ai-edge-litert", "features")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that keeping all tensors takes memory
                self._interpreter = litert.Interpreter(
                    model_content=model, experimental_preserve_all_tensors=bool(tensor)
                )
            self._interpreter.allocate_tensors()
        except ValueError as error:
            allowed = "an undamaged model"
            raise ArgumentError("features", f"tflite:{path}", allowed, code="file") from error
        self._given = self._interpreter.get_input_details()[0]
        shape = tuple(map(int, self._given["shape"]))
        if len(shape) != 4 or (shape[0], shape[3]) != (1, 3):
            given = f"tflite:{path}, of input {shape}"
            raise ArgumentError("features", given, "of input (1, h, w, 3)", code="shape")
        self.size = shape[1:3]
        outputs = self._interpreter.get_output_details()
        self._wanted = _tensor(self._interpreter, tensor) if tensor else outputs[0]

    def rows(self, images: npt.NDArray[np.uint8]) -> Features:
        """Returns the features, (images, features), of images of its size, one after the other."""
        return np.stack([self._row(image[None]) for image in images])

    def _row(self, image: npt.NDArray[np.uint8]) -> Features:
        self._interpreter.set_tensor(self._given["index"], _as_input(image, self._given))
        self._interpreter.invoke()
        found = self._interpreter.get_tensor(self._wanted["index"])
        value: Features = found.astype(np.float32).ravel()
        scale, zero = self._wanted["quantization"]
        return ((value - zero) * scale).astype(np.float32) if scale else value


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
    raise ArgumentError("features", f"tflite:...#{name}", one_of(rows))


def _as_input(image: npt.NDArray[np.uint8], given: dict[str, Any]) -> npt.NDArray[Any]:
    """Returns the pixels in the type of the input; what is not in bytes is taken as [-1, 1]."""
    if given["dtype"] is np.uint8:
        return image
    reals = image.astype(np.float32) / np.float32(127.5) - np.float32(1)
    scale, zero = given["quantization"]
    return (np.rint(reals / scale + zero) if scale else reals).astype(given["dtype"])
