"""The command `pea fl`: its options, and a run from them to its report."""

import typer

from extensions.cli import console
from extensions.cli.checkpoints import resume_hint
from extensions.cli.config_file import ConfigFile
from fl.cli import options
from fl.cli.building import run_of, settings_of
from fl.cli.keeping import check_files, interruptible, left, save_model
from fl.cli.mechanisms import protection
from fl.cli.report import record, summary


def run(
    context: typer.Context,
    aggregator: options.Aggregator = None,
    mechanism: options.Mechanism = "none",
    clients: options.Clients = 100,
    client_fraction: options.ClientFraction = 0.1,
    rounds: options.Rounds = 10,
    local_epochs: options.LocalEpochs = 5,
    batch_size: options.BatchSize = 10,
    lr: options.Lr = 0.1,
    exchange: options.Exchange = "delta",
    weighting: options.Weighting = None,
    on_failure: options.OnFailure = "raise",
    workers: options.Workers = 1,
    seed: options.Seed = 0,
    config_file: ConfigFile = None,
    data: options.Data = "digits",
    data_dir: options.DataDir = None,
    download: options.Download = False,
    label: options.Label = None,
    class_names: options.ClassNames = None,
    partition: options.Partition = "iid",
    alpha: options.Alpha = None,
    model: options.Model = "mlp",
    chains: options.Chains = None,
    edges: options.Edges = None,
    time_limit: options.TimeLimit = None,
    threshold: options.Threshold = None,
    key_bits: options.KeyBits = None,
    no_packing: options.NoPacking = False,
    insecure_small_key: options.SmallKey = False,
    ring_bits: options.RingBits = None,
    frac_bits: options.FracBits = None,
    range: options.Range = None,
    saturation: options.Saturation = None,
    stage_timeout: options.StageTimeout = 60.0,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    clip: options.Clip = None,
    noise: options.Noise = None,
    noise_multiplier: options.NoiseMultiplier = None,
    sampling: options.Sampling = None,
    adaptive_clipping: options.AdaptiveClipping = None,
    count_noise: options.CountNoise = None,
    sign_k: options.SignK = None,
    sign_eps: options.SignEps = None,
    sign_thr_ratio: options.SignThrRatio = None,
    sign_global_lr: options.SignGlobalLr = None,
    sign_dim_out: options.SignDimOut = None,
    drop_out: options.DropOut = 0.0,
    delay_ms: options.DelayMs = 0.0,
    mbit: options.Mbit = None,
    training_seconds: options.TrainingSeconds = 0.0,
    timeout: options.Timeout = 600.0,
    evaluate_every: options.EvaluateEvery = 1,
    json_out: options.Json = None,
    save: options.Save = None,
    checkpoint: options.Checkpoint = None,
    resume: options.Resume = False,
) -> None:
    """Train one model by federated averaging over simulated clients, and count what it costs.

    All parties are in this process: it is for experiments, not for a deployment.
    """
    check_files(checkpoint, resume, save)
    federated, test = run_of(context.params)
    settings = settings_of(context.params, federated)
    remaining = left(federated, checkpoint, resume, rounds)
    console.prepare(json_out, None)
    if aggregator == "plain":
        console.notice("--aggregator plain: insecure, the server reads every client's update.")
    if insecure_small_key:
        console.notice("--insecure-small-key: the key can be broken.")
    with interruptible(), resume_hint(checkpoint):
        federated.fit(remaining, test, evaluate_every=evaluate_every, checkpoint=checkpoint)
    save_model(federated.model, save)
    shown = summary(
        federated,
        {name: settings[name] for name in ("aggregator", "mechanism", "data", "model")},
        delta,
        protection(mechanism, federated.mechanism),
    )
    console.show(shown)
    if json_out is not None:
        console.write(record(federated, shown, settings), json_out)
