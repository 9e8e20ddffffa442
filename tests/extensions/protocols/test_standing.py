"""With a sampling rate of 1 a host may make the batch of all steps once."""

from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import load, split_among
from extensions.privacy.randomness import InsecureSeededSource
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.options import RunOptions
from extensions.runs.training import run

STEPS = 3


class StandingHost(ClearHost):
    """One that makes it once, and counts."""

    def __init__(self) -> None:
        super().__init__(20, parties=2, owners=2, source=InsecureSeededSource(3), coins=4)
        self.made: list[int] = []
        self.begun = 0

    def standing(self, records: Any, rows: Any, pieces: int) -> Any:
        self.made.append(pieces)
        return [*self.samples(records, rows, 1.0, pieces)]

    def begin_step(self) -> None:
        self.begun += 1


class DrawingHost(StandingHost):
    """One that samples in each step."""

    def standing(self, *_: Any) -> Any:
        return None


def trained(host: ClearHost, **settings: Any) -> Any:
    given: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5} | settings
    config = TrainConfig(
        backend="clear",
        evaluate="opened",
        parties=2,
        frac_bits=20,
        insecure_seed=3,
        steps=STEPS,
        **given,
    )
    report = run(
        host, config, split_among(load("digits", None, 0), 2), lambda event: None, RunOptions()
    )
    return np.concatenate([part.reshape(-1) for pair in report["parameters"] for part in pair])


@pytest.mark.parametrize("physical_rows", [None, 400])
def test_a_batch_made_once_trains_the_model_that_samples_of_all_records_do(physical_rows):
    once, anew = StandingHost(), DrawingHost()
    settings = {"sample_rate": 1.0, "physical_rows": physical_rows}
    np.testing.assert_array_equal(trained(once, **settings), trained(anew, **settings))
    assert once.made == [1 if physical_rows is None else 4]
    assert (once.begun, anew.begun) == (STEPS, 0)


def test_samples_of_some_records_are_drawn_in_each_step():
    host = StandingHost()
    trained(host, sample_rate=0.5)
    assert (host.made, host.begun) == ([], 0)
