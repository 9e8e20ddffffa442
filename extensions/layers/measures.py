"""What opened sums over held-out records say of a model, beside what knows nothing would reach.

Sums have noise of known deviation. Estimates are of the sums as they are, not of what is left of
them above 0, so that noise shifts none of them; only what is told of them is cut to its range.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from extensions.layers.tally import BITS, SHOWN, area_unit, kind_of, sensitivity, signs, uncentred
from extensions.ring.fixed_point import Reals

KEYS = (
    *("accuracy", "accuracy_interval", "majority", "above_majority_interval_population"),
    *("auc", "auc_interval", "auc_interval_population"),
    *("brier", "brier_interval", "brier_skill", "brier_skill_interval"),
    *("recall", "recall_interval", "precision", "precision_interval"),
    *("prevalence", "prevalence_interval"),
    *("recall_at_prevalence", "recall_at_prevalence_interval"),
    *("rmse", "rmse_interval", "rmse_of_mean", "r2", "r2_interval"),
)
_GAIN = "above_majority_interval_population"
Z = 1.959964
"""Deviations of a normal variable that 95 % of its draws lie within."""
_Z_OF_FOUR = 2.241403
"""Those that 98.75 % of its draws lie below: of four such limits all hold in 95 % of cases."""
_TRY = (
    "Hold out more records, count them with less noise, or train on more records or with a larger "
    "epsilon."
)
Interval = list[float]
Told = tuple[float | None, Interval | None]
"""A measure, and its interval."""


@dataclass(frozen=True)
class Ratio:
    """One number, the part, with noise over another, the whole.

    Attributes:
        noise: variance of the part.
        below: variance of the whole.
        shared: their covariance.
        inverse: estimate of 1 over the whole; by default `inverse_of` it.
    """

    part: float
    whole: float
    noise: float = 0.0
    below: float = 0.0
    shared: float = 0.0
    inverse: float | None = None

    @property
    def estimate(self) -> float:
        """The ratio, to which noise of the whole adds nothing on average."""
        inverse = self.inverse or inverse_of(self.whole, math.sqrt(self.below))
        slope = self.shared / self.below if self.below else 0.0
        return slope + (self.part - slope * self.whole) * inverse

    @property
    def value(self) -> float | None:
        """What is told of it; None where the whole is not above 0, for all that is seen."""
        return self.estimate if self.whole > 0 else None

    @property
    def told(self) -> Told:
        """What is said of a ratio in 0..1."""
        return _told(self.value, self.interval(0.0, 1.0))

    def interval(self, low: float, high: float, z: float = Z) -> Interval | None:
        """Returns Fieller's interval (J. R. Stat. Soc. B 16, 1954) for z deviations, in a range.

        It is None without noise, and all of the range where the whole is not told from 0.
        """
        if not self.noise:
            return None
        square = self.whole**2 - z**2 * self.below
        middle = self.part * self.whole - z**2 * self.shared
        root = middle**2 - square * (self.part**2 - z**2 * self.noise)
        if square <= 0 or self.whole <= 0 or root < 0:
            return [low, high]
        ends = ((middle + sign * math.sqrt(root)) / square for sign in (-1, 1))
        return [_cut(end, low, high) for end in ends]


def inverse_of(value: float, sigma: float) -> float:
    """Returns an estimate of 1 over a positive number that has normal noise, without bias.

    It is Mills' ratio, (1 - Phi(z)) / phi(z) with z = value / sigma, over sigma: its mean is 1 over
    the number itself, by Fubini's theorem (Voinov, Sankhya B 47, 1985). Of a value below 0 it is
    that of 0, so that it is bounded.
    """
    z = max(0.0, value) / sigma if sigma else math.inf
    if z > 20:  # to 1e-6
        return 1 / (value * (1 + 1 / z**2))
    return math.erfc(z / math.sqrt(2)) / 2 * math.sqrt(2 * math.pi) * math.exp(z**2 / 2) / sigma


def quality(
    sums: Reals, classes: int, facts: Mapping[str, Any], records: int, noise: float = 0.0
) -> dict[str, Any]:
    """Returns measures by name, those of `KEYS` that there are.

    Args:
        sums: that `extensions.layers.tally.summary` made, decoded, with noise or without.
        facts: what is public of the records: names of classes, the range of a target.
        noise: deviation of a count's noise, of all parties together; that of the sums is
            `extensions.layers.tally.sensitivity` times it.

    Returns:
        accuracy; majority: that of always saying the most frequent class; recall: accuracy of each
        class; precision: how often what is said to be of a class is; auc: the area under the ROC
        curve, where scores of one bin count half; brier: the mean squared error of probabilities;
        brier_skill: by which part it is less than that of always saying the classes' frequencies;
        prevalence: these frequencies; recall_at_prevalence: the part of a class that is among the
        records with the highest scores for it, as many as it has, and so both recall and precision.
        Of a regression rmse, the root of the mean squared error, and rmse_of_mean, that of always
        saying the held-out records' mean, in the target's unit; and r2, by which part the mean
        squared error is less than theirs.

        With noise the 95 % intervals of what these records would give without it. Those that end in
        _population are of all such records: with what it does that these and no others were held
        out, after Hanley and McNeil for the area.

    Source:
        Hanley and McNeil, Radiology 143, 1982.
    """
    kind, sigma = kind_of(classes), noise * sensitivity(classes)
    sums = uncentred(sums, classes, records)
    if kind == "moments":
        return _of_moments(sums, facts, records, sigma)
    if kind == "classes":
        return Counts(sums.reshape(2, classes), records, sigma).measures(facts)
    found = Counts(sums[:4].reshape(2, 2), records, sigma)
    return {
        **found.measures(facts),
        **found.of_two(facts),
        **_scores(sums[4:], found),
        **_by_class("recall_at_prevalence", at_prevalence(sums[5:], found), facts),
    }


def accuracy_of(right: float, records: int, noise: float) -> dict[str, Any]:
    """Returns accuracy and its interval, given the deviation of the noise of `right`."""
    ratio = Ratio(right, records, noise**2)
    return {
        "accuracy": _cut(right / records, 0.0, 1.0),
        "accuracy_interval": ratio.interval(0.0, 1.0),
    }


def caveats(report: Mapping[str, Any]) -> list[str]:
    """Returns, a sentence or more each, in what a model is not shown to be of any use."""
    lines = []
    chance, gain = report.get("auc_interval_population"), report.get(_GAIN)
    ranks = chance is not None and chance[0] > 0.5
    if chance is not None and not ranks:
        lines.append(
            "the model may rank no better than chance: its area under the ROC curve is in "
            f"{chance[0]:.2f}..{chance[1]:.2f} (95 %). {_TRY}"
        )
    if gain is not None and gain[0] <= 0:
        lines.append(
            f"accuracy {report['accuracy']:.3f} may be no better than {report['majority']:.3f}, "
            "that of always predicting the most frequent class. "
            + (_instead(report) if ranks else _TRY)
        )
    value, interval = report.get("r2"), report.get("r2_interval")
    if (value or interval) is not None and (interval or [value])[0] <= 0:
        told = "r2" if value is None else f"r2 {value:.3f}"
        lines.append(f"{told} may be no better than 0, that of always predicting the mean. {_TRY}")
    return lines


def _instead(report: Mapping[str, Any]) -> str:
    """How to use a model that ranks, but says nothing else than the most frequent class."""
    shares, found = report["prevalence"], report["recall_at_prevalence"]
    rare = min(shares, key=shares.__getitem__)
    reached = "" if found[rare] is None else f": recall and precision are then {found[rare]:.3f}"
    return (
        f"But the model ranks records. Take the {shares[rare]:.1%} of records with the highest "
        f"scores of `pea predict` for {rare}, instead of those above 1/2{reached}."
    )


def half_width(records: int, noise: float, share: float, *, hidden: bool) -> float:
    """Returns how far the area may be from what it would be without noise, in 95 % of runs.

    `noise` is as in `quality`, and `share` the part of the records in one class. Where counts are
    not made in shares (`hidden`), it is the most that it may be.
    """
    sigma, one, zero = noise * sensitivity(2), share * records, (1 - share) * records
    twice = sigma * records
    if not hidden:
        order = SHOWN * (SHOWN - 1)
        twice = sigma * math.sqrt(SHOWN * (one**2 + zero**2) + sigma**2 * order)
    return min(0.5, Z * twice / 2 / (one * zero))


class Counts:
    """Numbers of records of each class that are predicted right and wrong.

    Cells are (2, classes), each with noise, which is fitted to the public sum of all records.
    """

    def __init__(self, cells: Reals, records: int, sigma: float) -> None:
        self.right, self.wrong = cells - (cells.sum() - records) / cells.size
        self.each, self.records, self.sigma = self.right + self.wrong, records, sigma
        self.cells = cells.size

    def measures(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Returns all that these numbers alone tell."""
        n, classes = self.records, len(self.each)
        most = int(self.each.argmax())
        above = float(self.right.sum() - self.each[most])
        apart = float(self.right.sum() - self.right[most] + self.wrong[most])
        drawn = max(0.0, apart - above**2 / n)
        half = Z * math.sqrt(classes * self.sigma**2 + drawn)
        found = accuracy_of(float(self.right.sum()), n, self.sigma * math.sqrt(classes / 2))
        found["majority"] = _cut(float(self.each[most]) / n, 0.0, 1.0)
        found[_GAIN] = [(above - half) / n, (above + half) / n]
        return found | self._ratios("recall", self.each, facts)

    def of_two(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Returns precision and prevalence of each of two classes."""
        shares = [Ratio(float(each), self.records, self.sigma**2) for each in self.each]
        parts = [(_cut(each.estimate, 0.0, 1.0), each.interval(0.0, 1.0)) for each in shares]
        said = self.right + self.wrong[::-1]
        return self._ratios("precision", said, facts) | _by_class("prevalence", parts, facts)

    def _ratios(self, name: str, wholes: Reals, facts: Mapping[str, Any]) -> dict[str, Any]:
        """What part of sums of two counts the first is, which was predicted right."""
        part, whole, shared = (
            self.sigma**2 * (1 - 1 / self.cells),
            self.sigma**2 * (2 - 4 / self.cells),
            self.sigma**2 * (1 - 2 / self.cells),
        )
        pairs = zip(self.right, wholes, strict=True)
        ratios = [Ratio(float(one), float(both), part, whole, shared) for one, both in pairs]
        return _by_class(name, [each.told for each in ratios], facts)


def _by_class(name: str, told: Sequence[Told], facts: Mapping[str, Any]) -> dict[str, Any]:
    """A measure of each class by its name, and the intervals, where there is noise."""
    names, (values, intervals) = _names(len(told), facts), zip(*told, strict=True)
    known = None not in intervals
    return {
        name: dict(zip(names, values, strict=True)),
        f"{name}_interval": dict(zip(names, intervals, strict=True)) if known else None,
    }


def _names(classes: int, facts: Mapping[str, Any]) -> list[str]:
    target = facts.get("schema target")
    if target is not None:
        return list(target["classes"])
    return [str(facts.get(f"class {place}", place)) for place in range(classes)]


def _scores(sums: Reals, found: Counts) -> dict[str, Any]:
    """What the sum of squared errors, and what follows it, say of two classes' scores."""
    n, sigma = found.records, found.sigma
    errors = Ratio(float(sums[0]), n, sigma**2)
    against = _over_pairs(found, n * float(sums[0]), (n * sigma) ** 2)
    return {
        **_area(area(sums[1:], found), found),
        "brier": _cut(float(sums[0]) / n, 0.0, 1.0),
        "brier_interval": errors.interval(0.0, 1.0),
        **_less_than_one("brier_skill", against),
    }


def _over_pairs(found: Counts, part: float, noise: float) -> Ratio:
    """The ratio of a number, whose variance is given, to that of pairs of two classes' records."""
    n, (zero, one), variance = found.records, map(float, found.each), found.sigma**2
    inverse = (
        (inverse_of(one, found.sigma) + inverse_of(zero, found.sigma)) / n if one * zero else 0
    )
    below = (zero - one) ** 2 * variance + 2 * variance**2
    return Ratio(part, one * zero + variance, noise, below, inverse=inverse)


def area(sums: Reals, found: Counts) -> Ratio:
    """Returns the area less 1/2 as a ratio to the number of pairs, uncut.

    The sums are those behind that of squared errors; of a public model's scores counts by bin.
    """
    variance = found.sigma**2
    if len(sums) == 2:
        unit = (1 << BITS) / area_unit(found.records)
        twice, noise = float(sums[0]) * unit, variance * unit**2
    else:
        order, (zero, one) = signs(SHOWN), sums.reshape(2, SHOWN)
        above, below = order @ zero, one @ order
        twice = float(one @ above)
        second = variance**2 * SHOWN * (SHOWN - 1)
        first = variance * float(above @ above + below @ below) - 2 * second
        noise = max(0.0, first) + second
    return _over_pairs(found, twice / 2, noise / 4)


def _area(ratio: Ratio, found: Counts) -> dict[str, Any]:
    value, n = ratio.value, found.records
    one = float(found.each[1])
    zero, rare = n - one, min(one, n - one)
    if value is None or rare < 1:
        unknown = [0.0, 1.0] if found.sigma else None
        return {"auc": None, "auc_interval": unknown, "auc_interval_population": unknown}
    least = min(0.02, 1 / rare)
    auc = _cut(0.5 + value, least, 1 - least)
    alike, other = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    drawn = auc * (1 - auc) + (one - 1) * (alike - auc**2) + (zero - 1) * (other - auc**2)
    everyone = replace(ratio, noise=ratio.noise + drawn * ratio.whole)

    def told(interval: Interval | None) -> Interval | None:
        return None if interval is None else [0.5 + end for end in interval]

    return {
        "auc": _cut(0.5 + value, 0.0, 1.0),
        "auc_interval": told(ratio.interval(-0.5, 0.5)),
        "auc_interval_population": told(everyone.interval(-0.5, 0.5)),
    }


def at_prevalence(sums: Reals, found: Counts) -> list[Told]:
    """Returns which part of each class is among the records with the highest scores for it.

    As many records are taken as the class has; the sums are those of `area`.
    """
    if len(sums) == 2:
        # As many of either class are missed, so that both parts follow from how many are right.
        missed, variance = found.records / 2 - float(sums[1]), found.sigma**2
        return [
            Ratio(each - missed, each, 2 * variance, variance, variance).told
            for each in map(float, found.each)
        ]
    zero, one = sums.reshape(2, SHOWN)
    wholes = map(float, found.each)
    pairs = ((zero, one), (one[::-1], zero[::-1]))
    return [_among(*pair, each, found) for pair, each in zip(pairs, wholes, strict=True)]


def _among(own: Reals, other: Reals, whole: float, found: Counts) -> Told:
    """That of one class, of noisy counts of its records and of others by bin, the highest first.

    Its number of records is reached in one of the bins. The interval is that of all bins in which
    it may be, from none of that bin's records to all.
    """
    sigma = found.sigma
    if whole <= 0:
        return _told(None, [0.0, 1.0] if sigma else None)
    upto = np.array([0.0, *np.cumsum(own)[:-1], whole])
    beyond = np.array([-whole, *np.cumsum(own + other)[:-1] - whole, found.records - whole])
    last = int((beyond[:-1] < 0).sum())
    low, high = beyond[last - 1 : last + 1]
    share = _cut(-low / (high - low), 0.0, 1.0) if high > low else 0.5
    part = (1 - share) * upto[last - 1] + share * upto[last]
    value = Ratio(part, whole, below=sigma**2).value
    noisy = np.array([0, *range(1, SHOWN), 0])
    apart = _Z_OF_FOUR * sigma * np.sqrt(2 * noisy + 1)
    bins = np.flatnonzero((beyond[:-1] <= apart[:-1]) & (beyond[1:] >= -apart[1:])).tolist()

    def limit(edge: int, end: int) -> float:
        ratio = Ratio(upto[edge], whole, noisy[edge] * sigma**2, sigma**2)
        interval = ratio.interval(0.0, 1.0, _Z_OF_FOUR)
        return upto[edge] / whole if interval is None else interval[end]

    least = min((limit(k, 0) for k in bins), default=0.0)
    return _told(value, [least, max((limit(k + 1, 1) for k in bins), default=1.0)])


def _of_moments(
    sums: Reals, facts: Mapping[str, Any], records: int, sigma: float
) -> dict[str, Any]:
    errors, centred, spread = (float(each) for each in sums)
    low, high = (facts.get("schema target") or {}).get("range") or (0.0, 1.0)
    variance = sigma**2
    around = spread - (centred**2 - variance) / records
    below = variance * (1 + (2 * centred / records) ** 2) + 2 * (variance / records) ** 2
    ratio = Ratio(errors, around, variance, below)
    less, value, more, mean = (
        (high - low) * math.sqrt(max(0.0, each / records))
        for each in (errors - Z * sigma, errors, errors + Z * sigma, around)
    )
    return {
        "rmse": value,
        "rmse_interval": [less, more] if sigma else None,
        "rmse_of_mean": mean,
        **_less_than_one("r2", ratio),
    }


def _less_than_one(name: str, errors: Ratio) -> dict[str, Any]:
    """By which part errors are less than others, and the interval.

    The part is None where the others are not told from 0: estimates are near 1 then, and flatter.
    """
    value, part = errors.value, errors.interval(0.0, math.inf)
    known = value is not None and (part is None or part[1] < math.inf)
    return {
        name: min(1.0, 1 - value) if value is not None and known else None,
        f"{name}_interval": None if part is None else [1 - part[1], 1 - part[0]],
    }


def _told(value: float | None, interval: Interval | None) -> Told:
    """A measure in 0..1 and its interval; no value if it may be any."""
    if value is None or interval == [0.0, 1.0]:
        return None, interval
    return _cut(value, 0.0, 1.0), interval


def _cut(value: float, low: float, high: float) -> float:
    return min(high, max(low, value))
