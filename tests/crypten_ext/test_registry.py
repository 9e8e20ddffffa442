"""The switches: an import changes nothing, what is switched on can be switched off exactly.

Configurations that leak, and tensors that are no fixed-point shares, are refused by name.
"""

import json
import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from extensions.protocols.inverse_sqrt import InverseSqrtPlan
from tests.conftest import Pools
from tests.helpers.paths import ROOT
from tests.helpers.strategies import above_inverse_root, boundaries

TASKS = "tests.helpers.party_tasks.registry"
F = 20
ADDED = ["inverse_sqrt", "clip_factor", "clip_by_norm", "inv_sqrt", "private_linear"]
ADDED += ["piecewise_linear", "recorded"]
RING, BITS = "generate_random_ring_element", "generate_kbit_random_tensor"
DRAWING = {
    "crypten.common.rng": (RING, BITS),
    "crypten.mpc.primitives.arithmetic": (RING,),
    "crypten.mpc.primitives.binary": (BITS,),
    "crypten.mpc.provider.tfp_provider": (RING, BITS),
    "crypten.mpc.provider.ttp_provider": (RING, BITS),
}
MASKS = [f"{module}.{name}" for module, names in DRAWING.items() for name in names]
TTP = "crypten.mpc.provider.ttp_provider"
MASKS += ["crypten._setup_prng", f"{TTP}.TTPClient._init", f"{TTP}.TTPServer.__init__"]

SNAPSHOTS = """
import json, sys, types
from importlib.util import module_from_spec, spec_from_file_location

spec = spec_from_file_location("compat", sys.argv[1])
compat = module_from_spec(spec)
spec.loader.exec_module(compat)
compat.install()
import crypten
from crypten.gradients import FUNCTION_REGISTRY

OWN = {"crypten.nn.onnx_converter", "crypten.mpc.provider.provider"}  # what the import mends
MODULES = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == "crypten"}


def snapshot():
    state = {f"registry.{name}": value for name, value in FUNCTION_REGISTRY.items()}
    for name in MODULES.keys() - OWN:
        for key, value in vars(MODULES[name]).items():
            if not isinstance(value, types.ModuleType):
                state[f"{name}.{key}"] = value
            if isinstance(value, type) and value.__module__ == name:
                state |= {f"{name}.{key}.{k}": v for k, v in vars(value).items()}
    return state


def changed(before, after):
    names = before.keys() | after.keys()
    return sorted(n for n in names if before.get(n, spec) is not after.get(n, spec))


host = snapshot()
import crypten_ext
import crypten_ext.run.backend

report = {"size": len(host), "import": changed(host, snapshot())}
crypten_ext.enable()
ours = snapshot()
report["enable"] = changed(host, ours)
crypten_ext.enable()
report["again"] = changed(ours, snapshot())
report["is enabled"] = crypten_ext.is_enabled()
crypten_ext.disable()
report["disable"] = changed(host, snapshot())
crypten_ext.disable()
report["disable again"] = changed(host, snapshot())
report["is disabled"] = not crypten_ext.is_enabled()
FUNCTION_REGISTRY["clip_factor"] = object
try:
    crypten_ext.enable()
except crypten_ext.registry.PeaError as error:
    report["taken"] = str(error)
del FUNCTION_REGISTRY["clip_factor"]
report["after a refusal"] = changed(host, snapshot())
print(json.dumps(report))
"""


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    root = ROOT
    command = [sys.executable, "-c", SNAPSHOTS, str(root / "crypten_ext" / "compat.py")]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_import_alone_changes_nothing(report):
    assert report["size"] > 1000
    assert report["import"] == []


def test_enable_adds_exactly_what_it_says(report):
    approximations = "crypten.common.functions.approximations.inv_sqrt"
    exchange = "crypten.communicator.distributed_communicator.DistributedCommunicator.all_reduce"
    own = ["crypten.cryptensor.CrypTensor.inv_sqrt", "crypten.nn.from_pytorch"]
    expected = [f"registry.{name}" for name in ADDED] + [approximations, exchange, *MASKS]
    assert report["enable"] == sorted([*expected, *own])


def test_the_switches_can_be_used_twice_and_leave_no_trace(report):
    assert report["again"] == report["disable"] == report["disable again"] == []
    assert report["is enabled"]
    assert report["is disabled"]


def test_a_name_that_somebody_else_registered_is_not_taken(report):
    assert "'clip_factor'" in report["taken"]
    assert report["after a refusal"] == []


X = np.array([x for x in boundaries(F + 7) if x >= 1 << (F - 6)])
REAL = X / 2.0**F
ULP = 2.0**-F


@pytest.fixture(scope="module", params=[2, 3])
def methods(request: pytest.FixtureRequest, pools: Pools) -> dict[str, Any]:
    return pools.run(request.param, f"{TASKS}:inv_sqrt_methods", x=X, frac_bits=F)[0]


def test_inv_sqrt_stays_the_hosts(methods):
    assert methods["enabled"][0] == methods["disabled"][0] != methods["ours"][0]
    near = (REAL > 0.1) & (REAL < 100.0)
    for name in ("enabled", "disabled"):
        np.testing.assert_allclose(methods[name][1][near] * ULP, REAL[near] ** -0.5, rtol=0.05)


def test_opting_in_makes_the_hosts_names_use_protocol_1(methods):
    assert methods["ours"][0] == methods["opted in"][0] == 12
    assert methods["sqrt"][0] < methods["enabled"][0]
    for name in ("ours", "opted in"):
        assert above_inverse_root(X, methods[name][1], F) == []
    least = (1 - InverseSqrtPlan(frac_bits=F).relative_error) / np.sqrt(REAL) - 3 * ULP
    assert (methods["opted in"][1] * ULP >= least).all()
    root, lost = methods["sqrt"][1] * ULP, REAL * (REAL**-0.5 - least) + 3 * ULP
    assert (root <= np.sqrt(REAL) + 3 * ULP).all()
    assert (root >= np.sqrt(REAL) - lost).all()


def test_gradients_flow_through_both(methods):
    """Of y = 1/sqrt(x): -y^3 / 2; of x y, as CrypTen defines it: y / 2. Each product is rounded."""
    most = REAL**-0.5
    least = (1 - InverseSqrtPlan(frac_bits=F).relative_error) * most - 3 * ULP
    rounding = (most**2 + most + 2) * ULP
    gradient = methods["gradient of inv_sqrt"][1] * ULP
    assert (-gradient <= most**3 / 2 + rounding).all()
    assert (-gradient >= least**3 / 2 - rounding).all()
    gradient = methods["gradient of sqrt"][1] * ULP
    assert (gradient <= most / 2 + 6 * ULP).all()
    assert (gradient >= least / 2 - 6 * ULP).all()


def test_an_unknown_method_is_refused(methods):
    kind, message = methods["unknown"]
    assert kind == "ArgumentError"
    assert message.startswith("cfg.functions.inv_sqrt_method = 'newton':")


@pytest.fixture(scope="module")
def refusals(pools: Pools) -> dict[str, tuple[str, str]]:
    return pools.run(2, f"{TASKS}:refused_inputs")[0]


@pytest.mark.parametrize(
    ("what", "count", "kind", "message"),
    [
        ("mpc.protocol", 10, "InsecureError", "'replicated'.*learn plaintexts.*'beaver'"),
        ("mpc.active_security", 10, "InsecureError", "semi-honest.*False"),
        ("integers", 7, "ArgumentError", "integer encoding.*value"),
        ("bits", 7, "ArgumentError", "type.*arithmetic"),
        ("plaintext", 4, "ArgumentError", "'Tensor'.*type.*cryptensor"),
    ],
)
def test_each_operation_refuses(refusals, what, count, kind, message):
    found = {name: result for name, result in refusals.items() if name.endswith(f", {what}")}
    assert len(found) == count
    for name, (got, text) in found.items():
        assert got == kind, (name, text)
        assert re.search(message, text), (name, text)
