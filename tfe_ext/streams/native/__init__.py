"""ChaCha20 as one compiled TensorFlow operation, built on this machine when it is first asked for.

The library is in the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``), named after
TensorFlow's version, the platform, the compiler's flags and the source. The compiler is ``CXX``, or
else the first of c++, g++ and clang++.
"""

import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf

from extensions.errors import PeaError
from tfe_ext.streams.chacha import Keystream

_SOURCE = Path(__file__).with_name("chacha.cc")
_OPTIMISED = ["-O3", "-shared", "-fPIC"]
_COMPILERS = ("c++", "g++", "clang++")
_SECONDS = 300.0


class NativeError(PeaError, RuntimeError):
    """The compiled operation cannot be had here; the message says why."""


def keystream_on(device: str) -> Keystream:
    """Returns what computes the words of `chacha.keystream_on` by the compiled operation.

    Raises NativeError if there is no compiler, it fails, or TensorFlow refuses what it built.
    """
    module = load()

    def compute(key: tf.Tensor, nonce: tf.Tensor, blocks: tf.Tensor) -> tf.Tensor:
        with tf.device(device):
            return module.pea_cha_cha20(key=key, nonce=nonce, blocks=blocks)

    return compute


@functools.cache
def load() -> Any:
    """Returns the module of the operation; raises NativeError as `keystream_on` does."""
    library = _library()
    if not library.exists():
        _build(library)
    _check_owner(library)
    try:
        return tf.load_op_library(str(library))
    except (tf.errors.OpError, RuntimeError) as error:
        raise NativeError(
            f"TensorFlow refused {library}: {error}. Delete it to try anew."
        ) from None


def _library() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    facts = [tf.__version__, platform.platform(), *_flags(), _SOURCE.read_text()]
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
    return cache / "pea-mpl" / f"chacha-tf{tf.__version__}-{platform.machine()}-{digest}.so"


def _flags() -> list[str]:
    return [*tf.sysconfig.get_compile_flags(), *_OPTIMISED, *tf.sysconfig.get_link_flags()]


def _build(library: Path) -> None:
    named = shlex.split(os.environ.get("CXX", ""))
    found = named or [path for path in map(shutil.which, _COMPILERS) if path][:1]
    if not found:
        raise NativeError(f"no C++ compiler was found (CXX, {', '.join(_COMPILERS)})")
    try:
        library.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            built = Path(folder) / library.name
            command = [*found, str(_SOURCE), "-o", str(built), *_flags()]
            run = subprocess.run(
                command, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
            if run.returncode:
                lines = run.stderr.strip().splitlines() or ["it said nothing"]
                why = next((line for line in lines if "error" in line), lines[-1])
                raise NativeError(f"{found[0]} ended with status {run.returncode}: {why}")
            built.chmod(0o700)
            built.replace(library)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NativeError(f"it could not be built: {error}") from None


def _check_owner(library: Path) -> None:
    """Checks that no other user can have put the code there."""
    if os.name == "posix":
        for path in (library, library.parent):
            facts = path.stat()
            if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
                raise NativeError(f"{path} belongs to another user or is writable by others")
