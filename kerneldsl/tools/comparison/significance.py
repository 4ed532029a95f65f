"""Telling a change from chance: tests of two samples, and of one figure among others.

Times of programs are skewed and have outliers, so that nothing here takes them for normal but the
medians of samples that are given by their quartiles.

References
----------
H. B. Mann, D. R. Whitney, "On a Test of Whether one of Two Random Variables is Stochastically
Larger than the Other", Annals of Mathematical Statistics 18 (1947); Y. Benjamini, Y. Hochberg,
"Controlling the False Discovery Rate", Journal of the Royal Statistical Society B 57 (1995);
B. Efron, R. J. Tibshirani, "An Introduction to the Bootstrap", chapter 13; R. McGill, J. W. Tukey,
W. A. Larsen, "Variations of Box Plots", The American Statistician 32 (1978); B. Iglewicz, D. C.
Hoaglin, "How to Detect and Handle Outliers" (1993), section 3.3.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist, median

import numpy as np

from kerneldsl.tools.comparison.figures import Quartiles

__all__ = [
    "bootstrap_interval",
    "false_discovery",
    "mann_whitney",
    "outlier_scores",
    "quartile_interval",
    "quartile_test",
]

#: Up to so many samples, of both sides, the distribution of the ranks is counted.
_MAX_EXACT = 40
_RESAMPLES = 2000
#: Of a normal distribution, the standard error of a median by that of the mean, and the distance of
#: the quartiles by the standard deviation.
_MEDIAN_ERROR, _QUARTILES_APART = 1.2533, 1.349
#: The median of absolute deviations of a normal distribution, by the standard deviation.
_MAD_SHARE = 0.6745
_NORMAL = NormalDist()


def mann_whitney(old: Sequence[float], new: Sequence[float]) -> float:
    """Return how probable ranks as different as those of two samples are by chance.

    Of all ways to share the ranks out to the two samples, it is the share in which the sum of the
    old ones is as far from its mean, or farther. Equal values have the mean of their ranks.

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
        ways = _ways([ranks[each] for each in together], n)
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


def _ways(ranks: Sequence[int], count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return in how many ways so many of the ranks have each sum, by the sum."""
    # By how many are chosen, and by their sum; 40 over 20 is less than 2**38.
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
    # Where most are the same, the mean of the distances takes the median's place.
    scale = median(distances) / _MAD_SHARE or 1.2533 * sum(distances) / len(distances)
    return [0.0 if scale == 0 else (each - middle) / scale for each in values]
