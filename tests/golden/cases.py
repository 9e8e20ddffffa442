"""Runs on the clear host whose results are kept: what each differs in from the first."""

from typing import Any

from extensions.runs.config import CHOSEN

USUAL: dict[str, Any] = {
    "backend": "clear",
    "data": "golden",
    "parties": 3,
    "classes": 3,
    "steps": 3,
    "lr": 1.0,
    "sample_rate": 0.5,
    "max_grad_norm": 0.5,
    "noise_multiplier": 1.0,
    "delta": 0.001,
    "insecure_seed": 7,
}
_TWO = {"records": "two", "classes": 2}
_NUMBER = {"records": "numbers", "classes": 1, "loss": "squared"}
_LEAST = {**_NUMBER, "loss": "least-squares", "max_grad_norm": 0.25}
_MLP = {"model": "mlp:5", "lr": 0.5}
_ADAM = {"optimizer": "adam", "lr": 0.125, "beta2": 0.75}
_IMAGES = {"records": "images", "steps": 1, "lr": 0.25, "max_feature_norm": 1.0}
_OPEN = {"open": "each-step"}
_STATISTICS = {
    "method": "statistics",
    "loss": "least-squares",
    "steps": 1,
    "sample_rate": 1.0,
    "noise_multiplier": 0.5,
}
_WHITEN = {"whiten": True, "noise_multiplier_whiten": 0.5}
_LOCAL = {"noise_multiplier_init": 1.0, "init_steps": 2}
_PERSONS = {"records": "persons", "rows_per_unit": 3}
_NOISY = {"evaluate": "noisy", "count_noise": 4.0, "insecure_seed": 7}
_DESCENT = {"momentum": 0.5, "average": 0.75, "lr_schedule": "linear", "bias_scale": 0.25}

_SMALL_CNN = (
    'layers:[["convolution",{"channels":3,"kernel":5,"stride":3}],["activation",{"function":"tanh"}]'
    ',["largest",{"kernel":2}],["linear",{"outputs":4}],["activation",{"function":"relu"}]]'
)
_RESIDUAL = (
    'layers:[["linear",{"outputs":4}],["residual",{"layers":[["linear",{"outputs":4}],'
    '["activation",{"function":"sigmoid"}]]}],["activation",{"function":"relu"}]]'
)
_AVERAGES = (
    'layers:[["average",{"kernel":4}],["linear",{"outputs":5}],["activation",{"function":"tanh"}]]'
)

CASES: dict[str, dict[str, Any]] = {
    "usual": {},
    "other-seed": {"insecure_seed": 8},
    "no-dp": {"private": False, "noise_multiplier": None, "delta": None, "lr": 4.0},
    "epsilon": {"noise_multiplier": None, "epsilon": 4.0},
    "epsilon-rdp": {"noise_multiplier": None, "epsilon": 4.0, "calibration": "rdp"},
    "chosen": {"noise_multiplier": None, "epsilon": 4.0, "chosen": CHOSEN},
    "chosen-table": {
        **{**_TWO, "chosen": CHOSEN, "epochs": 3.0, "cheap": True},
        **{"noise_multiplier": None, "epsilon": 4.0, "neighbours": "replace"},
    },
    "chosen-images": {
        "chosen": CHOSEN,
        "noise_multiplier": None,
        "epsilon": 6.0,
        "data_kind": "images",
    },
    "replace": {"neighbours": "replace"},
    "all-records": {"sample_rate": 1.0},
    "colluders": {"colluders": 2},
    "paper-noise": {"noise_shares": "paper"},
    "one-party": {"parties": 1},
    "frac-bits-14": {"frac_bits": 14},
    "frac-bits-24": {"frac_bits": 24, "max_grad_norm": 0.25},
    "feature-norm": {"max_feature_norm": 2.0},
    "unequal-owners": {"records": "unequal"},
    "class-weights": {"class_weights": (1.0, 0.5, 0.25)},
    # Losses, numbers and outputs.
    "hard-sigmoid": {"loss": "hard-sigmoid"},
    "softmax": {"loss": "softmax"},
    "squared-classes": {"loss": "squared"},
    "squared-number": _NUMBER,
    "least-squares": _LEAST,
    "two-classes": _TWO,
    "one-output": {**_TWO, "one_output": True},
    "one-output-hard": {**_TWO, "one_output": True, "loss": "hard-sigmoid", **_DESCENT},
    "two-softmax": {**_TWO, "loss": "softmax"},
    # Descent.
    "linear-schedule": {"lr_schedule": "linear"},
    "cosine-schedule": {"lr_schedule": "cosine", "steps": 5},
    "momentum": {"momentum": 0.875},
    "average": {"average": 0.75, "steps": 4},
    "no-bias": {"bias_scale": 0.0},
    "small-bias": {"bias_scale": 0.125},
    "descent": _DESCENT,
    "pieces": {"physical_rows": 24},
    "pieces-descent": {"physical_rows": 40, **_DESCENT},
    "adam": _ADAM,
    "adam-settings": {**_ADAM, "beta1": 0.5, "adam_floor": 0.25, "average": 0.5},
    "adam-mlp-pieces": {**_MLP, **_ADAM, "physical_rows": 40},
    # Models.
    "mlp": _MLP,
    "mlp-two-layers": {"model": "mlp:5,4", "lr": 0.25},
    "mlp-softmax": {**_MLP, "loss": "softmax"},
    "mlp-number": {**_NUMBER, "model": "mlp:4", "lr": 0.5},
    "mlp-descent": {**_MLP, **_DESCENT},
    "mlp-no-dp": {**_MLP, "private": False, "noise_multiplier": None, "delta": None},
    "own-layers": {"model": _RESIDUAL, "lr": 0.25},
    "own-windows": {**_IMAGES, "model": _SMALL_CNN},
    "own-averages": {**_IMAGES, "model": _AVERAGES},
    "lenet": {**_IMAGES, "model": "lenet"},
    "cnn": {**_IMAGES, "model": "cnn"},
    # Starts.
    "random": {"init": "random"},
    "file": {"init": "file"},
    "local-average": {"init": "local-average", **_LOCAL},
    "local-uniform": {"init": "local-average", "init_weighting": "uniform", **_LOCAL},
    "local-accuracy": {"init": "local-accuracy", "init_lr": 0.5, **_LOCAL},
    "local": {"init": "local", **_LOCAL},
    "local-mlp": {**_MLP, "init": "local", **_LOCAL},
    # Sums that are opened.
    "open": _OPEN,
    "open-mlp": {**_OPEN, **_MLP},
    "open-descent": {**_OPEN, **_TWO, **_DESCENT, "one_output": True},
    "open-noisy": {**_OPEN, **_NOISY, "metrics": "all"},
    "statistics": _STATISTICS,
    "statistics-number": {**_STATISTICS, **_LEAST, "max_grad_norm": 0.5},
    "statistics-persons": {**_STATISTICS, **_PERSONS},
    "whiten": _WHITEN,
    "whiten-epsilon": {
        "whiten": True,
        "noise_multiplier": None,
        "epsilon": 8.0,
        "whiten_share": 0.3,
    },
    "whiten-no-dp": {
        **{"whiten": True, "whiten_ridge": 0.5, "private": False},
        **{"noise_multiplier": None, "delta": None},
    },
    "whiten-open": {**_WHITEN, **_OPEN, "whiten_ridge": 2.0},
    # Persons.
    "persons": _PERSONS,
    "persons-mlp": {**_PERSONS, **_MLP, "neighbours": "replace"},
    "persons-open": {**_PERSONS, **_OPEN},
    # Counts of held-out records.
    "noisy": _NOISY,
    "none": {"evaluate": "none"},
    "all-metrics": {"metrics": "all"},
    "all-metrics-two": {**_TWO, "metrics": "all"},
    "all-metrics-noisy": {**_TWO, **_NOISY, "metrics": "all", "count_noise": 1.0},
}
