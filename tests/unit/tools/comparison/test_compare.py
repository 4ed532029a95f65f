"""Two runs compared: what is found, what is not, and how it is said."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.tools.comparison.compare import Change, compare_results

RESULTS = Path(__file__).parents[4] / "benchmarks" / "results"


def sampled(scale: float, seed: int, count: int = 31) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    samples = {"same": list(rng.lognormal(0, 0.05, count))}
    samples["changed"] = list(scale * rng.lognormal(0, 0.05, count))
    return {"samples": samples}


def of(changes: tuple[Change, ...], name: str) -> Change:
    (found,) = (each for each in changes if each.figure.endswith(f": {name}"))
    return found


@pytest.mark.parametrize(("scale", "verdict"), [(1.2, "worse"), (0.8, "better"), (1.0, "same")])
def test_samples_are_compared_by_their_ranks(scale: float, verdict: str) -> None:
    found = compare_results(sampled(1.0, 1), sampled(scale, 2))
    assert of(found.changes, "same").verdict == "same"
    changed = of(found.changes, "changed")
    assert changed.verdict == verdict
    assert changed.basis == "samples"
    assert changed.low is not None
    assert changed.high is not None
    assert changed.low <= changed.ratio <= changed.high
    assert (changed.figure in [each.figure for each in found.worse]) == (verdict == "worse")


def test_of_rates_less_is_worse() -> None:
    rng = np.random.default_rng(3)
    old, new = ({"gb_per_s": list(rate * rng.lognormal(0, 0.01, 9))} for rate in (100, 90))
    assert [each.verdict for each in compare_results(old, new).changes] == ["worse"]
    assert [each.verdict for each in compare_results(new, old).changes] == ["better"]


def test_chance_alone_is_rarely_a_change() -> None:
    rng = np.random.default_rng(4)

    def run() -> dict[str, Any]:
        return {"samples": {str(i): list(rng.lognormal(0, 0.05, 15)) for i in range(200)}}

    found = compare_results(run(), run())
    assert sum(each.verdict != "same" for each in found.changes) <= 2


def test_a_change_that_is_certain_and_small_counts_as_none() -> None:
    rng = np.random.default_rng(5)
    old, new = ({"us": list(scale * rng.normal(1, 1e-5, 30))} for scale in (1.0, 1.001))
    assert [each.verdict for each in compare_results(old, new).changes] == ["same"]
    assert [each.verdict for each in compare_results(old, new, least=1e-4).changes] == ["worse"]


def test_medians_with_quartiles_are_compared_by_them() -> None:
    def run(median: float) -> dict[str, Any]:
        spread = {"q1_s": 0.98 * median, "q3_s": 1.02 * median, "samples": 21}
        return {"rows": [{"case": "a", "median_s": median, **spread}]}

    (change,) = compare_results(run(1.0), run(1.1)).changes
    assert (change.basis, change.verdict) == ("quartiles", "worse")
    (change,) = compare_results(run(1.0), run(1.005)).changes
    assert change.verdict == "same"


def test_extremes_are_apart_or_not() -> None:
    def run(middle: float) -> dict[str, Any]:
        return {
            "rows": [{"launch": "a", "us": middle, "us_low": middle - 1, "us_high": middle + 1}]
        }

    (change,) = compare_results(run(10), run(13)).changes
    assert (change.basis, change.verdict, change.probability) == ("extremes", "worse", None)
    (change,) = compare_results(run(10), run(11)).changes
    assert change.verdict == "same"


def test_medians_alone_are_judged_by_the_others_or_not_at_all() -> None:
    rng = np.random.default_rng(6)

    def run(count: int, last: float) -> dict[str, Any]:
        rows = [{"name": str(i), "ours_s": rng.lognormal(0, 0.01)} for i in range(count)]
        rows[-1]["ours_s"] *= last
        return {"rows": rows}

    found = compare_results(run(12, 1.0), run(12, 1.5))
    assert {each.basis for each in found.changes} == {"other figures"}
    assert [each.figure for each in found.worse] == ["rows, 11: ours_s"]
    few = compare_results(run(3, 1.0), run(3, 1.5))
    assert {each.verdict for each in few.changes} == {"not judged"}


def test_a_run_compared_with_itself_has_no_change() -> None:
    for file in ("gpu-h200.json", "launch-h200.json", "library-h200.json", "start-cpu.json"):
        results = json.loads((RESULTS / file).read_text())
        found = compare_results(results, results)
        assert {each.verdict for each in found.changes} <= {"same", "not judged"}
        assert not found.only_old
        assert not found.only_new
        assert not found.machine


def test_what_one_run_has_alone_and_other_machines_are_told() -> None:
    old = {"machine": {"cpu": "a", "date": "1"}, "us": 1.0, "first_us": 1.0}
    new = {"machine": {"cpu": "b", "date": "2"}, "us": 1.0, "second_us": 1.0}
    found = compare_results(old, new)
    assert (found.only_old, found.only_new) == (("first_us",), ("second_us",))
    assert found.machine == {"cpu": ("a", "b")}


def test_runs_of_different_benchmarks_are_refused() -> None:
    with pytest.raises(kd.ArgumentValueError, match="no measurement in common"):
        compare_results({"a_us": 1.0}, {"b_us": 1.0})


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 0.0, -1.0])
@pytest.mark.parametrize("which", ["old", "new"])
def test_a_number_that_is_no_time_is_told_and_its_figure_left_out(wrong: float, which: str) -> None:
    runs = {"old": sampled(1.0, 1), "new": sampled(1.2, 2)}
    runs[which]["samples"]["same"][3] = wrong
    found = compare_results(runs["old"], runs["new"])
    assert [each.figure for each in found.changes] == ["samples: changed"]
    assert found.left_out == {"samples: same": f"{wrong:g} in the {which} file"}
    assert not found.only_old
    assert not found.only_new


def test_a_spread_that_is_no_number_is_told() -> None:
    rows = [
        {"case": name, "median_s": 1.0, "q1_s": 0.9, "q3_s": 1.1, "samples": 9} for name in "ab"
    ]
    bad = [{**rows[0], "q3_s": math.nan}, {**rows[1], "samples": 0}]
    found = compare_results({"rows": rows}, {"rows": bad})
    assert found.left_out == {"rows, a: median_s": "nan in the new file"}
    (change,) = found.changes
    assert change.basis == "other figures"


def test_files_of_zeros_have_figures_that_cannot_be_compared() -> None:
    zeros = {"samples": {"a": [0.0] * 8, "b": [0.0] * 8}}
    with pytest.raises(kd.ArgumentValueError) as refused:
        compare_results(zeros, sampled(1.0, 1) | {"samples": {"a": [1.0] * 8, "b": [1.0] * 8}})
    said = str(refused.value)
    assert "This is not so in 2 measurements: samples: a, 0 in the old file" in said
    assert "finite number above 0" in said
    assert "0 times and rates" not in said
