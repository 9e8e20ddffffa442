"""The command `first-step`: what tracing a model on ABY3 costs, and what runs after it."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import numpy as np

from benchmarks.benchmark import STEPS, Benchmark, Result
from benchmarks.instruments.child_process import in_child
from benchmarks.tables import Table
from extensions.options import Option

NAME = "first-step"
RATE = 0.1
MODELS = ("784-10", "784-128-10")


def measured(*, widths: Sequence[int], records: int, steps: int) -> dict[str, Any]:
    """Returns the row of one model, of whose process nothing else was asked.

    Each of three owners has those records; a tenth is in a batch, and as many others are evaluated.
    """
    import tfe_ext

    import tf_encrypted as tfe
    from tf_encrypted.keras.layers import Dense

    tfe.set_config(tfe_ext.local_config())
    tfe.set_protocol(tfe_ext.ABY3(fixedpoint_config="f20"))
    inputs, *hidden, outputs = widths
    stack = [Dense(width, activation="relu") for width in hidden] + [Dense(outputs)]
    stack[0]._batch_input_shape = [1, inputs]
    model = tfe_ext.keras.Sequential(stack)
    optimizer = tfe_ext.keras.DPSGD(0.1, 1.0, 1.1, sample_rate=RATE)
    model.compile(optimizer, tfe_ext.keras.BinaryCrossentropy())
    draws = np.random.default_rng(0)

    def drawn(count: int) -> tuple[dict[str, Any], dict[str, Any]]:
        names = [f"server{i}" for i in range(3)]
        x = {name: draws.uniform(-1, 1, (count, inputs)) / np.sqrt(inputs) for name in names}
        return x, {name: draws.integers(0, outputs, count) for name in names}

    (x, y), held_out = drawn(records), drawn(round(RATE * records))

    def fit() -> None:
        optimizer.learning_rate *= 0.99
        model.fit(x, y, steps=1, verbose=False)

    def evaluate() -> None:
        model.evaluate(*held_out)

    first, tried = _seconds(fit), _seconds(evaluate)
    step, evaluation = (
        statistics.median(_seconds(act) for _ in range(steps)) for act in (fit, evaluate)
    )
    return {
        "model": "-".join(map(str, widths)),
        "nodes": model.step_cost().nodes,
        "first step, CPU s": first,
        "step, CPU ms": 1000 * step,
        "first evaluation, CPU s": tried,
        "evaluation, CPU ms": 1000 * evaluation,
        "evaluation / step": evaluation / step,
    }


def _seconds(act: Callable[[], None]) -> float:
    begun = time.process_time()
    act()
    return time.process_time() - begun


@Benchmark(
    STEPS,
    "first-step",
    "A session on ABY3 is compiled once",
    minutes=2,
    results=[
        Result(
            "first-step",
            "What tracing a model of Keras layers takes, and then a step with another learning "
            "rate and an evaluation of as many records as a batch expects.",
            columns="*",
        )
    ],
)
def main(
    models: Annotated[list[str] | None, Option(name="model", help="Widths of layers.")] = None,
    records: Annotated[int, Option(help="Of each of three owners.")] = 200,
    steps: Annotated[int, Option(help="Timed after the first one.")] = 15,
) -> Iterator[Table]:
    """What the first step of a model on ABY3 costs, and each further step and evaluation."""
    rows = [
        in_child(
            "benchmarks.steps.first_step:measured",
            widths=[int(width) for width in model.split("-")],
            records=records,
            steps=steps,
        )
        for model in models or MODELS
    ]
    yield Table(
        NAME,
        rows,
        records=3 * records,
        sample_rate=RATE,
        steps=steps,
        seed=0,
        frac_bits=20,
        network="none, three devices of one process",
        rate="another with each step",
    )
