"""The command `pea fl`."""

from extensions.cli.config_file import ConfigFile
from fl.cli.options import Experiment


def run(options: Experiment, config_file: ConfigFile = None) -> None:
    """Train one model by federated averaging over simulated clients, and count what it costs.

    All parties are in this process: it is for experiments, not for a deployment.
    """
    from fl.cli.running import run as run_here

    run_here(options, config_file)
