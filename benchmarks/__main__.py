"""``python -m benchmarks NAME``: one module a table; results go to benchmarks/results."""

from collections.abc import Mapping
from typing import ClassVar

from extensions.cli.commands import Commands
from extensions.cli.main import run


class Benchmarks(Commands):
    """Measure again what the documents' tables say; `list` says which command makes which."""

    own: ClassVar[Mapping[str, str]] = {
        "inverse-sqrt-error": "benchmarks.inverse_sqrt.error:main",
        "inverse-sqrt-runtime": "benchmarks.inverse_sqrt.runtime:main",
        "accounting": "benchmarks.accounting:main",
        "dpsgd-train": "benchmarks.steps.training:main",
        "providers": "benchmarks.providers:main",
        "pairwise": "benchmarks.pairwise:main",
        "dpsgd-step": "benchmarks.steps.dpsgd_step:main",
        "dpsgd-models": "benchmarks.steps.models.command:main",
        "first-step": "benchmarks.steps.first_step:main",
        "accuracy": "benchmarks.accuracy.command:main",
        "audit": "benchmarks.audit.command:main",
        "dpsgd-scaling": "benchmarks.steps.dpsgd_scaling:main",
        "noise": "benchmarks.noise.command:main",
        "losses": "benchmarks.steps.losses:main",
        "optimizers": "benchmarks.steps.optimizers:main",
        "fl-accuracy": "benchmarks.federated.accuracy.command:main",
        "fl-chain": "benchmarks.federated.chain.command:main",
        "fl-scale": "benchmarks.federated.scale.command:main",
        "fl-budgets": "benchmarks.federated.scale.budgets:main",
        "fl-flower": "benchmarks.federated.flower.command:main",
        "fl-latency": "benchmarks.federated.latency:main",
        "fl-leakage": "benchmarks.federated.leakage.command:main",
        "fl-dp": "benchmarks.federated.privacy.dp:main",
        "fl-signds": "benchmarks.federated.privacy.signds:main",
        "paillier": "benchmarks.federated.paillier:main",
        "pencil": "benchmarks.pencil.command:main",
        "network": "benchmarks.network.command:main",
        "tables": "benchmarks.tabular.command:main",
        "defaults": "benchmarks.defaults.command:main",
        "report": "benchmarks.report:main",
        "list": "benchmarks.listing:main",
    }


if __name__ == "__main__":
    run(Benchmarks, "python -m benchmarks")
