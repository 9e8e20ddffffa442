"""Aggregators and epsilons side by side, in a figure of accuracy, loss, epsilon and bytes.

python examples/fl_sweep.py sweep.png
"""

import sys

import torch
from sklearn.datasets import load_digits

import fl
from extensions.privacy.accounting import calibrate_noise

CLIENTS, ROUNDS, DELTA = 100, 20, 1e-3
AGGREGATORS = {"plain": fl.PlainAggregator, "masked": fl.MaskedAggregator}
EPSILONS = (None, 8, 2)


def trained(aggregator: str, epsilon: float | None, rounds: int) -> fl.protocols.History:
    """Returns the history of a run whose models protect each client with this epsilon."""
    x, y = load_digits(return_X_y=True)
    torch.manual_seed(0)
    mechanism = fl.protocols.Mechanism()
    if epsilon is not None:
        noise = calibrate_noise(epsilon=epsilon, delta=DELTA, sample_rate=0.5, steps=rounds)
        mechanism = fl.CentralDP(noise_multiplier=noise, clip=0.5)
    run = fl.FederatedAveraging(
        model=fl.models.logistic(64),
        clients=fl.partition((x[:1500] / 16, y[:1500]), CLIENTS),
        aggregator=AGGREGATORS[aggregator](),
        mechanism=mechanism,
        client_fraction=0.5,
        weighting="equal",
    )
    return run.fit(rounds, (x[1500:] / 16, y[1500:]), delta=DELTA, progress=False)


def sweep(file: str, rounds: int = ROUNDS) -> dict[str, fl.protocols.History]:
    """Trains all of them, prints how each ends, and draws the figure."""
    runs = {
        f"{name}, epsilon {epsilon or 'infinite'}": trained(name, epsilon, rounds)
        for name in AGGREGATORS
        for epsilon in EPSILONS
    }
    for name, history in runs.items():
        megabytes = sum(each.bytes_total for each in history) / 1e6
        print(f"{name:25} {100 * history.accuracy:5.1f} %  {megabytes:6.1f} MB")
    first, *others = runs
    figure = runs[first].plot(first, **{name: runs[name] for name in others})
    figure.savefig(file)
    return runs


if __name__ == "__main__":
    sweep(sys.argv[1] if len(sys.argv) > 1 else "sweep.png")
