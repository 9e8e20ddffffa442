"""The options of `pea fl`. Those of one aggregator or mechanism alone are None unless given."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from extensions.options import Option, Options, Writes
from fl.round.choices import Exchange, Keep, OnFailure, Weighting


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
        server_optimizer: optimizer that the server applies to the mean update: none, fedavgm,
            fedadam, fedyogi or fedadagrad.
        server_lr: the optimizer's learning rate (default 1; adaptive ones: 0.01).
        exchange: what clients send: the change (delta), or weights.
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
    server_optimizer: str = "none"
    server_lr: float | None = None
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
        partition: how to share out records: iid, shards (two runs sorted by label a client) or
            dirichlet.
        alpha: parameter of dirichlet (default 0.5); a smaller one is less even.
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
class Aggregation:
    """How the server gets the mean of the updates.

    Attributes:
        aggregator: one of masked, paillier, chain, or plain (insecure). There is no default.
        chains: with chain: number of chains (default 1).
        edges: with chain: edge nodes that merge chains (default 0).
        time_limit: with chain: virtual seconds until a token goes back (default 600).
        led_by: with chain: who draws masks and follows tokens: server (default), or client, one of
            those in a round.
        threshold: with masked: share of clients who must stay (default 2/3).
        colluders: with masked: number of clients that may side with the server (default 0).
        graph: with masked: clients share keys with a few others where that saves a third, against a
            server that is curious, or lying (default: with all).
        corrupt: with --graph: share of clients who may side with the server (default 0.1).
        dropping: with --graph: share of clients who may drop out (default 0.2).
        lanes: with masked: values in one word of the ring (default 1).
        key_bits: with paillier: bits of the key (default 2048).
        no_packing: with paillier: encrypt one value in a ciphertext.
        insecure_small_key: with paillier: allow keys below 2048 bits: INSECURE.
        hide_model: with paillier: the server sees the model and the mean only as ciphertexts.
        model_range: with --hide-model: how far a parameter may move in all (default 64).
        ring_bits: with chain, masked: 32 or 64 bits a value (default 64).
        frac_bits: with all but plain: fractional bits (default 24; paillier: 16).
        range: with all but plain: bound of values (default 16; paillier: 4).
        saturation: with all but plain: values beyond are an error (default), or clip.
        stage_timeout: virtual seconds that parties wait in a stage.
    """

    aggregator: str | None = None
    chains: int | None = None
    edges: int | None = None
    time_limit: float | None = None
    led_by: str | None = None
    threshold: float | None = None
    colluders: int | None = None
    graph: str | None = None
    corrupt: float | None = None
    dropping: float | None = None
    lanes: int | None = None
    key_bits: int | None = None
    no_packing: bool = False
    insecure_small_key: bool = False
    hide_model: bool = False
    model_range: float | None = None
    ring_bits: int | None = None
    frac_bits: int | None = None
    range: float | None = None
    saturation: str | None = None
    stage_timeout: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """What is done to updates and to their mean.

    Attributes:
        mechanism: one of none, local-dp, central-dp, distributed-dp, sign-ds or record-dp:
            differential privacy.
        epsilon: with local-dp: of ONE update; with central-dp and distributed-dp: of all rounds,
            instead of the noise.
        delta: with local-dp: of one update; with all: of all rounds together, in the report.
        clip: bound of an update's norm, with record-dp of a record's gradient (default 1).
        noise: with local-dp: gaussian (default) or laplace.
        noise_multiplier: with central-dp, distributed-dp and record-dp: sigma / clip.
        sampling: with central-dp: poisson (default) or fixed.
        adaptive_clipping: with central-dp: quantile of norms that --clip moves to, such as 0.5.
        count_noise: noise of its count (default: a twentieth of a round's clients).
        sign_k: with sign-ds: share of dimensions on top (default 0.01).
        sign_eps: with sign-ds: epsilon of ONE update (default 100).
        sign_thr_ratio: with sign-ds: least share from the top (default 0.6).
        sign_global_lr: with sign-ds: what is sent (default 1).
        sign_dim_out: with sign-ds: dimensions sent (default 0: as fits).
        local_steps: with record-dp: steps of DPSGD in a round, instead of epochs (default 10).
        sample_rate: with record-dp: of each record in a step (default 0.1).
    """

    mechanism: str = "none"
    epsilon: float | None = None
    delta: float | None = None
    clip: float | None = None
    noise: str | None = None
    noise_multiplier: float | None = None
    sampling: str | None = None
    adaptive_clipping: float | None = None
    count_noise: float | None = None
    sign_k: float | None = None
    sign_eps: float | None = None
    sign_thr_ratio: float | None = None
    sign_global_lr: float | None = None
    sign_dim_out: int | None = None
    local_steps: int | None = None
    sample_rate: float | None = None


@dataclass(frozen=True, kw_only=True)
class VirtualNetwork:
    """What parties and links take on the virtual clock.

    Attributes:
        drop_out: probability that a selected client vanishes, at a random stage.
        delay_ms: one-way delay of every link.
        mbit: megabits a second of every link (default: no limit).
        training_seconds: virtual seconds that a client trains.
        timeout: virtual seconds that clients have to get the model and train.
        transcript: kept of the last round's messages: none, sizes, or all, which the report of who
            learned what takes.
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
        evaluate_every: rounds from one evaluation to the next.
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

    training: Annotated[Training, Options("Training")] = field(default_factory=Training)
    records: Annotated[Records, Options("Records and model")] = field(default_factory=Records)
    aggregation: Annotated[Aggregation, Options("Aggregator")] = field(default_factory=Aggregation)
    privacy: Annotated[Privacy, Options("Mechanism")] = field(default_factory=Privacy)
    network: Annotated[VirtualNetwork, Options("Virtual network")] = field(
        default_factory=VirtualNetwork
    )
    result: Annotated[Result, Options("Result")] = field(default_factory=Result)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yields name and value of each option."""
        for group in vars(self).values():
            yield from vars(group).items()
