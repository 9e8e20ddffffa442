"""States that are not of the run at hand: refused before anything of it changes."""

import json
import zipfile

import numpy as np
import pytest
import torch

import fl
from extensions.errors import ArgumentError
from fl.protocols import ServerOptimizer
from fl.simulation import DropOut
from fl.training.course import Checkpoint
from fl.weights import get_weights
from tests.helpers.bombs import LARGE, array, claiming, peak, zipped

RNG = np.random.default_rng(0)
CLIENTS = fl.partition((RNG.normal(size=(40, 8)), RNG.integers(0, 3, 40)), 4)
SIZE = 27
CLIP = 0.5
OPTIMIZERS = {"adam": fl.FedAdam, "momentum": fl.FedAvgM, "average": ServerOptimizer}


def run(optimizer: str = "adam", adaptive: bool = True, **more: object) -> fl.FederatedAveraging:
    torch.manual_seed(0)
    mechanism = fl.CentralDP(
        noise_multiplier=1.0,
        clip=CLIP,
        sampling="fixed",
        adaptive=fl.AdaptiveClipping(count_noise=2.0) if adaptive else None,
    )
    return fl.FederatedAveraging(
        model=torch.nn.Linear(8, 3),
        clients=CLIENTS,
        client_fraction=1.0,
        weighting="equal",
        aggregator=fl.PlainAggregator(),
        server_optimizer=OPTIMIZERS[optimizer](),
        mechanism=mechanism,
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """What runs of each optimizer wrote after two rounds, by name."""
    found = {}
    for name in OPTIMIZERS:
        path = tmp_path_factory.mktemp("saved") / "run.npz"
        before = run(name)
        before.fit(2, progress=False)
        before.save(path)
        with np.load(path) as file:
            found[name] = dict(file)
    return found


def history(entries: dict[str, np.ndarray], **changed: object) -> np.ndarray:
    rounds = json.loads(str(entries["history"]))
    rounds[0] |= changed
    return np.array(json.dumps(rounds))


def mechanism(entries: dict[str, np.ndarray], **changed: object) -> np.ndarray:
    return np.array(json.dumps(json.loads(str(entries["mechanism"])) | changed))


WRONG = {
    "negative squares": lambda e: {"optimizer.squares": -e["optimizer.squares"]},
    "fewer squares": lambda e: {"optimizer.squares": e["optimizer.squares"][:-1]},
    "one square": lambda e: {"optimizer.squares": e["optimizer.squares"][:1]},
    "squares in a column": lambda e: {"optimizer.squares": e["optimizer.squares"][:, None]},
    "squares of single precision": lambda e: {
        "optimizer.squares": e["optimizer.squares"].astype(np.float32)
    },
    "text for squares": lambda e: {"optimizer.squares": np.array("hi")},
    "infinite direction": lambda e: {"optimizer.direction": e["optimizer.direction"] + np.inf},
    "complex direction": lambda e: {"optimizer.direction": e["optimizer.direction"] + 1j},
    "direction of integers": lambda e: {"optimizer.direction": np.zeros(SIZE, dtype=np.int64)},
    "a row more": lambda e: {"optimizer.more": np.zeros(SIZE)},
    "no squares": lambda e: {"optimizer.squares": None},
    "no state": lambda e: {"optimizer.squares": None, "optimizer.direction": None},
    "weights that are no number": lambda e: {"weights": e["weights"] * np.nan},
    "fewer weights": lambda e: {"weights": e["weights"][:-1]},
    "double weights": lambda e: {"weights": e["weights"].astype(np.float64)},
    "weights in a row of rows": lambda e: {"weights": e["weights"][None]},
    "round -7": lambda e: {"history": history(e, number=-7)},
    "round 2 first": lambda e: {"history": history(e, number=2)},
    "a round of text": lambda e: {"history": history(e, number="1")},
    "bytes of text": lambda e: {"history": history(e, bytes_up="many")},
    "accuracy of text": lambda e: {"history": history(e, accuracy="high")},
    "a failure that is a number": lambda e: {"history": history(e, failure=7)},
    "a client of text": lambda e: {"history": history(e, included=["0"])},
    "a metric that is none": lambda e: {"history": history(e, metrics={"f1": "good"})},
    "nested history": lambda e: {"history": np.array("[" * 100_000)},
    "nested mechanism": lambda e: {"mechanism": np.array("[" * 100_000)},
    "nested ledger": lambda e: {"mechanism": mechanism(e, ledger="[" * 100_000)},
    "no ledger": lambda e: {"mechanism": mechanism(e, ledger="{'0': 1}")},
    "clip below the grid": lambda e: {"mechanism": mechanism(e, clip=1e-30)},
    "infinite clip": lambda e: {"mechanism": mechanism(e, clip=float("inf"))},
}


def parts(averaged: fl.FederatedAveraging) -> tuple[object, ...]:
    kept = {name: row.tolist() for name, row in averaged._optimizer_state.items()}
    return get_weights(averaged.model).tolist(), averaged.history, averaged.mechanism.state(), kept


@pytest.mark.parametrize("name", WRONG)
def test_a_state_of_another_shape_or_kind_is_refused_and_nothing_is_loaded(name, saved, tmp_path):
    entries = saved["adam"] | WRONG[name](saved["adam"])
    np.savez(tmp_path / "run.npz", **{k: row for k, row in entries.items() if row is not None})
    averaged = run()
    before = parts(averaged)
    with pytest.raises(ArgumentError):
        averaged.load(tmp_path / "run.npz")
    assert parts(averaged) == before
    averaged.fit(1, progress=False)
    assert len(averaged.history) == 1


@pytest.mark.parametrize(
    "weights", [lambda: array(np.zeros(1 << 25, np.float32)), lambda: claiming((1 << 37,))]
)
def test_a_state_takes_memory_for_what_the_file_holds_alone(weights, tmp_path):
    texts = {name: array("{}") for name in ("settings", "history", "mechanism")}
    path = zipped(tmp_path / "run.npz", zipfile.ZIP_DEFLATED, weights=weights(), **texts)

    def refused() -> None:
        with pytest.raises(ArgumentError):
            Checkpoint.read(path)

    assert peak(refused) < LARGE // 4


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_state_that_was_written_is_taken(optimizer, saved, tmp_path):
    np.savez(tmp_path / "run.npz", **saved[optimizer])
    averaged = run(optimizer)
    averaged.load(tmp_path / "run.npz")
    assert len(averaged.history) == 2
    averaged.fit(1, progress=False)


def test_a_state_after_rounds_that_all_failed_has_nothing_of_the_optimizer(tmp_path):
    gone = [DropOut(client, "ready") for client in range(4)]
    failing = run(on_failure="skip", drop_outs=lambda number: gone)
    failing.fit(1, progress=False)
    failing.save(tmp_path / "run.npz")
    run().load(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz") as file:
        entries = dict(file)
    np.savez(tmp_path / "run.npz", **entries, **{"optimizer.direction": np.zeros(SIZE)})
    with pytest.raises(ArgumentError) as caught:
        run().load(tmp_path / "run.npz")
    assert caught.value.argument == "optimizer"


def test_a_clip_that_does_not_adapt_is_the_mechanisms(tmp_path):
    averaged = run(adaptive=False)
    averaged.fit(1, progress=False)
    averaged.save(tmp_path / "run.npz")
    run(adaptive=False).load(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz") as file:
        entries = dict(file)
    np.savez(tmp_path / "run.npz", **entries | {"mechanism": mechanism(entries, clip=2 * CLIP)})
    with pytest.raises(ArgumentError) as caught:
        run(adaptive=False).load(tmp_path / "run.npz")
    assert caught.value.argument == "clip"
