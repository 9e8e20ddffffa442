"""The options of `pea fl`; those of aggregators, mechanisms and optimizers are their arguments."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from extensions.options import Kinds, Option, Options, Writes
from extensions.options.kinds import Chosen
from fl.round.choices import Exchange, Keep, OnFailure, Weighting

AGGREGATORS = Kinds(
    {
        "masked": "fl:MaskedAggregator",
        "paillier": "fl:PaillierAggregator",
        "chain": "fl:ChainAggregator",
        "plain": "fl:PlainAggregator",
        "robust": "fl:RobustAggregator",
    }
)
MECHANISMS = Kinds(
    {
        "none": "fl:protocols.Mechanism",
        "local-dp": "fl:LocalDP",
        "central-dp": "fl:CentralDP",
        "distributed-dp": "fl:DistributedDP",
        "sign-ds": "fl:SignDS",
        "record-dp": "fl:RecordDP",
    },
    usual="none",
    without=("lr", "min_clients", "frac_bits"),
)
SERVER_OPTIMIZERS = Kinds(
    {
        "fedavg": "fl:protocols.ServerOptimizer",
        "fedavgm": "fl:FedAvgM",
        "fedadam": "fl:FedAdam",
        "fedyogi": "fl:FedYogi",
        "fedadagrad": "fl:FedAdagrad",
    },
    usual="fedavg",
)


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a run does, round by round.

    Attributes:
        clients: number of clients.
        client_fraction: share of the clients to select for a round (default 0.1, or as many as the
            aggregator needs).
        rounds: number of rounds in all, also with --resume.
        local_epochs: number of passes of a client over its records in a round.
        batch_size: number of records in a local step; 0: all of the client's.
        lr: learning rate of the clients.
        server_optimizer: what the server does with the mean update: fedavg adds it to the model,
            fedavgm with momentum; or fedadam, fedyogi or fedadagrad.
        exchange: what clients send: their change (delta), or their weights (weights).
        weighting: weights of the mean: records or equal (default: records, but equal where a
            mechanism needs it).
        on_failure: what to do if a round fails: end the run (raise), or change nothing (skip).
        workers: number of processes that train clients; the result is the same.
        seed: seed of data, partition, model, selection, batches and drop-outs; public.
    """

    clients: int = 100
    client_fraction: float | None = None
    rounds: int = 10
    local_epochs: int = 5
    batch_size: int = 10
    lr: float = 0.1
    server_optimizer: Annotated[Chosen, SERVER_OPTIMIZERS]
    exchange: Exchange = "delta"
    weighting: Weighting | None = None
    on_failure: OnFailure = "raise"
    workers: int = 1
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Records:
    """What is learned from, and by which model.

    Attributes:
        data: one of digits (embedded), mnist, cifar10, imdb, csv:PATH, parquet:PATH or npz:PATH.
        data_dir: folder with the files of mnist, cifar10 or imdb; by default the one of this name
            in the folder PEA_DATA, or in the user's cache.
        download: download missing files of the data set from its publisher.
        label: column of a table's labels.
        class_names: labels of a table in order, as negative,positive.
        partition: how to share out records: iid, shards (two runs sorted by label a client),
            dirichlet, or quantity (sizes alone are uneven).
        alpha: parameter of dirichlet and quantity (default 0.5); a smaller one is less even.
        model: kind of model: mlp or logistic; cnn or cnn-mnist for MNIST; lenet for 32 x 32 pixels;
            embedding for texts.
    """

    data: str = "digits"
    data_dir: Path | None = None
    download: bool = False
    label: str | None = None
    class_names: str | None = None
    partition: str = "iid"
    alpha: float | None = None
    model: str = "mlp"


@dataclass(frozen=True, kw_only=True)
class Protection:
    """How the server gets the mean of the updates, and what is done to them and to it.

    Attributes:
        aggregator: one of masked, paillier, chain, or plain (insecure). There is no default.
        mechanism: differential privacy: none, local-dp, central-dp, distributed-dp, sign-ds or
            record-dp.
        epsilon: target epsilon of all rounds, instead of a noise multiplier; for central-dp and
            distributed-dp.
        delta: delta of all rounds together, also in the report.
    """

    aggregator: Annotated[Chosen, AGGREGATORS]
    mechanism: Annotated[Chosen, MECHANISMS]
    epsilon: float | None = None
    delta: float | None = None


@dataclass(frozen=True, kw_only=True)
class VirtualNetwork:
    """What parties and links take on the virtual clock.

    Attributes:
        drop_out: probability that a selected client vanishes, at a random stage.
        delay_ms: one-way delay of every link.
        mbit: megabits a second of every link (default: no limit).
        training_seconds: virtual seconds that a client trains.
        timeout: virtual seconds that clients have to get the model and train.
        transcript: what to keep of the last round's messages: none, sizes, or all. The report of
            who learned what needs all.
    """

    drop_out: float = 0.0
    delay_ms: float = 0.0
    mbit: float | None = None
    training_seconds: float = 0.0
    timeout: float = 600.0
    transcript: Keep = "all"


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run leaves.

    Attributes:
        evaluate_every: number of rounds from one evaluation to the next.
        json_out: write report, settings and all rounds here.
        csv: write a row of numbers for each round here.
        tensorboard: folder for TensorBoard's curves.
        save: write the model here: .pt (state_dict) or .npz.
        checkpoint: file in which to keep the run after every round.
        resume: continue the run of --checkpoint.
    """

    evaluate_every: int = 1
    json_out: Annotated[Path | None, Option(name="json"), Writes()] = None
    csv: Annotated[Path | None, Writes()] = None
    tensorboard: Path | None = None
    save: Annotated[Path | None, Writes()] = None
    checkpoint: Annotated[Path | None, Writes()] = None
    resume: bool = False


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """All options of a run: what it does, with which records, how, and what it leaves."""

    training: Annotated[Training, Options("Training")]
    records: Annotated[Records, Options("Records and model")] = field(default_factory=Records)
    protection: Annotated[Protection, Options("Protection")]
    network: Annotated[VirtualNetwork, Options("Virtual network")] = field(
        default_factory=VirtualNetwork
    )
    result: Annotated[Result, Options("Result")] = field(default_factory=Result)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yields name and value of each option, and of each argument of what was chosen."""
        for group in vars(self).values():
            for name, value in vars(group).items():
                if isinstance(value, Chosen):
                    yield name, value.name
                    yield from {**value.usual, **value.given}.items()
                else:
                    yield name, value
