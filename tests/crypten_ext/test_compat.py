"""CrypTen 0.4.1 imports, converts and loads on the torch at hand, and torch stays as it was."""

import importlib.util
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

import crypten_ext
import crypten_ext.compat as compat
from tests.helpers.paths import ROOT

import crypten
from crypten.nn import onnx_converter

MOVED = "torch.onnx._internal.registration"


def run_fresh(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    """Runs the code in a new process in which every warning is an error."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT)))}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(autouse=True, scope="module")
def one_party() -> Iterator[None]:
    """CrypTen runs as a single party."""
    started = not crypten.communicator.is_initialized()
    if started:
        crypten.init()
    yield
    if started:
        crypten.uninit()


def eighths(model: torch.nn.Sequential) -> torch.nn.Sequential:
    """The model with parameters rounded to eighths: 16 fractional bits compute it exactly."""
    for parameter in model.parameters():
        parameter.data.mul_(8).round_().div_(8)
    return model


def plaintext_of(model: crypten.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(crypten.cryptensor(x)).get_plain_text()


def test_version_is_that_of_the_distribution():
    assert crypten_ext.__version__ == version("pea-mpl")


def test_processes_of_torchrun_meet_where_it_says(monkeypatch):
    monkeypatch.delenv("RENDEZVOUS", raising=False)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    compat.meet_by_torchrun()
    assert "RENDEZVOUS" not in os.environ
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "7")
    compat.meet_by_torchrun()
    assert os.environ["RENDEZVOUS"] == "env://"
    monkeypatch.setenv("RENDEZVOUS", "tcp://127.0.0.1:29500")
    compat.meet_by_torchrun()
    assert os.environ["RENDEZVOUS"] == "tcp://127.0.0.1:29500"


@pytest.fixture
def mlp() -> torch.nn.Sequential:
    """Three layers of one shape: two biases are equal, two weights are one parameter."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 3),
        torch.nn.ReLU(),
        torch.nn.Linear(3, 3),
        torch.nn.ReLU(),
        torch.nn.Linear(3, 3),
    )
    torch.nn.init.zeros_(model[0].bias)
    torch.nn.init.zeros_(model[2].bias)
    model[4].weight = model[0].weight
    return eighths(model)


def parameters(model: crypten.nn.Module) -> dict[str, torch.Tensor]:
    return {name.removesuffix(".data"): value for name, value in model.named_parameters()}


# The import, in fresh processes


@pytest.mark.long
def test_stock_import_fails_where_the_shim_is_needed():
    run = run_fresh("import crypten")
    assert (run.returncode == 0) == (importlib.util.find_spec(MOVED) is not None)


def test_import_is_silent_and_leaves_the_interpreter_as_it_was(tmp_path):
    for name in ("tensorflow", "tf2onnx"):
        (tmp_path / f"{name}.py").write_text(f"print('{name} was imported')\n")
    run = run_fresh(
        "import sys, torch; before = torch.load, torch.onnx.export\n"
        "import crypten_ext, crypten\n"
        f"assert (torch.load, torch.onnx.export) == before and {MOVED!r} not in sys.modules\n"
        "assert not {'tensorflow', 'tf2onnx'} & set(sys.modules)\n"
        "print('then'); import tensorflow",
        tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert run.stdout == "then\ntensorflow was imported\n"


@pytest.mark.long
def test_tensorflow_that_is_loaded_stays(tmp_path):
    for name in ("tensorflow", "tf2onnx"):
        (tmp_path / f"{name}.py").write_text("")
    run = run_fresh(
        "import sys, tensorflow, crypten_ext, crypten\n"
        "assert sys.modules['tensorflow'] is tensorflow",
        tmp_path,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.long
def test_import_recovers_from_an_earlier_failure():
    run = run_fresh(
        "try:\n import crypten\nexcept ImportError: pass\n"
        "import crypten_ext, crypten; crypten.init()\n"
        "assert crypten.cryptensor([2.0]).square().get_plain_text().item() == 4"
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.long
def test_crypten_that_is_imported_already_is_kept_and_converts():
    run = run_fresh(
        "import importlib, sys, torch\n"
        f"if importlib.util.find_spec({MOVED!r}) is None:\n"
        " new = 'torch.onnx._internal.torchscript_exporter.registration'\n"
        f" sys.modules[{MOVED!r}] = importlib.import_module(new)\n"
        "sys.modules['tensorflow'] = None\n"
        "import crypten as first\n"
        "import crypten_ext, crypten\n"
        "assert crypten is first\n"
        "crypten.init(); crypten.nn.from_pytorch(torch.nn.Linear(2, 1), torch.zeros(1, 2))\n"
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("package", ["crypten", "torch"])
def test_missing_package_is_named_with_the_command_that_installs_it(package):
    run = run_fresh(f"import sys, crypten_ext; sys.modules[{package!r}] = None; crypten_ext.nn")
    assert run.returncode == 1
    assert f"MissingExtraError: {package} is not installed." in run.stderr
    assert "pip install '.[crypten]'" in run.stderr


def test_conversion_needs_no_onnxscript():
    run = run_fresh(
        "import sys; sys.modules['onnxscript'] = None\n"
        "import torch, crypten_ext, crypten; crypten.init()\n"
        "crypten.nn.from_pytorch(torch.nn.Linear(2, 1), torch.zeros(1, 2))\n"
    )
    assert run.returncode == 0, run.stderr


# The conversion


def test_converted_mlp_computes_what_torch_computes(mlp):
    x = torch.randint(-16, 17, (16, 3)) / 8
    model = crypten.nn.from_pytorch(mlp, torch.zeros(1, 3)).encrypt()
    assert torch.equal(plaintext_of(model, x), mlp(x))


def test_converted_convolution_keeps_the_operators_that_crypten_registers():
    torch.manual_seed(2)
    plain = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Dropout(),
        torch.nn.Flatten(),
        torch.nn.Linear(18, 4),
    )
    eighths(plain).eval()
    x = torch.randint(-16, 17, (3, 1, 8, 8)) / 8
    model = crypten.nn.from_pytorch(plain, torch.zeros(1, 1, 8, 8))
    assert any(isinstance(module, crypten.nn.Dropout) for module in model.modules())
    assert torch.equal(plaintext_of(model.encrypt(), x), plain(x))


def test_softmax_stays_one_operator():
    plain = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Softmax(dim=-1))
    model = crypten.nn.from_pytorch(plain, torch.zeros(1, 3))
    assert any(isinstance(module, crypten.nn.Softmax) for module in model.modules())


def test_equal_parameters_stay_separate_and_shared_ones_shared(mlp):
    model = crypten.nn.from_pytorch(mlp, torch.zeros(1, 3))
    converted, plain = parameters(model), dict(mlp.named_parameters())
    assert converted.keys() == plain.keys()
    assert "4.weight" not in plain
    for name, value in plain.items():
        assert torch.equal(converted[name], value), name
    for changed in (converted["2.bias"], mlp[2].bias):
        changed.data.add_(1)
    assert not converted["0.bias"].any()
    x = torch.zeros(1, 3)
    assert torch.equal(plaintext_of(model.encrypt(), x), mlp(x))


def test_equal_biases_get_gradients_of_their_own():
    torch.manual_seed(3)
    plain = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
    for layer in (plain[0], plain[2]):
        torch.nn.init.zeros_(layer.bias)
    eighths(plain)
    x = torch.tensor([[1.0, -1.0], [0.5, 2.0]])
    model = crypten.nn.from_pytorch(plain, x).encrypt()
    model(crypten.cryptensor(x)).sum().backward()
    plain(x).sum().backward()
    found = {name.removesuffix(".data"): p.grad for name, p in model.named_parameters()}
    for name, parameter in plain.named_parameters():
        assert torch.equal(found[name].get_plain_text(), parameter.grad), name
    assert not torch.equal(plain[0].bias.grad, plain[2].bias.grad)


def test_what_is_mended_twice_does_not_change(mlp):
    loader = onnx_converter._load_onnx_model
    compat.mend()
    assert onnx_converter._load_onnx_model is loader
    assert (
        parameters(crypten.nn.from_pytorch(mlp, torch.zeros(1, 3))).keys()
        == dict(mlp.named_parameters()).keys()
    )


# Files


def test_party_loads_tensors_and_models_that_it_saved(tmp_path, mlp):
    tensor = torch.arange(4.0)
    for saved in (tensor, mlp):
        crypten.save_from_party(saved, tmp_path / "file", src=0)
        loaded = crypten.load_from_party(tmp_path / "file", src=0)
        if saved is tensor:
            assert torch.equal(loaded.get_plain_text(), tensor)
        else:
            assert torch.equal(loaded(torch.ones(3)), mlp(torch.ones(3)))


def test_shares_and_encrypted_models_load_again(tmp_path, mlp):
    shares = crypten.cryptensor([1.0, -2.0], requires_grad=True)
    crypten.save(shares, tmp_path / "shares")
    assert torch.equal(crypten.load(tmp_path / "shares").get_plain_text(), shares.get_plain_text())
    model = crypten.nn.from_pytorch(mlp, torch.zeros(1, 3)).encrypt()
    crypten.save(model, tmp_path / "model")
    x = torch.ones(2, 3)
    assert torch.equal(plaintext_of(crypten.load(tmp_path / "model"), x), mlp(x))


def test_provider_loads_the_tuples_that_it_saved(tmp_path):
    provider = crypten.mpc.get_default_provider()
    x = crypten.cryptensor([3.0])
    crypten.trace()
    x.mul(x)
    crypten.trace(False)
    crypten.fill_cache()
    requests, keys = list(provider.request_cache), set(provider.tuple_cache)
    assert requests
    assert keys
    try:
        provider.save_cache(filepath=str(tmp_path))
        assert not provider.request_cache
        provider.load_cache(filepath=str(tmp_path))
        assert provider.request_cache == requests
        assert set(provider.tuple_cache) == keys
        assert x.mul(x).get_plain_text().item() == 9
    finally:
        provider.request_cache, provider.tuple_cache = [], {}


class RunsCode:
    """What a hostile file holds: loading it creates a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


class OwnModel(torch.nn.Linear):
    """A model class that neither torch nor CrypTen knows."""


def test_code_in_a_file_does_not_run(tmp_path):
    torch.save(RunsCode(tmp_path / "proof"), tmp_path / "file")
    for load in (crypten.load, crypten.load_from_party):
        with pytest.raises(pickle.UnpicklingError):
            load(tmp_path / "file")
    assert not (tmp_path / "proof").exists()


def test_model_class_of_the_user_loads_by_name_only(tmp_path):
    torch.save(OwnModel(2, 1), tmp_path / "file")
    with pytest.raises(pickle.UnpicklingError):
        crypten.load_from_party(tmp_path / "file")
    loaded = crypten.load_from_party(tmp_path / "file", weights_only=False)
    assert isinstance(loaded, OwnModel)


def test_torch_itself_trusts_no_more_classes_than_before(tmp_path):
    trusted = torch.serialization.get_safe_globals()
    crypten.save(crypten.cryptensor([1.0]), tmp_path / "shares")
    crypten.load(tmp_path / "shares")
    assert set(torch.serialization.get_safe_globals()) == set(trusted)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "shares")
