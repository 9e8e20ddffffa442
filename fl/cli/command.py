"""The command `pea fl`."""

from extensions.options.leaves import Typed, shows
from fl.cli.options import Experiment


@shows(
    *("data", "model", "clients", "partition", "rounds", "local-epochs", "lr", "aggregator"),
    *("mechanism", "epsilon", "delta", "save", "checkpoint", "json", "config"),
    example="pea fl --aggregator masked --mechanism distributed-dp --epsilon 8 --delta 1e-3",
)
def run(options: Experiment, typed: Typed) -> None:
    """Train one model by federated averaging over simulated clients, and count what it costs.

    All parties are in this process: it is for experiments, not for a deployment.
    """
    from fl.cli.running import run as run_here

    run_here(options, typed.config)
