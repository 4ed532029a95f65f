"""Tests of significance against SciPy's, and against what they promise."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneldsl.tools.comparison.compare import (
    bootstrap_interval,
    false_discovery,
    mann_whitney,
    outlier_scores,
    quartile_interval,
    quartile_test,
)
from kerneldsl.tools.comparison.figures import Quartiles

stats = pytest.importorskip("scipy.stats")

SMALL = st.lists(st.integers(1, 8).map(float), min_size=1, max_size=6)
MANY = st.lists(st.integers(1, 30).map(float), min_size=21, max_size=40)
FEW = st.lists(st.floats(1, 2), min_size=4, max_size=20)


@settings(deadline=None)
@given(SMALL, SMALL)
def test_few_samples_are_counted_as_every_way_to_share_them_out(
    old: list[float], new: list[float]
) -> None:
    """Against the enumeration, ties included; SciPy's exact test is for samples without them."""
    together = np.array([*old, *new])
    ranks = stats.rankdata(together)
    mean = len(old) * ranks.mean()
    chosen = [sum(ranks[list(each)]) for each in combinations(range(len(together)), len(old))]
    distance = abs(sum(ranks[: len(old)]) - mean)
    expected = np.mean([abs(each - mean) >= distance for each in chosen])
    assert mann_whitney(old, new) == pytest.approx(expected, rel=1e-12)
    assert mann_whitney(new, old) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("count", [4, 7, 20])
def test_two_values_are_as_improbable_as_the_order_of_as_many(count: int) -> None:
    assert mann_whitney([1.0] * count, [2.0] * count) == pytest.approx(
        2 / math.comb(2 * count, count)
    )


@settings(deadline=None)
@given(MANY, MANY)
def test_the_test_of_many_ranks_is_scipys_with_ties(old: list[float], new: list[float]) -> None:
    if len({*old, *new}) == 1:
        assert mann_whitney(old, new) == 1.0
        return
    expected = stats.mannwhitneyu(old, new, method="asymptotic").pvalue
    assert mann_whitney(old, new) == pytest.approx(expected, abs=1e-9)


@settings(deadline=None)
@given(FEW, FEW)
def test_few_samples_without_ties_are_counted_exactly(old: list[float], new: list[float]) -> None:
    if len({*old, *new}) < len(old) + len(new):
        return
    expected = stats.mannwhitneyu(old, new, method="exact").pvalue
    assert mann_whitney(old, new) == pytest.approx(expected, rel=1e-9)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), max_size=30), st.floats(0.01, 0.5))
def test_discoveries_are_scipys(probabilities: list[float], rate: float) -> None:
    found = false_discovery(probabilities, rate)
    if not probabilities:
        assert found == []
        return
    adjusted = stats.false_discovery_control(probabilities)
    close = np.isclose(adjusted, rate, rtol=1e-9)
    assert [bool(each) for each in np.asarray(found)[~close]] == list((adjusted <= rate)[~close])


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 100), st.sampled_from([1.0, 1.2]))
def test_the_interval_holds_the_true_ratio_as_often_as_it_says(seed: int, ratio: float) -> None:
    rng = np.random.default_rng(seed)
    held = 0
    for _ in range(60):
        old, new = rng.lognormal(0, 0.1, 31), ratio * rng.lognormal(0, 0.1, 31)
        low, high = bootstrap_interval(list(old), list(new), 0.95)
        held += low <= ratio <= high
    assert held >= 50


def test_quartiles_say_the_same_as_the_samples_they_are_of() -> None:
    rng = np.random.default_rng(1)

    def described(samples: np.ndarray) -> tuple[float, Quartiles]:
        q1, q2, q3 = np.quantile(samples, (0.25, 0.5, 0.75))
        return float(q2), Quartiles(float(q1), float(q3), len(samples))

    same = 0
    for _ in range(200):
        one, two = (described(rng.normal(10, 0.2, 41)) for _ in range(2))
        same += quartile_test(*one, *two) > 0.05
        low, high = quartile_interval(*one, *two, 0.95)
        assert low < two[0] / one[0] < high
    assert same >= 170
    one, two = described(rng.normal(10, 0.2, 41)), described(rng.normal(11, 0.2, 41))
    assert quartile_test(*one, *two) < 1e-6


def test_quartiles_that_are_one_number_are_judged_by_equality() -> None:
    point = Quartiles(2.0, 2.0, 9)
    assert quartile_test(2.0, point, 2.0, point) == 1.0
    assert quartile_test(2.0, point, 2.1, Quartiles(2.1, 2.1, 9)) == 0.0


def test_an_outlier_is_far_from_the_median_by_the_others_distances() -> None:
    scores = outlier_scores([0.0, 0.01, -0.01, 0.02, -0.02, 0.01, 0.0, 0.5])
    assert abs(scores[-1]) > 3.5 > max(map(abs, scores[:-1]))
    assert outlier_scores([1.0, 1.0]) == [0.0, 0.0]
    assert outlier_scores([0.0] * 20 + [1.0])[-1] > 3.5
