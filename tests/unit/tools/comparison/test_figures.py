"""Figures are found in the results of every benchmark, with their directions and spreads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kerneldsl.tools.comparison.figures import Quartiles, figures_of

RESULTS = Path(__file__).parents[4] / "benchmarks" / "results"


@pytest.mark.parametrize(
    ("name", "value", "more_is_better"),
    [
        ("us", 3.0, False),
        ("median_s", 3.0, False),
        ("ours_s", 1, False),
        ("seconds", 3.0, False),
        ("axpy_4096_s_per_thread", 1e-9, False),
        ("copy_gbps", 3.0, True),
        ("gb_per_s", 3.0, True),
        ("copy_bytes_per_s", 3.0, True),
        ("speed_ratio", 1.0, True),
    ],
)
def test_the_name_of_a_figure_says_what_is_better(
    name: str, value: float, more_is_better: bool
) -> None:
    (figure,) = figures_of({name: value}).values()
    assert figure.middle == value
    assert figure.more_is_better == more_is_better


@pytest.mark.parametrize("name", ["count", "floor_s", "required", "bound_us", "ratio", "registers"])
def test_what_is_no_figure_of_ours_is_left_out(name: str) -> None:
    assert not figures_of({name: 3.0})


def test_the_unit_of_a_group_is_that_of_what_is_in_it() -> None:
    found = figures_of({"rows": [{"name": "exp", "seconds": {"ours": 1.0, "C": 2.0}}]})
    assert {path: figure.middle for path, figure in found.items()} == {
        "rows, exp, seconds: ours": 1.0,
        "rows, exp, seconds: C": 2.0,
    }


def test_samples_take_the_place_of_their_medians() -> None:
    found = figures_of({"medians": {"a": 2.0}, "samples": {"a": [1.0, 2.0, 3.0], "floor": [1.0]}})
    assert {path: figure.values for path, figure in found.items()} == {
        "samples: a": [1.0, 2.0, 3.0]
    }


def test_rows_of_one_name_are_samples() -> None:
    rows = [{"case": "a", "block": [32, 1], "gb_per_s": each} for each in (1.0, 2.0, 3.0, 4.0)]
    (figure,) = figures_of({"samples": rows}).values()
    assert figure.values == [1.0, 2.0, 3.0, 4.0]
    assert figure.more_is_better


def test_quartiles_and_extremes_are_read_beside_their_median() -> None:
    (figure,) = figures_of({"median_s": 2.0, "q1_s": 1.0, "q3_s": 4.0, "samples": 21}).values()
    assert figure.quartiles == Quartiles(1.0, 4.0, 21)
    (figure,) = figures_of({"us": 2.0, "us_low": 1.0, "us_high": 4.0}).values()
    assert figure.extremes == (1.0, 4.0)


@pytest.mark.parametrize(
    ("file", "least"),
    [
        ("cpu.json", 15),
        ("cpu-lanes.json", 15),
        ("expressions-h200.json", 10),
        ("gpu-h200.json", 60),
        ("launch-h200.json", 49),
        ("library-h200.json", 100),
        ("memory-h200.json", 60),
        ("planner-cpu.json", 100),
        ("start-cpu.json", 4),
        ("tiles-h200.json", 60),
    ],
)
def test_stored_results_have_figures(file: str, least: int) -> None:
    found = figures_of(json.loads((RESULTS / file).read_text()))
    assert len(found) >= least
    assert not [path for path in found if path.startswith("machine")]
