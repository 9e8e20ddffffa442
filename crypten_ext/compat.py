"""CrypTen 0.4.1 can be imported, converts models and loads its files on torch 2.9 and later.

Each function makes up for one change in another package after CrypTen's last release ("Answers
..."), and does nothing where that change is absent. Only CrypTen's own modules stay altered: what
the import needs in ``torch`` and ``sys.modules`` is removed when it ends.
"""

import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

from extensions.errors import MissingExtraError
from extensions.first_import import FirstImport

_REGISTRATION = "torch.onnx._internal.registration"
_REGISTRATION_MOVED = "torch.onnx._internal.torchscript_exporter.registration"


def install() -> None:
    """CrypTen can be imported from here on, and works with the torch at hand.

    If it was imported before, the shims of its import are skipped and the others apply at once.
    """
    if sys.modules.get("crypten"):
        mend()
    else:
        FirstImport("crypten", mended)


@contextmanager
def mended(crypten: ModuleType) -> Iterator[None]:
    """In the block CrypTen can be imported; at its end it works with the torch at hand."""
    check_installed()
    forget_failed_import()
    with exporter_registration(), tensorflow_hidden():
        yield
    mend()


def mend() -> None:
    """CrypTen, already imported, works with the torch at hand; a second call changes nothing."""
    converter = importlib.import_module("crypten.nn.onnx_converter")
    export_by_torchscript(converter)
    separate_equal_parameters(converter)
    copy_onnx_arrays(converter)
    load_own_classes()
    meet_by_torchrun()


def check_installed() -> None:
    """Raises MissingExtraError if torch or CrypTen is not installed; neither is imported."""
    for package in ("torch", "crypten"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, "crypten")


def meet_by_torchrun() -> None:
    """Processes that torchrun started meet where it says.

    Answers CrypTen itself: unless ``RENDEZVOUS`` is set, each process waits for the others at a
    place of its own, in silence.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        os.environ.setdefault("RENDEZVOUS", "env://")


def forget_failed_import() -> None:
    """Removes CrypTen's submodules that an import that failed earlier in the process left behind.

    Answers Python's import system: it keeps the submodules of a package whose import raised, and
    a second import then finds them without binding them to the package.
    """
    for name in [name for name in sys.modules if name.startswith("crypten.")]:
        del sys.modules[name]


@contextmanager
def exporter_registration() -> Iterator[None]:
    """Inside the block the ONNX registration module answers to the name that CrypTen imports.

    Answers torch 2.9: the module moved into ``torchscript_exporter``.
    """
    if importlib.util.find_spec(_REGISTRATION) is not None:
        yield
        return
    sys.modules[_REGISTRATION] = importlib.import_module(_REGISTRATION_MOVED)
    try:
        yield
    finally:
        sys.modules.pop(_REGISTRATION, None)


@contextmanager
def tensorflow_hidden() -> Iterator[None]:
    """Inside the block TensorFlow cannot be imported, unless it already was.

    Answers CrypTen itself: it imports TensorFlow where it finds it, for a conversion that it no
    longer offers, at the price of seconds per process. A thread that imports TensorFlow during
    the block fails; import it before, or afterwards.
    """
    if "tensorflow" in sys.modules:
        yield
        return
    sys.modules["tensorflow"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.modules.pop("tensorflow", None)


def export_by_torchscript(converter: Any) -> None:
    """``crypten.nn.from_pytorch`` exports by tracing, with the operators that CrypTen registers.

    Answers torch 2.9: ``torch.onnx.export`` takes the ``dynamo`` exporter by default, which knows
    nothing of those operators and needs the onnxscript package, and 2.6, which retired
    ``operator_export_type``.
    """
    import inspect  # takes as long to import as all else here

    import torch

    dynamo = inspect.signature(torch.onnx.export).parameters.get("dynamo")
    if dynamo is None or not dynamo.default:
        return

    def export(f: Any, pytorch_model: Any, dummy_input: Any) -> Any:
        with warnings.catch_warnings():
            for message in ("You are using the legacy TorchScript", "The feature will be removed"):
                warnings.filterwarnings("ignore", message, DeprecationWarning)
            torch.onnx.export(
                pytorch_model,
                dummy_input,
                f,
                dynamo=False,
                do_constant_folding=False,
                export_params=True,
                input_names=["input"],
                output_names=["output"],
                opset_version=converter._OPSET_VERSION,
            )
        return f

    converter._export_pytorch_model = export


def separate_equal_parameters(converter: Any) -> None:
    """Parameters that merely hold equal values stay separate; one used twice stays one.

    Answers torch 1.11: the exporter stores equal initializers once and refers to them through
    Identity nodes, which CrypTen does not know; sharing the initializer instead would tie the
    weights of different layers, for example all zero biases of one shape.
    """
    load: Any = converter._load_onnx_model
    if hasattr(converter.module, "Identity") or getattr(load, "separates", False):
        return

    def load_separated(onnx_string_or_file: Any) -> Any:
        model = load(onnx_string_or_file)
        initializers = {tensor.name: tensor for tensor in model.graph.initializer}
        for node in list(model.graph.node):
            if node.op_type == "Identity" and node.input[0] in initializers:
                copy = model.graph.initializer.add()
                copy.CopyFrom(initializers[node.input[0]])
                copy.name = node.output[0]
                initializers[copy.name] = copy
                model.graph.node.remove(node)
        return model

    vars(load_separated)["separates"] = True
    converter._load_onnx_model = load_separated


def copy_onnx_arrays(converter: Any) -> None:
    """Parameters of a converted model own writable memory.

    Answers onnx, whose arrays are read-only views of the message, and torch 1.5, which warns that
    writing to such a tensor is undefined.
    """
    import numpy as np

    to_array = importlib.import_module("onnx.numpy_helper").to_array
    converter.numpy_helper = SimpleNamespace(to_array=lambda tensor: np.array(to_array(tensor)))


def load_own_classes() -> None:
    """CrypTen loads the files that it saved: tensors, shares, models of torch layers, tuples.

    Answers torch 2.6: ``torch.load`` refuses every class that it does not know. The classes of
    CrypTen and the layers of ``torch.nn`` are added while CrypTen loads a file, and code in a
    file still does not run. For a model class of your own pass ``weights_only=False`` to
    ``crypten.load_from_party``, for a file that you trust.
    """
    import torch

    import crypten

    def load(f: Any, **kwargs: Any) -> Any:
        with torch.serialization.safe_globals(_file_classes()):
            return torch.load(f, **kwargs)

    for function in (crypten.load, crypten.load_from_party):
        function.__defaults__ = tuple(
            load if default is torch.load else default for default in function.__defaults__
        )
    provider: Any = importlib.import_module("crypten.mpc.provider.provider")
    provider.torch = SimpleNamespace(save=torch.save, load=load)


def _file_classes() -> list[Any]:
    import torch

    own = [
        member
        for name, module in list(sys.modules.items())
        if name.startswith("crypten.")
        for member in vars(module).values()
        if isinstance(member, type) and member.__module__.startswith("crypten.")
    ]
    layers = [
        member
        for member in vars(torch.nn).values()
        if isinstance(member, type) and issubclass(member, torch.nn.Module)
    ]
    return [*dict.fromkeys([*own, *layers]), frozenset]
