"""What CrypTen parties do with the package switched on, off, and in configurations it refuses."""

from collections.abc import Callable
from typing import Any

import torch

import crypten_ext
from crypten_ext import nn
from crypten_ext.processes.worker import Context
from extensions.ring.fixed_point import Integers
from tests.helpers.party_tasks.guards import WIDTH, batches, model
from tests.helpers.party_tasks.protocols import Outcome, outcome, rounds, session

import crypten
from crypten.mpc import MPCTensor


def inv_sqrt_methods(context: Context, *, x: Integers, frac_bits: int) -> dict[str, Any]:
    """Returns rounds and opened integers of CrypTen's own names, with and without the opt-in."""

    def measure(action: Callable[[], Any]) -> tuple[int, Integers]:
        before = rounds()
        result = action()
        return rounds() - before, result.reveal().numpy()

    with session(frac_bits):
        leader = context.rank == 0
        tensor = MPCTensor.from_shares(torch.from_numpy(x * leader), precision=frac_bits)
        results = {"enabled": measure(tensor.inv_sqrt)}
        crypten_ext.disable()
        with crypten.cfg.temp_override({"mpc.provider": "TFP"}):
            results["disabled"] = measure(tensor.inv_sqrt)
        crypten_ext.enable()
        results["ours"] = measure(tensor.inverse_sqrt)
        crypten.cfg.functions.inv_sqrt_method = "protocol1"
        results["opted in"] = measure(tensor.inv_sqrt)
        results["sqrt"] = measure(tensor.sqrt)
        for name in ("inv_sqrt", "sqrt"):
            variable = tensor.clone()
            variable.requires_grad = True
            getattr(variable, name)().sum().backward()
            results[f"gradient of {name}"] = measure(lambda v=variable: v.grad)
        crypten.cfg.functions.inv_sqrt_method = "newton"
        results["unknown"] = outcome(tensor.inv_sqrt)
    return results


def refused_inputs(context: Context) -> dict[str, Outcome]:
    """Returns the outcome of our operations under configurations and on inputs they refuse."""
    results = {}
    with session():
        x = crypten.cryptensor(torch.ones(3, WIDTH))
        operations: dict[str, Callable[[MPCTensor], Any]] = {
            "inverse_sqrt": lambda x: x.inverse_sqrt(),
            "clip_factor": lambda x: x.clip_factor(),
            "clip_by_norm": lambda x: x.clip_by_norm(1.0),
            "Linear": model(),
            "ReLU": nn.ReLU().encrypt(),
            "loss": lambda x: nn.BCEWithLogitsLoss()(x, x),
            "count_correct": lambda x: crypten_ext.count_correct(x, x),
            "gaussian_noise": lambda x: crypten_ext.gaussian_noise((2,), 1.0),
            "poisson_batches": lambda x: batches(),
            "enable": lambda x: crypten_ext.enable(),
        }
        settings = {"mpc.protocol": "replicated", "mpc.active_security": True}
        for key, value in settings.items():
            with crypten.cfg.temp_override({key: value}):
                for name, operation in operations.items():
                    results[f"{name}, {key}"] = outcome(lambda f=operation: f(x))
        inputs = {
            "integers": crypten.cryptensor(torch.ones(3, WIDTH).long(), precision=0),
            "bits": crypten.cryptensor(torch.ones(3, WIDTH).long(), ptype=crypten.mpc.binary),
            "plaintext": torch.ones(3, WIDTH),
        }
        for key, value in inputs.items():
            for name in list(operations)[:7]:
                if key != "plaintext" or ("clip" not in name and "sqrt" not in name):
                    results[f"{name}, {key}"] = outcome(lambda n=name, v=value: operations[n](v))
    return results
