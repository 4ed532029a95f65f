"""Compare two runs of a benchmark, figure by figure, and find changes that are not chance.

There are tests of two samples, and of one figure among others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist, median
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from kerneldsl.errors import ArgumentValueError
from kerneldsl.tools.comparison.figures import Figure, Quartiles, figures_of
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import AsDict, format_count

__all__ = [
    "Change",
    "Comparison",
    "bootstrap_interval",
    "compare_results",
    "false_discovery",
    "mann_whitney",
    "outlier_scores",
    "quartile_interval",
    "quartile_test",
]

Verdict: TypeAlias = Literal["better", "worse", "same", "not judged"]
#: The basis of a verdict: a test of the samples' ranks, or of medians by their quartiles. Or
#: extremes that do not overlap, or the changes of the run's other figures.
Basis: TypeAlias = Literal["samples", "quartiles", "extremes", "other figures"]

#: Fewer samples cannot differ in their ranks beyond chance.
_LEAST_SAMPLES = 4
#: Fewer medians say nothing of how medians vary.
_LEAST_MEDIANS = 8
_OUTLIER = 3.5
#: Facts about a machine that differ between any two runs.
_OF_A_RUN = ("date", "commit")


@dataclass(frozen=True, slots=True)
class Change(AsDict):
    """A figure in two runs.

    Parameters
    ----------
    figure : str
        Its place in the results.
    old, new : float
        The medians.
    ratio : float
        New to old.
    low, high : float or None
        An interval for the ratio, where samples or their quartiles are stored.
    probability : float or None
        How probable such a difference is by chance, if that can be said.
    basis : str
        What the verdict is based on: ``"samples"``, ``"quartiles"``, ``"extremes"``, or, where
        medians alone are stored, ``"other figures"``.
    verdict : str
        ``"better"``, ``"worse"``, ``"same"`` or ``"not judged"``.
    """

    figure: str
    old: float
    new: float
    ratio: float
    low: float | None
    high: float | None
    probability: float | None
    basis: Basis
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Comparison(AsDict):
    """Two runs of a benchmark.

    Parameters
    ----------
    changes : tuple of Change
        The figures that both have, the worst first.
    only_old, only_new : tuple of str
        Figures that one of them has.
    left_out : mapping
        Figures that both have and that are not compared, since a number in them is no time or rate.
        Each has that number and its figure.
    machine : mapping
        What differs between the machines, old and new.
    """

    changes: tuple[Change, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    left_out: Mapping[str, str]
    machine: Mapping[str, tuple[str, str]]

    @property
    def worse(self) -> tuple[Change, ...]:
        """The figures that are worse."""
        return tuple(each for each in self.changes if each.verdict == "worse")


def compare_results(old: Any, new: Any, *, rate: float = 0.05, least: float = 0.01) -> Comparison:
    """Compare the results of two runs.

    Parameters
    ----------
    old, new : object
        What the benchmark wrote as JSON.
    rate : float, optional
        How many of the changes may be by chance.
    least : float, optional
        A smaller change of the median counts as none, however certain it is.

    Raises
    ------
    ArgumentValueError
        If they have no figure in common that can be compared.
    """
    before, after = figures_of(old), figures_of(new)
    common = [path for path in before if path in after]
    if not common:
        raise ArgumentValueError(
            "the two files have no measurement in common",
            value=(len(before), len(after)),
            limit=f"The first has {len(before)} times and rates, the second {len(after)}",
            remedy="Compare two runs of the same benchmark",
        )
    left_out = {
        path: f"{figure.fault:g} in the {which} file"
        for which, figures in (("new", after), ("old", before))
        for path, figure in figures.items()
        if path in before and path in after and figure.fault is not None
    }
    pairs = [_Pair(path, before[path], after[path]) for path in common if path not in left_out]
    if not pairs:
        path, why = next(iter(left_out.items()))
        raise ArgumentValueError(
            "no measurement of the two files can be compared",
            value=why,
            limit="A time or rate must be a finite number above 0. This is not so in "
            f"{format_count(len(left_out), 'measurement')}: {path}, {why}",
            remedy="Run the benchmark again. If its clock is coarse, time more calls per sample",
        )
    changes = _judged([each.change(1 - rate) for each in pairs], pairs, rate, least)
    is_rate = {each.path: each.new.more_is_better for each in pairs}
    changes.sort(key=lambda each: each.ratio if is_rate[each.figure] else 1 / each.ratio)
    return Comparison(
        tuple(changes),
        tuple(path for path in before if path not in after),
        tuple(path for path in after if path not in before),
        left_out,
        _differences(old, new),
    )


class _Pair(NamedTuple):
    """A figure of two runs."""

    path: str
    old: Figure
    new: Figure

    def change(self, confidence: float) -> Change:
        """Return the change, which is not judged yet."""
        old, new = self.old, self.new
        first, second = old.middle, new.middle
        ratio = second / first
        made = Change(
            self.path, first, second, ratio, None, None, None, "other figures", "not judged"
        )
        if min(len(old.values), len(new.values)) >= _LEAST_SAMPLES:
            low, high = bootstrap_interval(old.values, new.values, confidence)
            probability = mann_whitney(old.values, new.values)
            return replace(made, low=low, high=high, probability=probability, basis="samples")
        if old.quartiles and new.quartiles:
            given = first, old.quartiles, second, new.quartiles
            low, high = quartile_interval(*given, confidence)
            probability = quartile_test(*given)
            return replace(made, low=low, high=high, probability=probability, basis="quartiles")
        if old.extremes and new.extremes:
            return replace(made, basis="extremes")
        return made

    def is_disjoint(self) -> bool:
        """Return whether the extremes of the two runs do not overlap."""
        old, new = self.old.extremes, self.new.extremes
        assert old is not None
        assert new is not None
        return max(old[0], new[0]) > min(old[1], new[1])


def _judged(
    changes: Sequence[Change], pairs: Sequence[_Pair], rate: float, least: float
) -> list[Change]:
    """Judge changes, each on its basis, those that are tested all together."""
    is_real: dict[str, bool] = {}
    tested = [each for each in changes if each.probability is not None]
    discovered = false_discovery([each.probability or 0.0 for each in tested], rate)
    is_real |= {each.figure: found for each, found in zip(tested, discovered, strict=True)}
    alone = [each for each in changes if each.basis == "other figures"]
    if len(alone) >= _LEAST_MEDIANS:
        scores = outlier_scores([math.log(each.ratio) for each in alone])
        is_real |= {
            each.figure: abs(score) > _OUTLIER for each, score in zip(alone, scores, strict=True)
        }
    judged = []
    for change, pair in zip(changes, pairs, strict=True):
        counts = pair.is_disjoint() if change.basis == "extremes" else is_real.get(change.figure)
        verdict: Verdict = "same"
        if counts is None:
            verdict = "not judged"
        elif counts and abs(change.ratio - 1) >= least:
            verdict = "better" if (change.ratio > 1) == pair.new.more_is_better else "worse"
        judged.append(replace(change, verdict=verdict))
    return judged


def _differences(old: Any, new: Any) -> dict[str, tuple[str, str]]:
    """Return what differs between the machines of two runs."""
    machines = [each.get("machine") if isinstance(each, Mapping) else None for each in (old, new)]
    before, after = (each if isinstance(each, Mapping) else {} for each in machines)
    return {
        name: (str(before.get(name)), str(after.get(name)))
        for name in dict.fromkeys((*before, *after))
        if name not in _OF_A_RUN and before.get(name) != after.get(name)
    }


# -- significance ---------------------------------------------------------------------------------


#: Most samples of both sides for which the distribution of ranks is counted.
_MAX_EXACT = 40
_RESAMPLES = 2000
#: Factors of a normal distribution: standard error of a median by that of the mean, and distance
#: of the quartiles by the standard deviation.
_MEDIAN_ERROR, _QUARTILES_APART = 1.2533, 1.349
#: The median of absolute deviations of a normal distribution, by the standard deviation.
_MAD_SHARE = 0.6745
_NORMAL = NormalDist()


def mann_whitney(old: Sequence[float], new: Sequence[float]) -> float:
    """Return how probable ranks as different as those of two samples are by chance.

    The ranks are shared out to the two samples in all ways. The result is the share of ways in
    which the sum of the old ones is as far from its mean, or farther. Equal values have the mean of
    their ranks.

    Examples
    --------
    >>> round(mann_whitney([1, 2, 3, 4], [5, 6, 7, 8]), 6)
    0.028571
    >>> round(mann_whitney([1, 1, 1, 1], [2, 2, 2, 2]), 6)
    0.028571
    """
    n, m = len(old), len(new)
    total = n + m
    together = sorted([*old, *new])
    ranks = _doubled_ranks(together)
    twice_mean = n * (total + 1)
    distance = abs(sum(ranks[each] for each in old) - twice_mean)
    if total <= _MAX_EXACT:
        ways = _rank_sum_counts([ranks[each] for each in together], n)
        sums = np.arange(len(ways))
        return float(ways[np.abs(sums - twice_mean) >= distance].sum() / math.comb(total, n))
    ties = [count for count in Counter(together).values() if count > 1]
    tied = sum(count**3 - count for count in ties) / (total * (total - 1))
    variance = n * m / 12 * (total + 1 - tied)
    if variance == 0:
        return 1.0
    # Ranks are whole, the normal distribution is not.
    return 2 * _NORMAL.cdf(-max(0.0, distance / 2 - 0.5) / math.sqrt(variance))


def _doubled_ranks(together: Sequence[float]) -> dict[float, int]:
    """Return twice the rank of each value in sorted ones, which is whole with ties, too."""
    places: dict[float, list[int]] = {}
    for place, value in enumerate(together, 1):
        places.setdefault(value, []).append(place)
    return {value: found[0] + found[-1] for value, found in places.items()}


def _rank_sum_counts(
    ranks: Sequence[int], count: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return how many choices of `count` ranks have each sum, by the sum."""
    # The table is indexed by the number of chosen ranks, and by their sum; 40 over 20 is less than
    # 2**38.
    ways = np.zeros((count + 1, sum(ranks) + 1), np.int64)
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, :-rank]
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = ways[count]
    return found


def bootstrap_interval(
    old: Sequence[float], new: Sequence[float], confidence: float
) -> tuple[float, float]:
    """Return an interval for the ratio of the medians, new to old, by resampling.

    The same samples have the same interval: the resampling begins with the same seed.
    """
    rng = np.random.default_rng(0)

    def medians(samples: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        drawn = rng.choice(np.asarray(samples, np.float64), (_RESAMPLES, len(samples)))
        found: np.ndarray[tuple[int], np.dtype[np.float64]] = np.median(drawn, axis=1)
        return found

    ratios = medians(new) / medians(old)
    tail = (1 - confidence) / 2
    low, high = np.quantile(ratios, (tail, 1 - tail))
    return float(low), float(high)


def _log_error(middle: float, quartiles: Quartiles) -> float:
    """Return the standard error of the logarithm of a median."""
    apart = max(0.0, quartiles.third - quartiles.first)
    return _MEDIAN_ERROR * apart / _QUARTILES_APART / math.sqrt(quartiles.samples) / middle


def quartile_test(old: float, of_old: Quartiles, new: float, of_new: Quartiles) -> float:
    """Return how probable a distance as that of two medians is by chance, by their quartiles."""
    error = math.hypot(_log_error(old, of_old), _log_error(new, of_new))
    distance = abs(math.log(new / old))
    if error == 0:
        return float(distance == 0)
    return 2 * _NORMAL.cdf(-distance / error)


def quartile_interval(
    old: float, of_old: Quartiles, new: float, of_new: Quartiles, confidence: float
) -> tuple[float, float]:
    """Return an interval for the ratio of two medians, new to old, by their quartiles."""
    error = math.hypot(_log_error(old, of_old), _log_error(new, of_new))
    reach = math.exp(error * _NORMAL.inv_cdf((1 + confidence) / 2))
    return new / old / reach, new / old * reach


def false_discovery(probabilities: Sequence[float], rate: float) -> list[bool]:
    """Say which of many tests count as changes, so that of these `rate` are by chance at most.

    Examples
    --------
    >>> false_discovery([0.01, 0.04, 0.03, 0.5], 0.05)
    [True, False, False, False]
    """
    count = len(probabilities)
    order = sorted(range(count), key=lambda each: probabilities[each])
    last = 0
    for place, index in enumerate(order, 1):
        if probabilities[index] <= rate * place / count:
            last = place
    counted = set(order[:last])
    return [index in counted for index in range(count)]


def outlier_scores(values: Sequence[float]) -> list[float]:
    """Return how far each value is from the median, by the median of these distances.

    A value beyond 3.5 is taken for an outlier.
    """
    middle = median(values)
    distances = [abs(each - middle) for each in values]
    # If most values are equal, the mean of the distances replaces the median.
    scale = median(distances) / _MAD_SHARE or 1.2533 * sum(distances) / len(distances)
    return [0.0 if scale == 0 else (each - middle) / scale for each in values]
