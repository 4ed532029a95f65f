"""Statements over rows become loops for the ranks of the arguments."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.analysis.analyze import analyze
from kerneldsl.errors import KernelFault, UnsupportedConstructError
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.rows.reductions import REDUCTIONS, reduction_unit
from kerneldsl.ir.printer import print_function
from kerneldsl.language.element_types import DTYPE_NAMES
from tests.support.extent import examples, full_beyond
from tests.support.read_kernels import read_kernel_for
from tests.support.source import exec_source

MATRICES = "float64[:, ::1], float64[:, ::1]"


def loops(function: Any, signature: str = MATRICES) -> str:
    return print_function(read_kernel_for(function, signature)[0])


def double(o, a):
    i = kd.grid(1)
    o[i] = a[i] * 2


def test_a_row_depends_on_the_rank():
    assert "for " not in loops(double, "float64[::1], float64[::1]")
    found = loops(double)
    assert re.search(r"for .*%kd__k: int64", found)
    assert re.search(r"array.load %a, %i, %kd__k", found)
    assert re.search(r"array.store %o, %i, %kd__k", found)


def test_a_statement_over_rows_may_take_long():
    kernel = kd.kernel(double)
    assert not kernel.artifact("float64[::1], float64[::1]", forall=1, target="cpu").has_loops
    assert kernel.artifact(MATRICES, forall=1, target="cpu").has_loops


def test_what_is_computed_once_is_before_the_loops():
    def scaled(o, a):
        i = kd.grid(1)
        o[i] = a[i] * a[i, 0] + i

    before, _, inside = loops(scaled).partition("for ")
    assert "array.load %a, %i, %" in before
    assert inside.count("array.load") == 1


# What is written must be known, or results of arrays that are copied to a device are lost.


def row(o, a):
    o[kd.grid(1)] = a[kd.grid(1)]


def part(o, a):
    o[kd.grid(1), 1:] = 3


def in_place(o, a):
    o[kd.grid(1)] += a[kd.grid(1)]


def by_a_view(o, a):
    r = o[kd.grid(1)]
    r[1:] = a[0, 1:]


def by_a_view_of_a_view(o, a):
    r = o[kd.grid(1)]
    s = r[2:]
    s[:] += 1


def put(array, i, value):
    array[i] = value


def by_a_function(o, a):
    put(o, kd.grid(1), a[kd.grid(1)])


def by_a_local_function(o, a):
    def store(i):
        o[i] = a[i]

    store(kd.grid(1))


@pytest.mark.parametrize(
    "function",
    [row, part, in_place, by_a_view, by_a_view_of_a_view, by_a_function, by_a_local_function],
    ids=lambda f: f.__name__,
)
def test_written_arrays_are_known(function: Any):
    unit = make_unit(function)
    assert analyze(unit).written == {0}
    assert "for " in loops(function)


def test_reductions_only_read():
    def reads(o, a):
        i = kd.grid(1)
        o[i, 0] = a[i].sum() + np.dot(a[i], a[0]) + a[i].argmax()

    assert analyze(make_unit(reads)).written == {0}
    assert len(re.findall("for ", loops(reads))) == 3


def test_every_reduction_has_a_function_for_every_number():
    for dtype in DTYPE_NAMES:
        for name in REDUCTIONS:
            unit = reduction_unit(name, dtype)
            assert unit is reduction_unit(name, dtype)
            assert len(unit.parameters) == 1


# What is refused


def shifted(o, a):
    o[0, 1:] = o[0, :-1]


def shifted_view(o, a):
    r = o[kd.grid(1)]
    r[1:] = a[0, 1:] + r[:-1]


def transposed(o, a):
    o[kd.grid(1), :] = o[:, kd.grid(1)]


@pytest.mark.parametrize("function", [shifted, shifted_view, transposed], ids=lambda f: f.__name__)
def test_overlapping_rows_are_refused(function: Any):
    for _ in range(2):
        with pytest.raises(UnsupportedConstructError, match="which may overlap it") as caught:
            loops(function)
        assert caught.value.where.line.strip().startswith(("o[", "r["))
        assert "kd.local.array" in caught.value.remedy


def test_rows_of_one_array_are_the_same_or_apart():
    def moved(o, a):
        i = kd.grid(1)
        mine = o[i]
        o[i + 1] = mine * o[0] - o[i]

    assert "for " in loops(moved)


def test_lengths_are_checked_in_debug_mode():
    @kd.kernel(debug=True)
    def copied(o, a):
        i = kd.grid(1)
        o[i] = a[i]

    with kd.use("cpu"), pytest.raises(KernelFault, match="rows of different lengths") as caught:
        copied.forall(2)(np.zeros((2, 4)), np.ones((2, 3)))
    assert caught.value.where.line.strip() == "o[i] = a[i]"


# Against NumPy

_OPERANDS = ("a[i]", "b[i]", "a[j]", "WEIGHTS", "a[i, 0]", "3", "(i + 1)", "b[i].sum()", "-b[j]")
_PARTS = ("[i]", "[i, :]", "[i, 1:]", "[i, 1:3]", "[i, ::2]", "[i, -2:]")


@st.composite
def _statements(draw: st.DrawFn) -> str:
    part = draw(st.sampled_from(_PARTS))
    inner = part.removeprefix("[i").removeprefix(", ").removesuffix("]") or ":"
    operands = []
    for _ in range(draw(st.integers(1, 3))):
        operand = draw(st.sampled_from(_OPERANDS))
        if operand in ("a[i]", "b[i]", "a[j]"):
            operand = operand.replace("]", f", {inner}]")
        elif operand in ("WEIGHTS", "-b[j]"):
            operand = f"{operand}[{inner}]" if operand == "WEIGHTS" else f"-b[j, {inner}]"
        operands.append(operand)
    value = operands[0]
    for operand in operands[1:]:
        value = f"({value} {draw(st.sampled_from('+-*'))} {operand})"
    target, operator = draw(st.sampled_from("oab")), draw(st.sampled_from(("=", "+=", "-=")))
    return f"{target}{part} {operator} {value}"


@settings(deadline=None, max_examples=examples(15, 6))  # each is compiled
@given(st.lists(_statements(), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_programs_compute_what_numpy_computes(statements: list[str], seed: int):
    body = "\n".join(f"    {each}" for each in statements)
    text = (
        "import numpy as np\nimport kerneldsl as kd\n"
        "WEIGHTS = np.array([2, -3, 5, 7, -1], np.int64)\nWEIGHTS.setflags(write=False)\n\n"
        f"def plain(o, a, b, i, j):\n{body}\n\n"
        f"@kd.kernel\ndef kernel(o, a, b, j):\n    i = kd.grid(1)\n{body}\n"
    )
    names = exec_source(text, "rows")
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-9, 9, (4, 5)) for _ in range(3)]
    expected = [array.copy() for array in arrays]
    names["plain"](*expected, 0, 2)
    with kd.use("cpu"):
        names["kernel"].forall(1)(*arrays, 2)
    for found, right in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(found, right)


_BOUNDED = [
    pytest.param(dtype, count) for dtype in (np.float32, np.float64) for count in (10**6, 4097)
]


@pytest.mark.parametrize(("dtype", "count"), full_beyond(_BOUNDED, _BOUNDED[1:3]))
def test_sums_keep_the_documented_bound(dtype: Any, count: int, rng: np.random.Generator) -> None:
    """(n - 1) u Σ|x|, and the very rounding of adding from the first to the last."""

    @kd.kernel
    def total(x, out):
        out[0] = x.sum()
        out[1] = x.mean()

    unit_roundoff = np.finfo(dtype).eps / 2
    for x in _long_rows(dtype, count, rng):
        out = np.full(2, np.nan, dtype)
        with kd.use("cpu"):
            total[1, 1](x, out)
        bound = (count - 1) * unit_roundoff * np.abs(x).sum(dtype=np.longdouble)
        assert abs(np.longdouble(out[0]) - x.sum(dtype=np.longdouble)) <= bound
        assert out[0] == np.cumsum(x, dtype=dtype)[-1]
        assert out[1] == out[0] / dtype(count)


@pytest.mark.parametrize(("dtype", "count"), full_beyond(_BOUNDED, _BOUNDED[1:3]))
def test_dot_keeps_the_documented_bound(dtype: Any, count: int, rng: np.random.Generator) -> None:
    """n u / (1 - n u) Σ|x y|, and without contraction the rounding of products, then of sums."""

    def dot(x, y, out):
        out[0] = np.dot(x, y)

    relative = count * np.longdouble(np.finfo(dtype).eps / 2)
    for x in _long_rows(dtype, count, rng):
        y = x[::-1].copy()
        products = x.astype(np.longdouble) * y
        for may_contract in (True, False):
            out = np.full(1, np.nan, dtype)
            with kd.use("cpu"):
                kd.kernel(dot, contract=may_contract)[1, 1](x, y, out)
            bound = relative / (1 - relative) * np.abs(products).sum()
            assert abs(np.longdouble(out[0]) - products.sum()) <= bound
            if not may_contract:
                assert out[0] == np.cumsum(x * y, dtype=dtype)[-1]


def _long_rows(dtype: Any, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return np.full(count, 1 / 255, dtype), rng.standard_normal(count).astype(dtype)
