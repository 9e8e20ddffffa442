"""TF Encrypted 0.9.1 imports and builds graphs on TensorFlow 2.18 and later.

Each function answers one change made upstream after TF Encrypted's last release, and does
nothing where that change is absent. TensorFlow itself stays as it was but for four things: the
choice of Keras, which it makes once for the whole process, one attribute that it gets back, the
place of what a traced function returns, and AutoGraph's list of what it leaves as it is.
"""

import functools
import importlib
import importlib.util
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn

from extensions.errors import (
    ArgumentError,
    MissingExtraError,
    UnsupportedVersionError,
    install_command,
)
from extensions.first_import import FirstImport
from extensions.rules import one_of

_TESTED = (2, 18), (2, 22)
_UNTESTED = "TFE_EXT_UNTESTED_TENSORFLOW"

_NEEDED = ("tensorflow", "tf_keras", "tf_encrypted")


def install(register: Callable[[], None]) -> None:
    """Makes TF Encrypted work with this TensorFlow, at once or when it is imported.

    Must run before ``tf.keras`` is used. `register` is called once it works. The host's own random
    operations are not replaced: where they are missing, its stock protocols can share nothing, and
    say so.
    """

    @contextmanager
    def registered(tf_encrypted: ModuleType | None = None) -> Iterator[None]:
        with mended():
            yield
        register()

    choose_legacy_keras()
    if not sys.modules.get("tf_encrypted"):
        FirstImport("tf_encrypted", registered)
        return
    with registered():
        """Imported already."""


def check_installed() -> None:
    """Checks that TensorFlow, tf-keras and TF Encrypted can be imported; none is."""
    for module in _NEEDED:
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError(module.replace("_", "-"), "tfe")


@contextmanager
def mended() -> Iterator[None]:
    """In the block TF Encrypted can be imported; at its end it works with this TensorFlow."""
    check_installed()
    check_version(importlib.import_module("tensorflow").__version__)
    restore_control_captures()
    leave_out_of_autograph("tfe_ext", "extensions")
    with (
        while_parallelism(),
        pkg_resources_accepted(),
        default_protocol_without_keys(),
        said_once(),
    ):
        yield
    name_missing_operation(importlib.import_module("tf_encrypted.operations.secure_random"))
    name_unknown_activation(importlib.import_module("tf_encrypted.keras.activations"))
    build_while_without_parallelism(importlib.import_module("tf_encrypted.protocol.aby3.aby3"))
    return_in_place()


def check_version(version: str) -> None:
    """Checks that the tests ran on this TensorFlow, or that the user asked by name to try it."""
    release = tuple(int(part) for part in version.split(".")[:2])
    low, high = _TESTED
    if not low <= release < high and os.environ.get(_UNTESTED) != "1":
        raise UnsupportedVersionError(
            f"TensorFlow {version} is installed, but tfe_ext was tested on 2.18 up to 2.21 only. "
            f"Type in your clone of PEA: {install_command('tfe')}, or set {_UNTESTED}=1 to try."
        )


def choose_legacy_keras() -> None:
    """Makes ``tf.keras`` Keras 2 for the process, unless the environment says otherwise.

    Answers TensorFlow 2.16: ``tf.keras`` became Keras 3, and TF Encrypted's layers were written for
    Keras 2. TensorFlow reads ``TF_USE_LEGACY_KERAS`` when it is imported and again when
    ``tf.keras`` is first used; a value set by the user is kept. Warns if it is too late.
    """
    if os.environ.setdefault("TF_USE_LEGACY_KERAS", "1") not in ("1", "true", "True"):
        return
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return
    keras = vars(vars(tensorflow)["keras"])
    version = keras.get("_tfll_keras_version") or keras.get("__version__", "")
    if version.startswith(("3", "keras_3")):
        warnings.warn(
            "tf.keras was used as Keras 3 before tfe_ext was imported, but TF Encrypted's layers "
            "need Keras 2. Import tfe_ext first, or start with TF_USE_LEGACY_KERAS=1.",
            RuntimeWarning,
            stacklevel=4,
        )
        return
    spec = importlib.util.find_spec("tf_keras")
    if spec is not None and spec.origin is not None:
        legacy = os.path.join(os.path.dirname(spec.origin), "api", "_v2")
        if legacy not in tensorflow.__path__:
            tensorflow.__path__ = [legacy, *tensorflow.__path__]


@contextmanager
def while_parallelism() -> Iterator[None]:
    """Lets ``while_v2.glob_stateful_parallelism`` be imported inside the block.

    Answers TensorFlow 2.13, which removed this experiment; False was its default.
    """
    while_v2 = importlib.import_module("tensorflow.python.ops.while_v2")
    if hasattr(while_v2, "glob_stateful_parallelism"):
        yield
        return
    while_v2.glob_stateful_parallelism = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del while_v2.glob_stateful_parallelism


@contextmanager
def pkg_resources_accepted() -> Iterator[None]:
    """Lets ``pkg_resources`` be imported inside the block without its deprecation warning.

    Answers setuptools 80, which warns, and 81, from which our extra keeps away.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "pkg_resources is deprecated", UserWarning)
        warnings.filterwarnings("ignore", "pkg_resources is deprecated", DeprecationWarning)
        yield


@contextmanager
def default_protocol_without_keys() -> Iterator[None]:
    """Lets TF Encrypted be imported inside the block without a key for its default protocol.

    Its import makes a stock ABY3, whose keys come from TensorFlow's insecure generator where the
    native one is missing. To make them would also start TensorFlow, after which its logical devices
    are fixed. Operations that need a key ask for ``tfe.get_protocol().reset()`` then.
    """
    found: list[tuple[Any, Any]] = []

    @contextmanager
    def left_out(module: ModuleType) -> Iterator[None]:
        yield
        protocol = vars(module)["ABY3"]
        found.append((protocol, protocol.initialize_keys))
        protocol.initialize_keys = lambda protocol: None

    stock = FirstImport("tf_encrypted.protocol.aby3.aby3", left_out)
    try:
        yield
    finally:
        stock.remove()
        for protocol, initialize_keys in found:
            protocol.initialize_keys = initialize_keys


def restore_control_captures() -> None:
    """Makes ``FuncGraph.control_captures`` hold the control inputs that a graph captured.

    Answers TensorFlow 2.13, which keeps them in ``function_captures``; ``ABY3.while_loop`` asks
    for them by the old name whenever it is traced.
    """
    func_graph: Any = importlib.import_module("tensorflow.python.framework.func_graph").FuncGraph
    if not hasattr(func_graph, "control_captures"):
        func_graph.control_captures = property(lambda graph: graph.function_captures.control)


def build_while_without_parallelism(aby3: Any) -> None:
    """Makes ``ABY3.while_loop`` build its graph node with arguments that TensorFlow accepts.

    Answers TensorFlow 2.13: ``_build_while_op`` lost the argument ``stateful_parallelism``.
    """
    import inspect  # takes as long to import as all else here

    build = aby3._build_while_op
    if "stateful_parallelism" in inspect.signature(build).parameters:
        return

    def build_while_op(*args: Any, stateful_parallelism: bool = False, **kwargs: Any) -> Any:
        return build(*args, **kwargs)

    aby3._build_while_op = build_while_op


def return_in_place() -> None:
    """Lets what a traced function returns stay on the device that computed it.

    Answers no change: TensorFlow has always returned copies without a device, and places these on
    the client. What a loop's body returned, or a function whose result is used on a server, went
    to the client and back, which saw every share.
    """
    dependencies: Any = importlib.import_module(
        "tensorflow.python.framework.auto_control_deps"
    ).AutomaticControlDependencies
    mark = dependencies.mark_as_return
    if getattr(mark, "_in_place", False):
        return
    device = importlib.import_module("tensorflow").device

    @functools.wraps(mark)
    def mark_as_return(self: Any, tensor: Any) -> Any:
        with device(_place(tensor)):
            return mark(self, tensor)

    vars(mark_as_return)["_in_place"] = True
    dependencies.mark_as_return = mark_as_return


def _place(tensor: Any) -> str | None:
    """Returns the device of a tensor, or of what a graph captured as that tensor; None if none."""
    while not getattr(tensor, "device", ""):
        captures = getattr(getattr(tensor, "graph", None), "captures", ())
        tensor = next((outer for outer, inner in captures if inner is tensor), None)
        if tensor is None:
            return None
    return str(tensor.device)


def leave_out_of_autograph(*packages: str) -> None:
    """Lets AutoGraph call these packages as they are, as it does NumPy and Keras.

    There is nothing to convert in them: it would look for long, and warn of what it cannot read.
    """
    config: Any = importlib.import_module("tensorflow.python.autograph.core.config")
    for package in packages:
        if not any(rule.matches(package) for rule in config.CONVERSION_RULES):
            config.CONVERSION_RULES += (config.DoNotConvert(package),)


USED = "tfe_ext.ABY3 draws its masks from ChaCha20, under keys of the operating system."
MISSING = (
    "TF Encrypted's own ABY3, Pond and SecureNN need a native operation that exists for TensorFlow "
    "2.9.1 only. Here you can import them, but they cannot share anything."
)
_SAYINGS = ("Falling back to insecure randomness", "Could not find ")
_logger = logging.getLogger("tfe_ext")


@contextmanager
def said_once() -> Iterator[None]:
    """Lets TF Encrypted be imported inside the block, with one line in place of its four.

    It looks for four libraries of native operations, and says of two that randomness would be
    insecure without them. `tfe_ext.ABY3` uses none of them.
    """
    taken: list[logging.LogRecord] = []

    def others(record: logging.LogRecord) -> bool:
        """Whether the record is about something else."""
        if not str(record.msg).startswith(_SAYINGS):
            return True
        taken.append(record)
        return False

    logger = logging.getLogger("tf_encrypted")
    logger.addFilter(others)
    try:
        yield
    finally:
        logger.removeFilter(others)
    if taken:
        _logger.warning("%s %s", USED, MISSING)


def name_missing_operation(random: Any) -> None:
    """Lets sharing with a protocol of the host raise an error that says what to do."""
    if not random.supports_secure_randomness():
        for name in ("secure_seed", "random_uniform", "seeded_random_uniform"):
            setattr(random, name, _refuse)


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise UnsupportedVersionError(f"{MISSING} Type: tfe.set_protocol(tfe_ext.ABY3())")


def name_unknown_activation(activations: Any) -> None:
    """Lets the name of no activation raise an error that says which names there are."""
    host_get = activations.get
    if getattr(host_get, "names_unknown", False):
        return

    def get(identifier: Any) -> Any:
        try:
            found = host_get(identifier)
        except (KeyError, TypeError):
            found = None
        if found is None:
            raise ArgumentError("activation", identifier, one_of((None, "relu", "sigmoid", "tanh")))
        return found

    vars(get)["names_unknown"] = True
    activations.get = get
