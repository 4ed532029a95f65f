"""The search for the fastest plan, replayed over the times of every plan that an H200 measured."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneldsl.tuning import search as search_module
from kerneldsl.tuning.search import Point, search, search_all

RECORD = Path(__file__).parents[3] / "benchmarks" / "results" / "sweep-h200.json.gz"


def recorded() -> list[dict[str, Any]]:
    spaces = json.loads(gzip.decompress(RECORD.read_bytes()))["spaces"]
    assert len(spaces) == 88
    return spaces


def points_of(space: dict[str, Any]) -> list[Point]:
    found = []
    for number, (block, items) in enumerate(zip(space["block"], space["items"], strict=True)):
        parameters: dict[str, Any] = {"block": tuple(block)}
        if "parameters" in space:
            parameters |= {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in space["parameters"][number].items()
            }
        else:
            threads, each = math.prod(block), math.prod(items)
            parameters |= {
                "items": each,
                "rows": items[1] * items[2],
                "vector": space["vector"][number],
                "threads": threads,
                "tile": (threads * each).bit_length(),
            }
        found.append(Point(space["predicted_ns"][number], parameters))
    return found


def test_a_tenth_of_the_measurements_finds_98_percent_of_the_optimum():
    reached, first, measured, plans = [], [], 0, 0
    for space in recorded():
        times = space["ns"]
        tried = list(search(points_of(space), times.__getitem__, lambda: False))
        assert len(set(tried)) == len(tried)
        reached.append(min(times) / min(times[number] for number in tried))
        first.append(min(times) / times[tried[0]])
        measured, plans = measured + len(tried), plans + len(times)
    assert geometric_mean(reached) >= 0.98
    assert measured <= 0.10 * plans
    assert geometric_mean(reached) > geometric_mean(first)


def test_all_plans_are_measured_the_first_and_then_by_prediction():
    points = [Point(float(time), {"block": time}) for time in (5, 2, 9, 3)]
    assert list(search_all(points, lambda number: 1.0, lambda: False)) == [0, 1, 3, 2]


def test_a_spent_budget_ends_the_search_after_one_measurement():
    points = [Point(float(time), {"block": time}) for time in range(1, 30)]
    for find in (search, search_all):
        assert list(find(points, lambda number: 1.0, lambda: True)) == [0]


def test_factors_of_single_parameters_are_learned():
    """Where the model is wrong by a factor for each value, its order is no better than chance."""
    random = np.random.default_rng(20261122)
    reached, by_chance = [], []
    for _ in range(100):
        rows, columns = (np.exp(random.normal(0.0, 0.15, count)) for count in (6, 8))
        points = [Point(1000.0, {"row": i, "column": j}) for i in range(6) for j in range(8)]
        times = [1000.0 * float(a * b) for a in rows for b in columns]
        tried = list(search(points, times.__getitem__, lambda: False))
        reached.append(min(times) / min(times[number] for number in tried))
        others = random.choice(len(points), len(tried), replace=False)
        by_chance.append(min(times) / min(times[number] for number in others))
    assert geometric_mean(reached) > geometric_mean(by_chance) * 1.05


def test_in_a_large_space_the_search_walks_on_around_the_fastest(monkeypatch: pytest.MonkeyPatch):
    """Values that go well together alone are no factors of single parameters."""
    random = np.random.default_rng(20261123)
    side = 16
    points = [Point(1000.0, {"row": i, "column": j}) for i in range(side) for j in range(side)]
    gains = []
    for _ in range(20):
        row, column = random.integers(0, side, 2)

        def time(number: int, row: int = row, column: int = column) -> float:
            i, j = divmod(number, side)
            apart = abs(i - row + j - column) + 0.2 * abs(i - row - j + column)
            return 1000.0 + 40.0 * float(apart)

        reached = []
        for large in (len(points), len(points) + 1):
            monkeypatch.setattr(search_module, "_LARGE", large)
            tried = list(search(points, time, lambda: False))
            assert len(set(tried)) == len(tried)
            reached.append(min(map(time, tried)))
        assert reached[0] <= reached[1]
        gains.append(reached[1] / reached[0])
    assert geometric_mean(gains) > 1.01


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(1.0, 1e9), st.floats(1.0, 1e9), st.integers(0, 3)),
        min_size=1,
        max_size=40,
    )
)
def test_no_plan_is_measured_twice_and_the_first_is_measured(
    plans: list[tuple[float, float, int]],
):
    points = [Point(predicted, {"block": block}) for predicted, _, block in plans]
    tried = list(search(points, lambda number: plans[number][1], lambda: False))
    assert len(set(tried)) == len(tried)
    assert tried[0] == 0


@pytest.mark.parametrize("broken", [{0}, {0, 1, 2, 3, 4}, set(range(40))])
def test_plans_that_cannot_run_are_passed_over(broken: set[int]):
    points = [Point(100.0 + number, {"block": number % 5}) for number in range(40)]
    tried = list(
        search(points, lambda n: None if n in broken else points[n].predicted_ns, lambda: False)
    )
    assert set(tried) - broken or len(broken) == 40
    assert len(set(tried)) == len(tried)
