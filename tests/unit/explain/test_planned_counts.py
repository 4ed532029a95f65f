"""The planner and `explain` count the same: operations, accesses, and the sectors they touch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneldsl.analysis.work import BodyWork
from kerneldsl.language.signatures import parse_signature
from kerneldsl.planner.work import SECTOR_BYTES, element_work
from tests.support.counting import counted
from tests.support.extent import examples
from tests.support.source import exec_source

pytest.importorskip("sympy", reason="the sym extra is not installed")

_EXTENT = 2048
_TERMS = st.sampled_from(
    [
        *("t + {a}", "t - {a}", "{a} * t", "t / ({a} + t)", "t * t", "{a} ** t", "math.exp(t)"),
        *("math.sqrt({a})", "abs({a}) - t", "min(t, {a})", "math.sin(t) * math.exp({a})"),
        "float(t) + {a}",
    ]
)


@st.composite
def _kernels(draw) -> tuple[str, list[tuple[str, int]]]:
    """Source of an element kernel, and of each access its array and elements between neighbours."""
    arrays: list[tuple[str, int]] = []

    def term(rounds: int) -> str:
        stride = draw(st.integers(1, 12))
        index = f"i * {stride} + {8 * draw(st.integers(0, 9))}"
        if rounds:
            index += f" + {8 * draw(st.integers(1, 5))} * j"
        name = f"a{len(arrays)}"
        found = draw(_TERMS)
        if "{a}" in found:
            arrays.append((name, stride))
        return found.format(a=f"{name}[{index}]")

    lines = ["t = np.float32(1)"]
    lines += [f"t = {term(0)}" for _ in range(draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(0, 2))):
        rounds = draw(st.integers(1, 9))
        lines.append(f"for j in range({rounds}):")
        lines += [f"    t = {term(rounds)}" for _ in range(draw(st.integers(1, 2)))]
    parameters = ", ".join(name for name, _ in arrays)
    body = "\n        ".join(lines)
    source = (
        "import math\nimport numpy as np\nimport kerneldsl as kd\n\n"
        f"@kd.kernel\ndef kernel(out{', ' if arrays else ''}{parameters}):\n"
        f"    i = kd.grid(1)\n    if i < out.size:\n        {body}\n        out[i] = t\n"
    )
    return source, arrays


@settings(deadline=None, max_examples=examples(60, 6))
@given(_kernels(), st.sampled_from(["float32", "float64"]))
def test_operations_and_accesses(made: tuple[str, list[tuple[str, int]]], dtype: str) -> None:
    source, arrays = made
    kernel = exec_source(source)["kernel"]
    signature = ", ".join([f"{dtype}[::1]"] * (len(arrays) + 1))
    sizes = {"out": (_EXTENT,)} | {name: (16 * _EXTENT,) for name, _ in arrays}
    explained = kernel.explain(signature, forall=_EXTENT, sizes=sizes)
    planned = counted(kernel, signature).body()

    by_lanes: dict[str, float] = {}
    for (_, name), count in explained.operations.items():
        by_lanes[name] = by_lanes.get(name, 0.0) + count / _EXTENT
    others = {"abs", "compare", "min"}  # no arithmetic, which `explain` leaves out
    assert {k: v for k, v in planned.operations.items() if k not in others and v} == by_lanes

    by_array = {each.array: each for each in explained.accesses}
    assert len(planned.accesses) == len(by_array)
    for access in planned.accesses:
        found = by_array["out" if access.parameter == 0 else f"a{access.parameter - 1}"]
        assert access.count * _EXTENT == found.threads
        assert access.is_store == (found.operation == "store")
        assert (access.step or 1) == found.stride
        alone = element_work(BodyWork((access,)), parse_signature(signature))
        is_dense = access.pattern == "contiguous"
        each = found.itemsize if is_dense else alone.scattered_bytes / access.count
        assert each * found.threads == SECTOR_BYTES * found.sectors
