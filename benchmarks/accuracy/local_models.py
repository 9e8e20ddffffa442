"""Averages of models that parties fit to their own records, opened once with output noise.

Each party minimises a strongly convex risk, so that one record moves its minimiser by a bounded
norm, however it is found; the average of all parties moves by that over their number. One secure
sum opens the average with Gaussian noise for that norm.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize

from benchmarks.accuracy.records import without_test
from benchmarks.accuracy.settings import PARTIES
from extensions.data.datasets import Split, split_among
from extensions.privacy.accounting import calibrate_noise
from extensions.ring.fixed_point import Reals
from extensions.runs.config import TrainConfig

LIPSCHITZ = math.sqrt(2.0)
"""Of a record's softmax cross-entropy, whose gradient is (p - y) x, for rows of norm 1."""
TOLERANCE = 1e-6
"""Norm of the risk's gradient at which a minimiser counts as found."""
STRENGTHS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
INSIDE = 1.0
"""Variance of noise that is drawn in a secure computation, over what the epsilon takes."""
USERS = 1000
PUBLISHED = {
    "averages in a secure computation (Pentyala et al., 2022)": (PARTIES, INSIDE),
    f"averages of {USERS:,} users (DP-Helmet, 2022)": (USERS, USERS / (USERS - 1)),
}
"""By title: how many have the records, and the variance of all noise together."""


def minimiser(x: Reals, y: Reals, strength: float) -> Reals:
    """Returns weights, (classes, features), at which the regularised risk is least.

    The risk is the mean softmax cross-entropy plus strength / 2 times the squared norm.

    Args:
        x: rows of norm at most 1.
        y: one-hot labels.
        strength: of the regulariser.
    """
    if x.shape[0] < x.shape[1]:  # it lies in the span of the rows
        basis: Reals = np.linalg.qr(x.T).Q
        own: Reals = minimiser(x @ basis, y, strength) @ basis.T
        return own
    shape = (y.shape[1], x.shape[1])

    def risk(flat: Reals) -> tuple[float, Reals]:
        weights = flat.reshape(shape)
        logits = x @ weights.T
        logits -= logits.max(axis=1, keepdims=True)
        scores = np.exp(logits)
        sums = scores.sum(axis=1, keepdims=True)
        losses = np.log(sums[:, 0]) - (logits * y).sum(axis=1)
        slope = (scores / sums - y).T @ x / len(x) + strength * weights
        return float(losses.mean() + strength / 2 * (flat @ flat)), slope.reshape(-1)

    found = minimize(
        risk,
        np.zeros(math.prod(shape)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 2000, "maxfun": 4000, "gtol": TOLERANCE / 200, "ftol": 0.0},
    )
    if np.linalg.norm(found.jac) > TOLERANCE:
        raise ArithmeticError(f"no minimiser found: the slope's norm is {found.jac.max():.3g}")
    weights: Reals = found.x.reshape(shape)
    return weights


def sensitivity(sizes: Sequence[int], strength: float) -> float:
    """Returns how far one record moves the average of parties with so many records.

    A minimiser moves by LIPSCHITZ / (n strength) when one of n records' losses is taken out of the
    mean (n is public), and is found up to TOLERANCE / strength.

    Source:
        Chaudhuri, Monteleoni and Sarwate, JMLR 2011, lemma 7, for one record that counts or not.
    """
    moved = LIPSCHITZ / (min(sizes) * strength) + 2 * TOLERANCE / strength
    return moved / len(sizes)


def averaged(
    config: TrainConfig,
    parts: Sequence[Split],
    *,
    seed: int,
    strength: float,
    variance: float,
) -> dict[str, Any]:
    """Returns accuracy, in percent, and epsilon of the noisy average of all parties' models.

    Args:
        config: with epsilon, delta, classes and the bound of features' norms.
        parts: each party's records.
        seed: of the noise.
        strength: of the regulariser.
        variance: of all noise, over what the epsilon takes: 1 where it is drawn inside a secure
            computation, more where every party adds a share that it knows.
    """
    assert config.epsilon is not None
    assert config.delta is not None
    classes = np.eye(config.classes)
    models = [
        minimiser(part.train_x / config.max_feature_norm, classes[part.train_y], strength)
        for part in parts
    ]
    multiplier = calibrate_noise(
        epsilon=config.epsilon, delta=config.delta, sample_rate=1.0, steps=1
    )
    sigma = multiplier * sensitivity([len(part.train_x) for part in parts], strength)
    model = np.mean(models, axis=0)
    noise = np.random.default_rng(seed).normal(0.0, sigma * math.sqrt(variance), model.shape)
    test_x = np.concatenate([part.test_x for part in parts])
    test_y = np.concatenate([part.test_y for part in parts])
    right = (test_x @ (model + noise).T).argmax(axis=1) == test_y
    return {"accuracy": 100 * float(right.mean()), "epsilon": config.epsilon}


def best_strength(config: TrainConfig, features: Split, users: int, variance: float) -> float:
    """Returns the regulariser that does best on a part of the training records, set aside."""
    parts = split_among(without_test(features), users, "iid", 0)

    def accuracy(strength: float) -> float:
        found = averaged(config, parts, seed=0, strength=strength, variance=variance)
        return float(found["accuracy"])

    return max(STRENGTHS, key=accuracy)


def published(
    config: TrainConfig, features: Split, title: str, partition: str, *, seed: int, strength: float
) -> dict[str, Any]:
    """Returns what `averaged` does for one of the ways in `PUBLISHED`."""
    users, variance = PUBLISHED[title]
    parts = split_among(features, users, partition, seed)
    return averaged(config, parts, seed=seed, strength=strength, variance=variance)
