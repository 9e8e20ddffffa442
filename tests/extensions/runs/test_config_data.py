"""Settings and files are checked before a run starts, and every refusal names its argument."""

import math
import stat
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import (
    Split,
    load,
    read_party_file,
    split_among,
    write_parts,
    write_private,
)
from extensions.data.datasets.records import standard_rows
from extensions.privacy.accounting import NEIGHBOURS, epsilon
from extensions.privacy.sampling import OVERFLOW_PROBABILITY
from extensions.runs.config import TrainConfig
from extensions.runs.hosts import find_for
from tests.conftest import SHARED
from tests.helpers.refused import refused
from tests.tfe_ext.test_compat import needs_tensorflow

PRIVATE: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5}
BAD_SETTINGS = [
    ("backend", "spdz", "value"),
    ("evaluate", "all", "choice"),
    ("parties", 0, "range"),
    ("parties", 1, "range"),
    ("parties", 65, "range"),
    ("model", "forest", "choice"),
    ("model", "mlp:0", "choice"),
    ("classes", 1, "range"),
    ("steps", 0, "range"),
    ("rows_per_unit", 0, "range"),
    ("class_weights", (0.5,), "shape"),
    ("metrics", "some", "choice"),
    ("seed_data", -1, "range"),
    ("insecure_seed", -1, "range"),
    ("lr", 0.0, "range"),
    ("lr", math.inf, "range"),
    ("lr", 1e300, "range"),
    ("lr", 1e-300, "range"),
    ("lr_schedule", "step", "choice"),
    ("momentum", 1.0, "range"),
    ("optimizer", "rmsprop", "choice"),
    ("beta1", 0.5, "conflict"),
    ("beta2", 0.99, "conflict"),
    ("adam_floor", 0.5, "conflict"),
    ("physical_rows", 0, "range"),
    ("average", 1.01, "range"),
    ("bias_scale", 0.3, "range"),
    ("max_grad_norm", -1.0, "range"),
    ("max_grad_norm", 1e300, "range"),
    ("max_weight_norm", 399.0, "range"),
    ("max_weight_norm", 16385.0, "range"),
    ("max_feature_norm", math.nan, "range"),
    ("max_feature_norm", 1500.0, "range"),
    ("count_noise", 0.0, "range"),
    ("sample_rate", 0.0, "range"),
    ("sample_rate", 1.01, "range"),
    ("frac_bits", 7, "range"),
    ("frac_bits", 25, "range"),
    ("colluders", 0, "range"),
    ("colluders", 3, "range"),
    ("noise_shares", "half", "choice"),
    ("delta", None, "range"),
    ("delta", 0.0, "range"),
    ("delta", 1.0, "range"),
    ("epsilon", -1.0, "range"),
    ("epsilon", math.inf, "range"),
    ("calibration", "guess", "choice"),
    ("loss", "hinge", "choice"),
    ("method", "newton", "choice"),
    ("open", "always", "choice"),
    ("init", "guess", "choice"),
    ("epsilon_init", 1.0, "conflict"),
    ("init_steps", 5, "conflict"),
    ("init_lr", 0.1, "conflict"),
    ("init_weighting", "uniform", "conflict"),
    ("neighbours", "add", "choice"),
    ("split", "halves", "choice"),
    ("whiten_share", 0.1, "conflict"),
    ("whiten_ridge", 5.0, "conflict"),
    ("noise_multiplier_whiten", 4.0, "conflict"),
    ("noise_multiplier_counts", -1.0, "range"),
    ("cells", "large", "choice"),
    ("data_kind", "sounds", "choice"),
    ("epochs", 0.0, "range"),
    ("epochs", math.inf, "range"),
    ("overflow_probability", 1.0, "range"),
    ("overflow_probability", -1e-9, "range"),
]
"""With the settings of `PRIVATE`: those of a local start or a whitening make no sense without."""


@pytest.mark.parametrize(("name", "value", "code"), BAD_SETTINGS)
def test_a_setting_out_of_range_is_named(name, value, code):
    with refused(name, code, value=value):
        TrainConfig(**{**PRIVATE, name: value})


def refuse_at_host(name: str, code: str, **settings: Any) -> None:
    """The settings are in range, but not for their host."""
    config = TrainConfig(**PRIVATE, **settings)
    with refused(name, code, value=settings[name]):
        find_for(config)


@pytest.mark.xdist_group(SHARED["tfe_process"])
@needs_tensorflow
@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("parties", 2, "value"),
        ("parties", 4, "value"),
        ("provider", "tfp", "conflict"),
        ("dealer_noise", True, "conflict"),
    ],
)
def test_aby3_has_three_servers_and_no_dealer(name, value, code):
    refuse_at_host(name, code, backend="tfe", **{name: value})


@pytest.mark.parametrize(
    ("settings", "argument", "code", "value"),
    [
        ({"provider": "tfp"}, "dealer_noise", "conflict", True),
        ({"insecure_seed": 3}, "dealer_noise", "conflict", True),
        ({"parties": 1, "backend": "clear"}, "parties", "range", 1),
    ],
)
def test_noise_of_a_dealer_needs_one(settings, argument, code, value):
    with refused(argument, code, value):
        TrainConfig(**PRIVATE, dealer_noise=True, **settings)


@pytest.mark.parametrize("parties", range(2, 11))
def test_all_parties_but_one_may_collude(parties):
    for colluders in range(1, parties):
        TrainConfig(**PRIVATE, parties=parties, colluders=colluders, dealer_noise=True)
    with refused("colluders", "range", value=parties):
        TrainConfig(**PRIVATE, parties=parties, colluders=parties)


def test_a_provider_that_there_is_not_is_named():
    with refused("provider", "choice", value="nobody"):
        TrainConfig(**PRIVATE, provider="nobody")


WIDE: list[tuple[str, dict[str, Any]]] = [
    ("noise_multiplier", {"noise_multiplier": 700.0}),
    ("noise_multiplier", {"noise_multiplier": 70.0, "momentum": 0.9}),
    ("noise_multiplier", {"noise_multiplier": 2e6, "method": "statistics"}),
    ("noise_multiplier_whiten", {"noise_multiplier_whiten": 2e6}),
    ("epsilon", {"epsilon": 1e-5, "noise_multiplier": 700.0, "settled": True}),
    (
        "epsilon_init",
        {"init": "local", "epsilon": 2.0, "epsilon_init": 1e-5, "noise_multiplier": 1.0}
        | {"noise_multiplier_init": 900.0, "settled": True},
    ),
]


@pytest.mark.parametrize(("name", "settings"), WIDE)
def test_noise_that_no_batch_can_bear_is_refused_by_what_was_asked_for(name, settings):
    whiten = {"whiten": True, "noise_multiplier": 1.0} if name.endswith("whiten") else {}
    loss = {"loss": "least-squares"} if settings.get("method") else {}
    with refused(name, "value", settings[name]):
        TrainConfig(delta=1e-5, **whiten, **loss, **settings)


def test_an_epsilon_that_takes_too_much_noise_is_refused_once_noise_is_found():
    with refused("epsilon", "value", value=1e-05):
        TrainConfig(epsilon=1e-5, delta=1e-5, steps=2).resolved()


@pytest.mark.parametrize("noise", [-1.0, math.nan, math.inf])
def test_an_impossible_noise_multiplier_is_named(noise):
    with refused("noise_multiplier", "range", noise):
        TrainConfig(noise_multiplier=noise, delta=1e-5)


def test_epsilon_and_noise_multiplier_exclude_each_other():
    for given in (None, 1.0):
        with refused("epsilon, noise_multiplier", "privacy", (given, given)):
            TrainConfig(delta=1e-5, epsilon=given, noise_multiplier=given)


def test_every_setting_with_a_range_is_tested():
    unchecked = {
        *("data", "facts", "features", "private", "noise_multiplier", "noise_multiplier_init"),
        *("provider", "settled", "whiten", "dealer_noise", "one_output", "cheap", "chosen"),
    }
    assert {field.name for field in fields(TrainConfig)} - unchecked == {
        n for n, *_ in BAD_SETTINGS
    }


def test_the_clear_backend_may_have_one_party():
    find_for(TrainConfig(backend="clear", parties=1, **PRIVATE))


def test_without_privacy_nothing_private_is_asked_for():
    config = TrainConfig(private=False)
    assert config.resolved() == config


def test_resolved_noise_meets_epsilon_with_the_overflow_in_delta():
    config = TrainConfig(**PRIVATE, steps=30).resolved()
    assert (config.epsilon, config.resolved()) == (2.0, config)
    assert config.noise_multiplier is not None
    spent = epsilon(
        noise_multiplier=config.noise_multiplier,
        sample_rate=config.sample_rate,
        steps=30,
        delta=1e-5,
        overflow_probability=OVERFLOW_PROBABILITY,
    )
    assert 1.99 < spent <= 2.0
    assert TrainConfig(**config.to_dict()) == config


def test_a_delta_that_no_noise_reaches_is_refused():
    with refused("delta", "value", value=1e-14):
        TrainConfig(epsilon=2.0, delta=1e-14).resolved()


def test_noise_for_replaced_records_is_more():
    usual, more = (
        TrainConfig(**PRIVATE, neighbours=each).resolved().noise_multiplier for each in NEIGHBOURS
    )
    assert 1.7 * usual < more < 1.9 * usual


def small_split(train: int = 11, test: int = 7, features: int = 4) -> Split:
    draws = np.random.default_rng(0)
    return Split(
        train_x=draws.standard_normal((train, features)),
        train_y=draws.integers(0, 3, train),
        test_x=draws.standard_normal((test, features)),
        test_y=draws.integers(0, 3, test),
    )


@pytest.mark.parametrize("parties", [1, 2, 3, 7])
def test_shares_of_the_records_differ_by_one_at_most_and_lose_none(parties):
    whole = small_split()
    parts = split_among(whole, parties)
    for name in ("train_x", "train_y", "test_x", "test_y"):
        sizes = [len(getattr(part, name)) for part in parts]
        assert max(sizes) - min(sizes) <= 1
        together = np.concatenate(
            [getattr(part, name).reshape(n, -1) for part, n in zip(parts, sizes, strict=True)]
        )
        expected = getattr(whole, name).reshape(len(together), -1)
        assert sorted(map(tuple, together)) == sorted(map(tuple, expected))
    for part in parts:
        rows = [whole.train_x.tolist().index(row) for row in part.train_x.tolist()]
        np.testing.assert_array_equal(whole.train_y[rows], part.train_y)


def test_more_parties_than_records_are_refused():
    with refused("parties", "range", value=8):
        split_among(small_split(), 8)
    with refused("parties", "range", value=3):
        split_among(small_split(train=2), 3)


def test_party_files_are_for_their_owner_alone(tmp_path):
    folder = tmp_path / "new"
    paths = write_parts(split_among(small_split(), 3), folder)
    assert [path.name for path in paths] == ["party-0.npz", "party-1.npz", "party-2.npz"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path, part in zip(paths, split_among(small_split(), 3), strict=True):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for name, value in vars(read_party_file(path)).items():
            np.testing.assert_array_equal(value, getattr(part, name))


def test_a_file_that_others_could_read_is_closed_before_it_is_written(tmp_path):
    path = tmp_path / "party-0.npz"
    path.touch(mode=0o666)
    path.chmod(0o666)
    write_private(path, a=np.ones(2))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_standard_rows_are_centred_unit_vectors_of_each_row_alone():
    x = np.random.default_rng(1).integers(0, 17, (50, 64)).astype(np.uint8)
    x[7] = 3
    rows = standard_rows(x)
    assert np.abs(rows.mean(axis=1)).max() < 1e-15
    norms = np.linalg.norm(rows, axis=1)
    assert norms[7] == 0.0
    np.testing.assert_allclose(np.delete(norms, 7), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(standard_rows(x[3:4]), rows[3:4])
    assert x[7, 0] == 3


def test_digits_are_split_by_the_seed():
    first, again, other = (load("digits", None, seed) for seed in (0, 0, 1))
    assert len(first.train_x) + len(first.test_x) == 1797
    assert len(first.test_x) == 359
    np.testing.assert_array_equal(first.train_x, again.train_x)
    assert not np.array_equal(first.train_y, other.train_y)


def test_an_unknown_data_set_is_named():
    with refused("data", "choice", value="iris"):
        load("iris", None, 0)
