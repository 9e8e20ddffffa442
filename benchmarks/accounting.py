"""How much noise the accountants ask for, beside the paper's formula."""

from collections.abc import Iterator

from benchmarks.benchmark import ACCOUNTING, Benchmark, Result
from benchmarks.tables import Table
from extensions.privacy.accounting import calibrate_noise, epsilon

CASES = ((0.1, 120, 2.0, 1e-5), (0.01, 500, 2.0, 1e-5), (0.017, 300, 2.0, 1.7e-6))


@Benchmark(
    ACCOUNTING,
    "accounting",
    "The accountant and the paper's formula",
    minutes=0.1,
    results=[
        Result(
            "accounting",
            "Noise multipliers for a target epsilon, beside sigma = 2 C sqrt(T ln(1/delta)) / "
            "epsilon.",
            columns="*",
        )
    ],
)
def main() -> Iterator[Table]:
    """Noise multipliers for a target epsilon: PLD, RDP and the paper's formula."""
    rows = []
    for rate, steps, target, delta in CASES:
        noise = {
            name: calibrate_noise(
                epsilon=target, delta=delta, sample_rate=rate, steps=steps, calibration=name
            )
            for name in ("pld", "rdp", "paper")
        }
        spent = epsilon(noise_multiplier=noise["paper"], sample_rate=rate, steps=steps, delta=delta)
        rows.append(
            {
                "q": rate,
                "T": steps,
                "epsilon": target,
                "delta": f"{delta:g}",
                **{f"sigma/C {name}": value for name, value in noise.items()},
                "paper / pld": noise["paper"] / noise["pld"],
                "epsilon of the paper's noise": spent,
            }
        )
    yield Table("accounting", rows)
