"""Draws of TF Encrypted's players are uniform, the same at both holders, and never repeat."""

import shutil

import pytest

from tests.tfe_ext.test_compat import needs_tensorflow, run_fresh

COMPILERS = ("c++", "g++", "clang++")
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, COMPILERS)), reason="No C++ compiler is installed."
)
TASKS = "tests.helpers.tfe_tasks.randomness"


@pytest.mark.parametrize(
    "task",
    [
        "rfc_vectors",
        pytest.param("compiled_words_are_the_portable_ones", marks=needs_compiler),
        "stays_on_its_device",
        "holders_agree",
        "other_devices_are_refused",
        "unsuitable_draws_are_refused",
        "nothing_repeats",
        "pruned_holder_stays_in_step",
        "threads_share_a_stream",
        "rekeyed_graphs_draw_from_the_new_key",
        "streams_have_keys_of_their_own",
    ],
)
def test_property_of_streams(tfe_process, task):
    tfe_process.run(f"{TASKS}:{task}")


def test_every_type_is_uniform(tfe_process):
    # 17 two-sided tests at 1e-8 a side: a false alarm in 3.4e-7 of runs.
    assert tfe_process.run(f"{TASKS}:uniform", alarm=1e-8) == 17


@needs_tensorflow
def test_compiled_operation_that_cannot_be_built_is_told_once_or_refused(tmp_path):
    run = run_fresh(
        """
import logging, os
import tfe_ext
from tfe_ext.streams import chacha
from tfe_ext.streams.native import NativeError

said = []
handler = logging.Handler()
handler.emit = lambda record: said.append(record.getMessage())
logging.getLogger("tfe_ext").addHandler(handler)
for _ in range(2):
    protocol = tfe_ext.ABY3()
    assert protocol.ring.servers.private.keystream_on is chacha.keystream_on
(text,) = said
assert "compiled ChaCha20 is not used" in text, text
assert "false ended with status 1" in text, text
try: tfe_ext.ABY3(randomness="native")
except NativeError as error: assert "false ended with status 1" in str(error), error
else: raise AssertionError("built by a compiler that fails")
assert tfe_ext.ABY3(randomness="portable").ring.servers.private.keystream_on is chacha.keystream_on
try: tfe_ext.ABY3(randomness="os")
except ValueError as error: assert (error.argument, error.value) == ("randomness", "os"), error
else: raise AssertionError("an unknown randomness")
os.environ["TFE_EXT_RANDOMNESS"] = "fast"
try: tfe_ext.ABY3()
except ValueError as error: assert error.argument == "TFE_EXT_RANDOMNESS", error
else: raise AssertionError("an unknown randomness in the environment")
assert not list(os.scandir(os.environ["XDG_CACHE_HOME"] + "/pea-mpl"))
""",
        CXX="false",
        XDG_CACHE_HOME=str(tmp_path),
    )
    assert run.returncode == 0, run.stderr


@needs_tensorflow
@needs_compiler
@pytest.mark.long
def test_compiled_operation_is_built_once_and_not_loaded_from_others(tmp_path):
    code = """
import os
import tfe_ext
from tfe_ext.streams import native
folder = os.environ["XDG_CACHE_HOME"] + "/pea-mpl"
print(os.path.exists(folder))
protocol = tfe_ext.ABY3(randomness="native")
assert protocol.ring.servers.private.keystream_on is native.keystream_on
(library,) = os.scandir(folder)
print(library.stat().st_mtime_ns)
"""
    first = run_fresh(code, XDG_CACHE_HOME=str(tmp_path))
    assert first.returncode == 0, first.stderr
    second = run_fresh(code, XDG_CACHE_HOME=str(tmp_path), CXX="false")
    assert second.returncode == 0, second.stderr
    (before, built), (_, kept) = (run.stdout.split() for run in (first, second))
    assert before == "False"
    assert built == kept
    (library,) = (tmp_path / "pea-mpl").iterdir()
    library.chmod(0o722)
    third = run_fresh(code, XDG_CACHE_HOME=str(tmp_path))
    assert third.returncode == 1
    assert "belongs to another user or is writable by others" in third.stderr
