"""The options of `pea fl`. Those of one aggregator or mechanism alone are None unless given."""

from pathlib import Path
from typing import Annotated, Any

import typer


def _in(panel: str, text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel)


def _data(text: str, *names: str) -> Any:
    return _in("Records and model", text, *names)


def _aggregator(text: str, *names: str) -> Any:
    return _in("Aggregator", text, *names)


def _mechanism(text: str, *names: str) -> Any:
    return _in("Mechanism", text, *names)


def _network(text: str, *names: str) -> Any:
    return _in("Virtual network", text, *names)


def _result(text: str, *names: str) -> Any:
    return _in("Result", text, *names)


Aggregator = Annotated[
    str | None,
    typer.Option(help="chain, masked, paillier, or plain (insecure). There is no default."),
]
Mechanism = Annotated[
    str, typer.Option(help="none, local-dp, central-dp or sign-ds: differential privacy.")
]
Clients = Annotated[int, typer.Option(help="Number of clients.")]
ClientFraction = Annotated[float, typer.Option(help="Share of them that is selected for a round.")]
Rounds = Annotated[int, typer.Option(help="Rounds in all, also with --resume.")]
LocalEpochs = Annotated[int, typer.Option(help="Passes of a client over its records in a round.")]
BatchSize = Annotated[int, typer.Option(help="Records a local step; 0: all that a client has.")]
Lr = Annotated[float, typer.Option(help="Learning rate of the clients.")]
Exchange = Annotated[str, typer.Option(help="Clients send what changed (delta), or weights.")]
Weighting = Annotated[
    str | None,
    typer.Option(
        help="Of the mean: records or equal (default: records, but equal where a mechanism needs "
        "it)."
    ),
]
OnFailure = Annotated[
    str, typer.Option(help="raise: a round that fails ends the run; skip: it changes nothing.")
]
Workers = Annotated[int, typer.Option(help="Processes that train clients; same result.")]
Seed = Annotated[
    int,
    typer.Option(help="Of data, partition, model, selection, batches and drop-outs; public."),
]

Data = Annotated[
    str, _data("digits (embedded), mnist, cifar10, csv:PATH, parquet:PATH or npz:PATH.")
]
DataDir = Annotated[Path | None, _data("Folder of mnist or cifar10.")]
Download = Annotated[bool, _data("Fetch missing files of --data.", "--download")]
Label = Annotated[str | None, _data("Column of labels, of a table.")]
ClassNames = Annotated[str | None, _data("A table's labels in order: negative,positive.")]
Partition = Annotated[str, _data("iid, shards (two runs sorted by label a client) or dirichlet.")]
Alpha = Annotated[float | None, _data("Of dirichlet (default 0.5): the smaller, the less even.")]
Model = Annotated[
    str, _data("mlp or logistic; cnn or cnn-mnist for MNIST; lenet for 32 x 32 pixels.")
]

Chains = Annotated[int | None, _aggregator("chain: number of chains (default 1).")]
Edges = Annotated[int | None, _aggregator("chain: edge nodes that merge chains (default 0).")]
TimeLimit = Annotated[
    float | None, _aggregator("chain: virtual seconds until a token goes back (default 600).")
]
Threshold = Annotated[
    float | None, _aggregator("masked: share of clients who must stay (default 2/3).")
]
KeyBits = Annotated[int | None, _aggregator("paillier: bits of the key (default 2048).")]
NoPacking = Annotated[bool, _aggregator("paillier: one value a ciphertext.", "--no-packing")]
SmallKey = Annotated[
    bool, _aggregator("paillier: allow keys below 2048 bits: INSECURE.", "--insecure-small-key")
]
RingBits = Annotated[int | None, _aggregator("chain, masked: 32 or 64 bits a value (default 64).")]
FracBits = Annotated[
    int | None, _aggregator("All but plain: fractional bits (default 24; paillier: 16).")
]
Range = Annotated[
    float | None, _aggregator("All but plain: bound of values (default 16; paillier: 4).")
]
Saturation = Annotated[
    str | None, _aggregator("All but plain: values beyond are an error (default), or clip.")
]
StageTimeout = Annotated[float, _aggregator("Virtual seconds that parties wait in a stage.")]

Epsilon = Annotated[
    float | None,
    _mechanism("local-dp: of ONE update. central-dp: of all rounds, instead of the noise."),
]
Delta = Annotated[
    float | None,
    _mechanism("local-dp: of one update. Both: of all rounds together, in the report."),
]
Clip = Annotated[float | None, _mechanism("Bound of an update's norm (default 1).")]
Noise = Annotated[str | None, _mechanism("local-dp: gaussian (default) or laplace.")]
NoiseMultiplier = Annotated[float | None, _mechanism("central-dp: sigma / clip.")]
Sampling = Annotated[str | None, _mechanism("central-dp: poisson (default) or fixed.")]
AdaptiveClipping = Annotated[
    float | None, _mechanism("central-dp: quantile of norms that --clip moves to, such as 0.5.")
]
CountNoise = Annotated[
    float | None, _mechanism("Noise of its count (default: a twentieth of a round's clients).")
]
SignK = Annotated[float | None, _mechanism("sign-ds: share of dimensions on top (default 0.01).")]
SignEps = Annotated[float | None, _mechanism("sign-ds: epsilon of ONE update (default 100).")]
SignThrRatio = Annotated[
    float | None, _mechanism("sign-ds: least share from the top (default 0.6).")
]
SignGlobalLr = Annotated[float | None, _mechanism("sign-ds: what is sent (default 1).")]
SignDimOut = Annotated[int | None, _mechanism("sign-ds: dimensions sent (default 0: as fits).")]

DropOut = Annotated[
    float, _network("Probability with which a selected client vanishes, at a random stage.")
]
DelayMs = Annotated[float, _network("One-way delay of every link.")]
Mbit = Annotated[float | None, _network("Mbit/s of every link (default: no limit).")]
TrainingSeconds = Annotated[float, _network("Virtual seconds that a client trains.")]
Timeout = Annotated[
    float, _network("Virtual seconds that clients have to get the model and train.")
]

EvaluateEvery = Annotated[int, _result("Rounds from one evaluation to the next.")]
Json = Annotated[Path | None, _result("Write report, settings and all rounds here.", "--json")]
Save = Annotated[Path | None, _result("Write the model here: .pt (state_dict) or .npz.")]
Checkpoint = Annotated[Path | None, _result("File in which the run is kept after every round.")]
Resume = Annotated[bool, _result("Go on with the run of --checkpoint.", "--resume")]
