"""A plan's formula: numbers substituted give the time that the model predicted."""

from __future__ import annotations

import math
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.contract import HostShare
from kerneldsl.errors import ArgumentValueError
from kerneldsl.planner.choose import rank
from kerneldsl.planner.describe import all_plans
from kerneldsl.planner.formula import HostModel, model_formula
from kerneldsl.planner.host import element_ns
from kerneldsl.planner.work import ArrayReads, ElementWork
from tests.support.extent import examples, full_beyond
from tests.unit.planner.test_planner import problem, works

PAGE = Path(__file__).parents[3] / "docs" / "planning.md"


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def transpose(x, out):
    i, j = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[j, i]


@kd.kernel
def blur(x, out):
    i, j = kd.grid(2)
    if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
        out[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]


@kd.kernel
def histogram(x, counts):
    i = kd.grid(1)
    if i < x.size:
        kd.atomic.add(counts, x[i], 1)


@kd.kernel
def gather(x, index, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = math.sqrt(x[index[i]])


@kd.kernel
def block_histogram(x, out):
    counts = kd.shared.array(256, np.int32)
    t = kd.threadIdx.x
    counts[t] = 0
    kd.syncthreads()
    for k in range(8):
        i = (kd.blockIdx.x * 8 + k) * 256 + t
        if i < x.size:
            kd.atomic.add(counts, x[i], 1)
    kd.syncthreads()
    kd.atomic.add(out, t, counts[t])


LAUNCHES: dict[str, tuple[Any, str]] = {
    "axpy": (axpy.forall(1 << 24), "float64, float32[::1], float32[::1], float32[::1]"),
    "axpy, small": (axpy.forall(1000), "float64, float64[::1], float64[::1], float64[::1]"),
    "transpose": (transpose.forall(3000, 2000), "float32[:,::1], float32[:,::1]"),
    "blur": (blur.forall(4096, 4096), "float32[:,::1], float32[:,::1]"),
    "histogram": (histogram.forall(1 << 22), "int64[::1], int32[::1]"),
    "gather": (gather.forall(1 << 20), "float32[::1], int32[::1], float32[::1]"),
    "block histogram": (block_histogram[4096, 256], "uint8[::1], int32[::1]"),
}


@pytest.mark.parametrize("arch", full_beyond(["sm_75", "sm_90", "sm_120"], ["sm_90"]))
@pytest.mark.parametrize("name", LAUNCHES)
def test_the_formula_gives_the_predicted_time(name: str, arch: str) -> None:
    launch, signature = LAUNCHES[name]
    plan = launch.plan(signature, arch=arch)
    formula = plan.formula()
    assert formula.evaluate() == pytest.approx(plan.predicted_ns, rel=1e-12)
    assert formula.time_ns.free_symbols <= {*formula.values, *formula.steps}


@settings(deadline=None, max_examples=examples(100))
@given(works, st.integers(1, 2**30), st.integers(1, 4), st.data())
def test_the_formula_of_any_plan_gives_its_time(
    work: ElementWork, n: int, rows: int, data: st.DataObject
) -> None:
    arrays = (ArrayReads(4, (2, 2, 0)),) if work.loads else ()
    asked = problem((rows, n), work._replace(arrays=arrays, crossed_bytes=work.written_bytes))
    compiled = {
        (each.problem.constants, each.candidate.mapping): each.resources
        for each in rank([asked], {})
    }
    plan = data.draw(st.sampled_from(all_plans([asked], compiled)))
    assert plan.formula().evaluate() == pytest.approx(plan.predicted_ns, rel=1e-12)


@settings(deadline=None, max_examples=examples(100))
@given(
    works,
    st.lists(st.integers(1, 2**12), min_size=1, max_size=3),
    st.integers(1, 64),
    st.floats(0.0, 1e6),
)
def test_the_formula_of_a_launch_on_the_cpu_gives_its_time(
    work: ElementWork, extent: list[int], threads: int, wake_ns: float
) -> None:
    crossed = work._replace(crossed_bytes=work.written_bytes)
    model = HostModel(crossed, tuple(extent), threads, wake_ns)
    indices, each = math.prod(extent), element_ns(crossed, tuple(extent))
    expected = indices * each / threads + (wake_ns if threads > 1 else 0.0)
    assert model.predict_ns() == pytest.approx(expected, rel=1e-15)
    assert model_formula(model).evaluate() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [100, 1 << 22])
def test_plans_for_the_cpu_have_formulas_too(n: int) -> None:
    with kd.use("cpu"):
        x = np.ones(n, np.float32)
        plan = axpy.forall(n).plan(2.0, x, x, np.empty_like(x))
    formula = plan.formula()
    assert plan.predicted_ns == pytest.approx(formula.evaluate(), rel=1e-12)
    assert plan.host is not None
    given = {each.name: value for each, value in formula.values.items()}
    assert given["extent_0"] == n
    assert given.get("threads", 1) == plan.host.threads
    given_plan = replace(plan, host=HostShare(2, n // 2))
    with kd.use("cpu"):
        shared = axpy.forall(n, plan=given_plan).plan(2.0, x, x, np.empty_like(x)).formula()
    assert "threads" in {each.name for each in shared.values}


def test_other_values_give_other_times() -> None:
    launch, signature = LAUNCHES["axpy"]
    plan = launch.plan(signature, arch="sm_90")
    formula = plan.formula()
    rates = plan.model.inputs.rates._replace(memory_bytes_per_s=1e12)
    slower = plan.model._replace(inputs=plan.model.inputs._replace(rates=rates))
    expected = model_formula(slower).evaluate()
    assert formula.evaluate(memory_bytes_per_s=1e12) == pytest.approx(expected, rel=1e-12)
    assert expected > 2 * plan.predicted_ns
    # The extent counts blocks, too.
    half = formula.evaluate(extent_0=1 << 23)
    assert 0.45 < half / plan.predicted_ns < 0.6
    # What each step is worth is the time of the last.
    steps = formula.evaluate_steps()
    assert steps["time_ns"] == formula.evaluate()
    assert steps["grid_blocks"] == plan.grid_blocks


def test_the_expanded_formula_is_of_values_alone() -> None:
    launch, signature = LAUNCHES["axpy"]
    plan = launch.plan(signature, arch="sm_90")
    formula = plan.formula()
    whole = formula.expanded()
    assert whole.free_symbols == set(formula.values)
    assert float(whole.subs(formula.values)) == pytest.approx(plan.predicted_ns, rel=1e-12)


def test_every_symbol_is_on_the_page() -> None:
    page = PAGE.read_text()
    listed = set(re.findall(r"`(\w+)`", page[page.index("### The model as a formula") :]))
    met: set[str] = set()
    for launch, signature in LAUNCHES.values():
        formula = launch.plan(signature, arch="sm_90").formula()
        met |= {each.name for each in (*formula.values, *formula.steps)}
    every = ElementWork(*([1.0] * len(ElementWork._fields)))._replace(
        arrays=(), narrowest_bytes=4, widest_bytes=4, has_unknown_loop=False, is_serial=False
    )
    host = model_formula(HostModel(every, (64, 64, 64), 2, 1e3))
    met |= {each.name for each in (*host.values, *host.steps)}
    assert len(met) > 60
    assert met <= listed, met - listed


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"shared_atomics": 2}, "the formula has no symbol shared_atomics"),
        ({"active_blocks": 0}, "active_blocks is 0"),
        ({"active_blocks": "4"}, "active_blocks is '4'"),
        ({"clock_hz": math.nan}, "clock_hz is nan"),
    ],
)
def test_values_that_no_formula_takes(others: dict[str, Any], message: str) -> None:
    launch, signature = LAUNCHES["axpy"]
    formula = launch.plan(signature, arch="sm_90").formula()
    with pytest.raises(ArgumentValueError, match=re.escape(message)):
        formula.evaluate(**others)


def test_a_plan_keeps_its_numbers_to_itself() -> None:
    launch, signature = LAUNCHES["axpy"]
    plan = launch.plan(signature, arch="sm_90")
    assert "model" not in repr(plan)
    assert "model" not in plan.to_dict()
    again = eval(  # noqa: S307
        repr(plan), {n: getattr(kd, n) for n in ("LaunchPlan", "PlanAlternative", "ElementMapping")}
    )
    assert again == plan
    with pytest.raises(ArgumentValueError, match="the plan of axpy has no formula"):
        again.formula()
    restored = pickle.loads(pickle.dumps(plan))  # noqa: S301
    assert restored.formula().evaluate() == plan.formula().evaluate()


def test_planning_and_launching_import_no_sympy(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        "import sys\nimport numpy as np\nimport kerneldsl as kd\n"
        "@kd.kernel\ndef double(x):\n    i = kd.grid(1)\n    if i < x.size:\n        x[i] *= 2\n"
        "double.forall(1 << 20).plan('float32[::1]', device='null')\n"
        "with kd.use('cpu'):\n"
        "    double.forall(9)(np.ones(9))\n    double.forall(9).plan(np.ones(9))\n"
        "assert 'sympy' not in sys.modules\nprint('launched')\n"
    )
    ran = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
    assert ran.stdout == "launched\n", ran.stderr
