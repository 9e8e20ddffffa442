"""What each recorded result shows, which command makes it, and what its figures show."""

import re
from dataclasses import replace

from benchmarks.pages.entries import (
    ACCOUNTING,
    ACCURACY,
    FEDERATED,
    NOISE,
    OTHERS,
    PARTS,
    ROOTS,
    STEP,
    TRAINING,
    Chart,
    Entry,
)

_RUN = "python -m benchmarks"
_ACCURACY = f"{_RUN} accuracy --data {{data}} --seeds {{seeds}} --experiment"
_PAILLIER = f"{_RUN} paillier --data-dir MNIST"
_ROUNDS_TO = "Accuracy on MNIST, and the rounds to it, by model, parts of the clients and method."
_CURVES = "Accuracy against rounds by method, one panel for each model and kind of parts."
_AT_RATE = r"-(?P<model>mlp|cnn)-(?P<rounds>\d+)-rounds-(?P<lr>[\d.]+)-lr"
_BARS = "Accuracy of each row with its standard deviation; a tick where the paper has a figure."


def _both(entry: Entry) -> tuple[Entry, Entry]:
    """Returns the entry of a result of the usual size, and of the same at full size."""
    return entry, replace(
        entry,
        pattern=f"{entry.pattern}-full",
        title=f"{entry.title}, full size",
        command=f"{entry.command} --full",
    )


CATALOGUE = (
    Entry(
        pattern="inverse-sqrt-error",
        part=ROOTS,
        title="Error of 1/sqrt(x)",
        shows="How far 1/sqrt(x) is from the true value on either side, by host and method.",
        command=f"{_RUN} inverse-sqrt-error",
        figures={
            "": "Approximate minus exact 1/sqrt(x) against x, one curve a method, linear axes.",
            "logarithmic": "Worst relative error on either side against log x, one panel a method.",
        },
    ),
    Entry(
        pattern=r"inverse-sqrt-runtime-(?P<network>\w+)",
        part=ROOTS,
        title="Time of 1/sqrt(x), {network}",
        shows="Rounds, bytes and milliseconds of 1/sqrt(x) by batch, beside the paper's.",
        command=f"{_RUN} inverse-sqrt-runtime --network {{network}}",
        chart=Chart(
            labels=("host", "method"),
            values={"ms, 1": "", "ms, 128": ""},
            logarithmic=("ms, 1", "ms, 128"),
        ),
        figures={"": "Median milliseconds of one element and of 128, by host and method."},
    ),
    Entry(
        pattern=r"dpsgd-step-(?P<parties>\d+)-parties",
        part=STEP,
        title="Plain SGD, DPSGD, and gradients materialised",
        shows="What one step of a linear model costs in each host: rounds, bytes and time.",
        command=f"{_RUN} dpsgd-step",
        chart=Chart(
            labels=("host", "step"),
            values={"MB/party": "", "median ms": ""},
            logarithmic=("MB/party", "median ms"),
        ),
        figures={"": "Megabytes a party and median milliseconds of one step, by host and step."},
    ),
    Entry(
        pattern="dpsgd-models",
        part=STEP,
        title="Models with hidden layers",
        shows="What a step of LeNet-5, a CNN and an MLP costs in each host, beside plain SGD.",
        command=f"{_RUN} dpsgd-models",
    ),
    Entry(
        pattern="dpsgd-models-accuracy",
        part=STEP,
        title="Models with hidden layers, with the same seeds in the clear",
        shows="How far sharing moves accuracy and weights of a LeNet-5, a CNN and an MLP.",
        command=f"{_RUN} dpsgd-models --accuracy",
    ),
    Entry(
        pattern="dpsgd-models-trajectory",
        part=STEP,
        title="A CNN's run, step by step beside the clear",
        shows="How far a run on shares is from one in the clear, by the same coins and by others.",
        command=f"{_RUN} dpsgd-models --trajectory",
    ),
    Entry(
        pattern="first-step",
        part=STEP,
        title="A session on ABY3 is compiled once",
        shows="Nodes and CPU time of a model's first step, and of what follows with other rates.",
        command=f"{_RUN} first-step",
    ),
    Entry(
        pattern="dpsgd-scaling",
        part=STEP,
        title="How a step grows",
        shows="Exponents of bytes and time when batch, features, classes or parties alone change.",
        command=f"{_RUN} dpsgd-scaling",
        figures={
            "": "Bytes and time of a step against each factor, by host and step, logarithmic axes."
        },
    ),
    Entry(
        pattern="dpsgd-law",
        part=STEP,
        title="A step's bytes as a law",
        shows="Bytes a party as a sum of products of batch B, features F and classes K, by host.",
        command=f"{_RUN} dpsgd-scaling",
    ),
    Entry(
        pattern="dpsgd-law-parties",
        part=STEP,
        title="A step's bytes by the number of parties",
        shows="Bytes a party of CrypTen as a law in the number of parties, by kind of step.",
        command=f"{_RUN} dpsgd-scaling",
    ),
    Entry(
        pattern=r"losses-(?P<parties>\d+)-parties",
        part=STEP,
        title="Cost of the losses",
        shows="Sigmoid, softmax and the host's own softmax: alone, and within a step of DPSGD.",
        command=f"{_RUN} losses",
        chart=Chart(
            labels=("host", "loss"),
            values={"rounds of a step": "", "ms of a step": ""},
            logarithmic=("rounds of a step", "ms of a step"),
        ),
        figures={"": "Rounds and median milliseconds of a step with each loss, by host."},
    ),
    Entry(
        pattern=r"providers-(?P<parties>\d+)-parties",
        part=STEP,
        title="Who deals correlated randomness",
        shows="Time, rounds, bytes by role and memory with each provider, for two kinds of work.",
        command=f"{_RUN} providers",
        chart=Chart(
            labels=("work", "provider"),
            values={"median ms": "", "MB last party": ""},
            logarithmic=("median ms", "MB last party"),
        ),
        figures={"": "Median milliseconds and the last party's megabytes, by work and provider."},
    ),
    Entry(
        pattern="pairwise-tools",
        part=STEP,
        title="Products and transfers of two parties",
        shows="Bytes and seconds of what parties make tuples of, and of products of own words.",
        command=f"{_RUN} pairwise",
    ),
    Entry(
        pattern="noise-statistics",
        part=NOISE,
        title="Noise against its law",
        shows="Moments, tails and a chi-square test of drawn noise beside the exact distribution.",
        command=f"{_RUN} noise",
    ),
    Entry(
        pattern="noise-cost",
        part=NOISE,
        title="Cost of noise",
        shows="Rounds, bytes and time of each way to draw noise, and what a party knows of it.",
        command=f"{_RUN} noise",
    ),
    Entry(
        pattern=r"training-(?P<data>[\w]+)-(?P<parties>\d+)-parties",
        part=TRAINING,
        title="Training on {data}, {parties} parties",
        shows="Accuracy, epsilon, rounds, bytes and time of whole runs, secure and in plaintext.",
        command=f"{_RUN} dpsgd-train --data {{data}} --parties {{parties}} --seeds {{seeds}}",
        chart=Chart(
            labels=("run",),
            values={"accuracy, %": "standard deviation", "seconds": ""},
            logarithmic=("seconds",),
        ),
        figures={"": "Accuracy with its standard deviation, and seconds, of each kind of run."},
    ),
    Entry(
        pattern=r"accuracy-secure-(?P<backend>[a-z]+)-(?P<data>\w+)",
        part=TRAINING,
        title="Whole secure runs, {data} in {backend}",
        shows="Accuracy, epsilon, rounds, bytes and time of secure runs, by the way they learn.",
        command=f"{_ACCURACY} secure --backend {{backend}}",
        figures={"": "Accuracy at each epsilon against rounds, and against bytes, by way."},
    ),
    Entry(
        pattern="tables",
        part=ACCURACY,
        title="Tables, untuned",
        shows="The area under the ROC curve at epsilon with a schema, and without privacy.",
        command=f"{_RUN} tables --seeds {{seeds}}",
        chart=Chart(
            labels=("table",),
            values={"AUC, not private": "", "AUC at epsilon": "standard deviation"},
        ),
        figures={"": "The area under the ROC curve by table, without privacy and with it."},
    ),
    Entry(
        pattern="defaults",
        part=ACCURACY,
        title="Epsilon and delta alone",
        shows="What `pea train` reaches with nothing else given, beside the best settings known.",
        command=f"{_RUN} defaults",
    ),
    Entry(
        pattern=r"defaults-(?P<backend>crypten|tfe)",
        part=ACCURACY,
        title="Epsilon and delta alone, in {backend}",
        shows="The same of secure runs, with their rounds, bytes and time.",
        command=f"{_RUN} defaults --backend {{backend}} --data digits --data mnist --epsilon 2",
    ),
    Entry(
        pattern="defaults-constant",
        part=ACCURACY,
        title="The learning rate's rule on data sets that nobody had looked at",
        shows="AUC or accuracy by multiple of the constant, on tables chosen before any result.",
        command=f"{_RUN} defaults --data constant",
    ),
    Entry(
        pattern="losses-accuracy",
        part=ACCURACY,
        title="Sigmoid against softmax",
        shows="Accuracy of either loss at epsilon 2, with a rate and a bound chosen for each.",
        command=f"{_RUN} losses",
        chart=Chart(labels=("data", "loss"), values={"accuracy, %": "standard deviation"}),
        figures={"": "Accuracy with its standard deviation, by data and loss."},
    ),
    Entry(
        pattern="optimizers",
        part=ACCURACY,
        title="DPSGD and DPAdam",
        shows="Accuracy of either at epsilon 2 with equal noise, at a rate chosen for each.",
        command=f"{_RUN} optimizers",
        figures={"": "Mean accuracy on held-out digits by step, one panel a model."},
    ),
    Entry(
        pattern=r"accuracy-features-(?P<data>\w+)",
        part=ACCURACY,
        title="Features, {data}",
        shows="What features that owners take beforehand bring, with privacy and without.",
        command=f"{_ACCURACY} features",
        figures={"": _BARS},
    ),
    Entry(
        pattern=r"accuracy-initialization-(?P<data>\w+)",
        part=ACCURACY,
        title="Local initialisation, {data}",
        shows="Joint training from local models, from random ones and from zero.",
        command=f"{_ACCURACY} initialization",
        figures={"": "Accuracy over joint iterations by start, with a band of one deviation."},
    ),
    Entry(
        pattern=r"accuracy-aggregation-(?P<data>\w+)",
        part=ACCURACY,
        title="Aggregation of local models, {data}",
        shows="Averaging and choice by accuracy, for even and for label-sorted parts.",
        command=f"{_ACCURACY} aggregation",
        figures={"": _BARS},
    ),
    Entry(
        pattern=r"accuracy-federated-(?P<data>\w+)",
        part=ACCURACY,
        title="Beside federated averaging, {data}",
        shows="Secure joint training beside federated averaging with noise, and parties alone.",
        command=f"{_ACCURACY} federated",
        figures={"": _BARS},
    ),
    Entry(
        pattern=r"accuracy-ways-(?P<data>\w+)",
        part=ACCURACY,
        title="Other ways to the same guarantee, {data}",
        shows="Whitened features, cheap losses, open iterates and sufficient statistics.",
        command=f"{_ACCURACY} ways",
        figures={"": _BARS},
    ),
    Entry(
        pattern=r"accuracy-accountant-(?P<data>\w+)",
        part=ACCURACY,
        title="Accuracy by accountant, {data}",
        shows="What epsilon the accountant and the paper's formula claim for the same noise.",
        command=f"{_ACCURACY} accountant",
        figures={"": "Accuracy against the epsilon claimed, by the accountant and by the paper."},
    ),
    Entry(
        pattern=r"accuracy-tuning-(?P<data>\w+)",
        part=ACCURACY,
        title="Neighbours of the tuned settings, {data}",
        shows="Accuracy on records set aside from training, around the settings that were chosen.",
        command=f"{_ACCURACY} tuning",
    ),
    Entry(
        pattern="paillier-cnn",
        part=FEDERATED,
        title="Paillier on a model's update",
        shows="Size and time of one update of a CNN, packed, and value by value with phe.",
        command=_PAILLIER,
        chart=Chart(
            labels=("key bits", "library"),
            values={"encryption, s": "", "decryption, s": ""},
            logarithmic=("encryption, s", "decryption, s"),
        ),
        figures={"": "Seconds of encryption and decryption, by key and library."},
    ),
    Entry(
        pattern="paillier-training",
        part=FEDERATED,
        title="Federated averaging under Paillier",
        shows="Accuracy, time and bytes of a round, encrypted and in plaintext.",
        command=_PAILLIER,
    ),
    Entry(
        pattern="paillier-operations",
        part=FEDERATED,
        title="Paillier's operations",
        shows="Milliseconds of each operation on integers, beside phe's on the same key.",
        command=_PAILLIER,
    ),
    Entry(
        pattern="pencil-training",
        part=FEDERATED,
        title="Pencil's training",
        shows="Samples an hour and MB a sample beside the paper's Table III, and an epsilon.",
        command=f"{_RUN} pencil",
    ),
    Entry(
        pattern=r"pencil-accuracy-(?P<data>\w+)",
        part=FEDERATED,
        title="What Pencil's model learns, {data}",
        shows="Accuracy by round, beside the same training in the clear, private and not.",
        command=f"{_RUN} pencil --accuracy --data {{data}}",
    ),
    Entry(
        pattern="pencil-attack",
        part=FEDERATED,
        title="Masks that Pencil uses again",
        shows="How much of a model its Algorithm 3 tells one data owner, and in how many seconds.",
        command=f"{_RUN} pencil --attack",
    ),
    Entry(
        pattern=r"fl-leakage-(?P<data>\w+)",
        part=FEDERATED,
        title="Deep leakage from one update, {data}",
        shows="What an attack rebuilds of a record from what each party or coalition sees of its "
        "update.",
        command=f"{_RUN} fl-leakage --data {{data}}",
        figures={"": "Matching losses, the attacked images and what was rebuilt, view by view."},
    ),
    Entry(
        pattern=r"fl-leak-noise-(?P<data>\w+)",
        part=FEDERATED,
        title="Deep leakage by the variance of noise, {data}",
        shows="What an attack rebuilds of a record from an update with Gaussian or Laplace noise.",
        command=f"{_RUN} fl-leakage --noise --data {{data}}",
        figures={"": "Matching losses, the attacked images and what was rebuilt, by variance."},
    ),
    Entry(
        pattern="fl-chain-(time|lists|order|exact)",
        part=FEDERATED,
        title="Statements on chains, measured",
        shows="Who takes part by Time_limit and lists of neighbours, what parties compute, and how "
        "far a chain's models are from FedAvg's.",
        command=f"{_RUN} fl-chain",
    ),
    Entry(
        pattern="fl-scale(-.*)?",
        part=FEDERATED,
        title="Secure aggregation beside Flower's SecAgg+",
        shows="Processor time and bytes of a round by clients, on graphs of the same degree.",
        command=f"{_RUN} fl-scale --flower-python PYTHON",
    ),
    Entry(
        pattern="fl-flower-costs",
        part=FEDERATED,
        title="A round on Flower, beside its SecAgg+ and its FedAvg",
        shows="Bytes and processor time of client and server by clients and size of the model.",
        command=f"{_RUN} fl-flower --part costs --flower-python PYTHON",
    ),
    Entry(
        pattern="fl-flower-lost",
        part=FEDERATED,
        title="Clients lost in a round on Flower",
        shows="Who is in the sum where clients no longer answer from a stage on, by way.",
        command=f"{_RUN} fl-flower --part lost --flower-python PYTHON",
    ),
    Entry(
        pattern=r"fl-flower-processes-(?P<nodes>\d+)",
        part=FEDERATED,
        title="A round on a SuperLink and {nodes} SuperNodes",
        shows="Seconds of a round, and processor time of all processes, by way and size.",
        command=f"{_RUN} fl-flower --part processes --clients {{nodes}} --flower-python PYTHON",
    ),
    Entry(
        pattern="fl-flower-mnist",
        part=FEDERATED,
        title="MNIST on Flower, beside its FedAvg",
        shows="Accuracy by round of masked averaging and of Flower's plain one.",
        command=f"{_RUN} fl-flower --part mnist --flower-python PYTHON",
    ),
    Entry(
        pattern="fl-budgets-(?P<server>curious|lying)-.*",
        part=FEDERATED,
        title="A large round of secure aggregation, {server} server",
        shows="Processor time and bytes of clients, and time and memory of the server's process.",
        command=f"{_RUN} fl-budgets --against {{server}}",
    ),
    Entry(
        pattern="fl-accuracy-full(-.*)?",
        part=FEDERATED,
        title="FedAvg, chain and Laplace noise, at the papers' sizes",
        shows=_ROUNDS_TO,
        command=f"{_RUN} fl-accuracy --full",
        figures={"": _CURVES},
    ),
    Entry(
        pattern=rf"fl-accuracy(?!{_AT_RATE}$)(-.*)?",
        part=FEDERATED,
        title="FedAvg, chain and Laplace noise",
        shows=_ROUNDS_TO,
        command=f"{_RUN} fl-accuracy",
        figures={"": _CURVES},
    ),
    Entry(
        pattern=f"fl-accuracy{_AT_RATE}",
        part=FEDERATED,
        title="FedAvg, chain and Laplace noise, learning rate {lr}",
        shows=_ROUNDS_TO,
        command=f"{_RUN} fl-accuracy --model {{model}} --rounds {{rounds}} --lr {{lr}}",
        figures={"": _CURVES},
    ),
    Entry(
        pattern="fl-latency(-.*)?",
        part=FEDERATED,
        title="Latency of a round",
        shows="Seconds on a virtual clock by scheme and number of clients, beside the formulas.",
        command=f"{_RUN} fl-latency",
        figures={"": "Seconds of a round against clients, by scheme, one panel a kind of links."},
    ),
    Entry(
        pattern="fl-cpu(-.*)?",
        part=FEDERATED,
        title="Processor time of a round",
        shows="What all parties of an aggregation compute and send, by scheme and clients.",
        command=f"{_RUN} fl-latency",
    ),
    *_both(
        Entry(
            pattern="fl-dp-sigma",
            part=FEDERATED,
            title="Federated DP by noise",
            shows="Accuracy and exact epsilon by noise multiplier, for populations of two sizes.",
            command=f"{_RUN} fl-dp --part sigma --seeds {{seeds}}",
            figures={"": "Accuracy by noise multiplier, with a band of one deviation."},
        )
    ),
    *_both(
        Entry(
            pattern="fl-dp-clip",
            part=FEDERATED,
            title="Federated DP by clipping",
            shows="Accuracy by the bound of updates at one noise multiplier, and by adaptive ones.",
            command=f"{_RUN} fl-dp --part clip --seeds {{seeds}}",
            figures={"": "Accuracy by bound, adaptive ones by where they ended."},
        )
    ),
    *_both(
        Entry(
            pattern="fl-dp-local",
            part=FEDERATED,
            title="Noise of the clients",
            shows="Accuracy where every client adds noise itself and trusts nobody.",
            command=f"{_RUN} fl-dp --part local --seeds {{seeds}}",
            figures={"": "Accuracy by epsilon of a whole run, beside noise that the server adds."},
        )
    ),
    *_both(
        Entry(
            pattern="fl-dp-crowd",
            part=FEDERATED,
            title="Noise of the clients by their number",
            shows="Accuracy where every client adds noise itself, by how many are in a round.",
            command=f"{_RUN} fl-dp --part crowd --seeds {{seeds}}",
            figures={"": "Accuracy by clients in a round, with noise and without."},
        )
    ),
    Entry(
        pattern="fl-dp-gaussian",
        part=FEDERATED,
        title="The classical Gaussian formula",
        shows="The noise of one release by the classical formula and the analytic mechanism.",
        command=f"{_RUN} fl-dp --part gaussian",
        chart=Chart(
            labels=("epsilon",),
            values={"sigma, classical": "", "sigma, analytic": ""},
            logarithmic=("sigma, classical", "sigma, analytic"),
        ),
        figures={"": "Noise multipliers of one release by epsilon, classical and analytic."},
    ),
    *_both(
        Entry(
            pattern="fl-signds-epsilon",
            part=FEDERATED,
            title="SignDS by epsilon",
            shows="Accuracy and epsilon of SignDS, beside LocalDP and federated averaging.",
            command=f"{_RUN} fl-signds --part epsilon --seeds {{seeds}}",
            figures={"": "Accuracy over rounds by mechanism; SignDS at sign_k = 0.05."},
        )
    ),
    *_both(
        Entry(
            pattern="fl-signds-parameters",
            part=FEDERATED,
            title="SignDS by its parameters",
            shows="Accuracy by the number of dimensions sent and by the constant sent for them.",
            command=f"{_RUN} fl-signds --part parameters --seeds {{seeds}}",
            figures={"": "Accuracy over rounds, one parameter changed at a time."},
        )
    ),
    Entry(
        pattern=r"fl-signds-size-(?P<model>\w+)(-.*)?",
        part=FEDERATED,
        title="SignDS beside local noise by dimensions, {model}",
        shows="Accuracy with a selection and with noise of each client, by the size of the model.",
        command=f"{_RUN} fl-signds --part size",
        figures={"": "Accuracy by round, by mechanism and epsilon."},
    ),
    Entry(
        pattern="fl-signds-bytes",
        part=FEDERATED,
        title="Bytes of SignDS",
        shows="What a client sends of an update of SignDS, and what its dimensions alone would be.",
        command=f"{_RUN} fl-signds --part bytes",
    ),
    Entry(
        pattern=r"audit-epsilon-(?P<epsilon>[\d.]+)",
        part=ACCOUNTING,
        title="Attacks on released models that claim epsilon {epsilon}",
        shows="How much epsilon attacks on one run show at least, beside the claimed one.",
        command=f"{_RUN} audit --epsilon {{epsilon}} --seeds {{seeds}}",
    ),
    Entry(
        pattern="accounting",
        part=ACCOUNTING,
        title="The accountant and the paper's formula",
        shows="Noise multipliers for a target epsilon by three ways of accounting.",
        command=f"{_RUN} accounting",
    ),
)


def find(name: str) -> tuple[Entry, dict[str, str]]:
    """Returns a result's entry and its pattern's groups; one of the bare name if none is known."""
    for entry in CATALOGUE:
        match = re.fullmatch(entry.pattern, name)
        if match:
            return entry, match.groupdict()
    plain = Entry(
        pattern="", part=OTHERS, title=name.replace("-", " "), shows="Not described.", command=""
    )
    return plain, {}


def order(entry: Entry) -> tuple[int, int]:
    """Returns where its results stand: by part, then as listed here; the unknown last."""
    listed = CATALOGUE.index(entry) if entry in CATALOGUE else len(CATALOGUE)
    return PARTS.index(entry.part), listed
