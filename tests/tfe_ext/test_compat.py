"""TF Encrypted 0.9.1 imports and traces on the TensorFlow at hand."""

import importlib.util
import os
import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.helpers.paths import ROOT

INSTALLED = importlib.util.find_spec("tensorflow") and importlib.util.find_spec("tf_encrypted")
needs_tensorflow = pytest.mark.skipif(
    not INSTALLED, reason="TensorFlow is not installed: type pip install -e '.[tfe]'"
)


def run_fresh(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the code in a new process in which every warning is an error."""
    environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment | {"PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
@needs_tensorflow
def test_stock_import_fails_where_the_shim_is_needed():
    run = run_fresh(
        "import warnings; warnings.simplefilter('ignore')\n"
        "from tensorflow.python.ops import while_v2\n"
        "there = hasattr(while_v2, 'glob_stateful_parallelism')\n"
        "try: import tf_encrypted\n"
        "except ImportError: assert not there\n"
        "else: assert there\n"
    )
    assert run.returncode == 0, run.stderr


@needs_tensorflow
def test_import_says_once_what_is_used_and_takes_its_loan_back():
    run = run_fresh(
        "import sys, tfe_ext\n"
        "import tf_encrypted as tfe, tensorflow as tf\n"
        "from tensorflow.python.ops import while_v2\n"
        "assert not hasattr(while_v2, 'glob_stateful_parallelism')\n"
        f"assert tfe_ext.__version__ == {version('pea-mpl')!r}\n"
        "assert tfe.get_protocol() is not None\n"
        "assert tf.keras.Model.__module__.startswith('tf_keras.')\n"
        "assert tf.keras.Model is __import__('tensorflow.keras').keras.Model\n"
        "assert 'torch' not in sys.modules\n"
        "tfe.set_config(tfe_ext.local_config())\n"
        "for stock in (tfe.protocol.Pond, tfe.protocol.SecureNN, tfe.protocol.ABY3):\n"
        "    with stock():\n"
        "        try: tfe.define_private_input('server0', lambda: tf.constant([1.0]))\n"
        "        except ImportError as error: print(stock.__name__, error)\n"
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("tfe_ext.ABY3 draws its masks from ChaCha20") == 1
    assert "insecure" not in run.stderr
    refused = run.stdout.splitlines()
    assert [line.split()[0] for line in refused] == ["Pond", "SecureNN", "ABY3"]
    assert all("Type: tfe.set_protocol(tfe_ext.ABY3())" in line for line in refused)


@pytest.mark.long
@needs_tensorflow
def test_tensorflow_may_be_imported_first():
    run = run_fresh(
        "import tensorflow as tf, tfe_ext\n"
        "import tensorflow.keras\n"
        "from tensorflow.keras import backend\n"
        "for member in (tf.keras.Model, tensorflow.keras.Model, tf.losses.Loss, backend.dot):\n"
        "    assert member.__module__.startswith('tf_keras.'), member\n"
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.long
@needs_tensorflow
@pytest.mark.parametrize(
    "use", ["tf.keras.layers", pytest.param("dir(tf.keras)", marks=pytest.mark.long)]
)
def test_keras_that_is_in_use_already_is_kept_with_a_warning(use):
    run = run_fresh(f"import tensorflow as tf; {use}; import tfe_ext")
    assert run.returncode == 1
    assert "RuntimeWarning: tf.keras was used as Keras 3 before tfe_ext" in run.stderr


@pytest.mark.long
@needs_tensorflow
def test_keras_that_the_user_chose_is_kept():
    code = "import tfe_ext, os, tensorflow as tf; assert os.environ['TF_USE_LEGACY_KERAS'] == '0'"
    run = run_fresh(
        f"{code}; assert tf.keras.Model.__module__.startswith('keras.')", TF_USE_LEGACY_KERAS="0"
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.long
@needs_tensorflow
@pytest.mark.parametrize("version", ["2.22.0", "2.17.1"])
def test_untested_tensorflow_is_refused_unless_asked_for(version):
    code = f"import tensorflow as tf, tfe_ext; tf.__version__ = {version!r}; import tf_encrypted"
    run = run_fresh(code)
    assert run.returncode == 1
    assert f"UnsupportedVersionError: TensorFlow {version} is installed, but" in run.stderr
    assert "TFE_EXT_UNTESTED_TENSORFLOW=1" in run.stderr


@pytest.mark.long
@needs_tensorflow
def test_traced_while_loop_computes_on_shares():
    run = run_fresh(
        """
import numpy as np
import tensorflow as tf
import tfe_ext
import tf_encrypted as tfe
from tf_encrypted.protocol.aby3.aby3_tensors import ABY3PrivateTensor, ShareType

protocol = tfe.get_protocol()
VALUES = np.array([[1, 2, 3], [4, 5, 6]])
ADDENDS = VALUES * 2**protocol.fixedpoint_config.precision_fractional, VALUES, -VALUES

def more(i, x):
    return i < 10

def add(i, x):
    return i + 1, x + 10

@tf.function(autograph=False)
def compute():
    shares = []
    for party, server in enumerate(protocol.servers):
        with tf.device(server.device_name):
            pair = ADDENDS[party], ADDENDS[(party + 1) % 3]
            shares.append([protocol.default_factory.constant(share) for share in pair])
    x = ABY3PrivateTensor(protocol, shares, True, ShareType.ARITHMETIC)
    i, x = tfe.while_loop(more, add, [tf.constant(0), x])
    return i, x.reveal().to_native()

i, x = compute()
assert i == 10
assert np.array_equal(x, VALUES + 100), x
"""
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.long
@needs_tensorflow
@pytest.mark.parametrize(
    "order",
    ["crypten_ext, tfe_ext", "tfe_ext, crypten_ext"],
)
def test_both_hosts_live_in_one_process(order):
    if importlib.util.find_spec("crypten") is None:
        pytest.skip("CrypTen is not installed: type pip install -e '.[crypten]'")
    run = run_fresh(
        f"import {order}\n"
        "import crypten, torch, tensorflow as tf, tf_encrypted\n"
        "crypten.init()\n"
        "assert crypten.cryptensor([2.0]).square().get_plain_text().item() == 4\n"
        "assert tf.reduce_sum(tf.constant([1, 2])) == 3\n"
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    ("package", "distribution"),
    [("tensorflow", "tensorflow"), ("tf_encrypted", "tf-encrypted"), ("tf_keras", "tf-keras")],
)
def test_missing_package_is_named_with_the_command_that_installs_it(package, distribution):
    present = {"tensorflow", "tf_encrypted", "tf_keras"} - {package}
    run = run_fresh(
        "import sys, types, tfe_ext, importlib.machinery as m\n"
        f"sys.modules[{package!r}] = None\n"
        f"for name in {sorted(present)!r}:\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        "    sys.modules[name].__spec__ = m.ModuleSpec(name, None)\n"
        "tfe_ext.ABY3\n"
    )
    assert run.returncode == 1
    assert f"MissingExtraError: {distribution} is not installed." in run.stderr
    assert "pip install '.[tfe]'" in run.stderr
