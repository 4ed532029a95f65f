"""Formulas of generated kernels are worth what is counted, whatever leaves a loop or a block."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.extent import examples
from tests.support.source import exec_source

pytest.importorskip("sympy", reason="the sym extra is not installed")

_CONDITIONS = st.sampled_from(
    [
        *("i < n", "i < a.size - 3", "i >= 5", "0 < i < n - 1", "i % 2 == 0", "i % 3 == k"),
        *("k > i", "k == 4", "k < n - 20", "i < n and a[i] > 0", "i > 70 or i < 4", "not i < 9"),
        *("a[i] > 0", "n > 40", "i + k < n", "i < k"),
    ]
)
_RANGES = st.sampled_from(
    ["7", "n // 4", "2, 9", "1, 12, 3", "i % 5", "k", "9, 0, -2", "a.size % 6", "3, 3"]
)
_VALUES = st.sampled_from(
    ["a[i] * a[k]", "t + a[i]", "t * t - a[k + 1]", "half(a[i], n)", "twice(t, k)"]
)


_FUNCTIONS = """
import numpy as np
import kerneldsl as kd

@kd.func
def half(v, n):
    s = v
    for j in range(n % 8):
        if j == 3:
            return s
        s = s * v
    return s


@kd.func
def twice(v, k):
    return v + v if k < 2 else v
"""


@st.composite
def _blocks(draw, depth=0, loops=0):
    """Lines of a block of statements, without their indentation."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        kinds = ["sum", "store", "choice"]
        kinds += ["if", "if", "for"] if depth < 3 else []
        kinds += ["while"] if not loops else []
        kinds += ["return"] if depth else []
        kinds += ["break", "continue"] if loops else []
        kind = draw(st.sampled_from(kinds))
        condition = draw(_CONDITIONS)
        inner = {"depth": depth + 1, "loops": loops}
        match kind:
            case "sum":
                lines.append(f"t = t + {draw(_VALUES)}")
            case "store":
                lines.append("out[i] = t")
            case "choice":
                one, two = draw(_VALUES), draw(_VALUES)
                lines.append(f"t = {one} if {condition} else {two}")
            case "if":
                lines += [f"if {condition}:", *_indented(draw(_blocks(**inner)))]
                if draw(st.booleans()):
                    lines += ["else:", *_indented(draw(_blocks(**inner)))]
            case "for":
                inner["loops"] += 1
                lines += [f"for k in range({draw(_RANGES)}):", *_indented(draw(_blocks(**inner)))]
            case "while":
                name = f"w{depth}"
                inner["loops"] += 1
                body = [f"{name} += 2", *draw(_blocks(**inner))]
                lines += [f"{name} = 0", f"while {name} < i % 7:", *_indented(body)]
            case _:
                lines.append(kind)
                break
    return lines


def _indented(lines):
    return [f"    {line}" for line in lines]


def _kernel(lines):
    body = ["i = kd.grid(1)", "k = 0", "t = np.float32(0)", *lines, "out[0] = t"]
    text = "\n".join([_FUNCTIONS, "@kd.kernel", "def generated(a, out, n):", *_indented(body)])
    return exec_source(text + "\n")["generated"]


@given(_blocks(), st.integers(30, 90), st.sampled_from([(32, 3), (40, 2), (64, 1)]))
@settings(max_examples=examples(60), deadline=None)
def test_formulas_of_generated_kernels_are_worth_what_is_counted(lines, n, shape):
    block, grid = shape
    signature = "float32[::1], float32[::1], int64"
    sizes = {"a": 120, "out": 120, "n": n}
    found = _kernel(lines).explain(
        signature, block=block, grid=grid, sizes=sizes, arch="sm_90", occupancy=False
    )
    near = 0.02 if found.is_sampled else 1e-7  # counts are then estimates
    formulas = found.formulas
    for dtype in ("float32", "float64"):
        counted = found.flops(dtype)
        if counted:
            assert formulas.evaluate(formulas.flops[dtype]) == pytest.approx(counted, rel=near)
        else:
            assert dtype not in formulas.flops
    asked = sum(each.itemsize * each.threads for each in found.accesses)
    assert formulas.evaluate(formulas.requested_bytes) == pytest.approx(asked, rel=near)


@pytest.mark.parametrize(
    ("lines", "symbol"),
    [
        (["for k in range(50):", "    if k == 10:", "        break", "    t += a[k]"], "rounds("),
        (["t = a[i] * a[i] if n > 40 else t"], "part("),
        (["if n > 90:", "    if i % 2 == 0:", "        return", "t = t + a[i]"], "part("),
    ],
)
def test_what_is_no_bound_stands_as_a_symbol_with_what_was_met(lines, symbol):
    signature = "float32[::1], float32[::1], int64"
    sizes = {"a": 120, "out": 96, "n": 50}
    found = _kernel(lines).explain(signature, block=32, sizes=sizes, arch="sm_90", occupancy=False)
    (formula,) = found.formulas.flops.values()
    assert symbol in str(formula)
    (name, value), *_ = (each for each in found.formulas.met().items() if each[0] in str(formula))
    assert f"{name} = {value:.4g}" in str(found)
