"""Findings name the cause, and what they advise does what it says."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from tests.support.extent import examples
from tests.support.source import exec_source


def _rows(a, out):
    x, y = kd.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        out[y, x] = a[y, x]


def _columns(a, out):
    x, y = kd.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        out[y, x] = a[x, y]


def _copied(a, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a[i]


def _thirds(a, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a[3 * i + 1]


def _second(a, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a[1, i]


def _fields(a, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a[i].x


def _even(a, out):
    i = kd.grid(1)
    if i < out.size and i % 4 == 0:
        out[i] = a[i]


_F32 = np.float32
_SQUARE, _LONG, _SHORT = (np.zeros(shape, _F32) for shape in ((64, 64), 2304, 768))
_PAIRS = np.zeros(768, np.dtype([("x", "f4"), ("y", "f4", 3)], align=True))
_PACKED = np.zeros(768, [("x", "f4"), ("y", "f4", 3)])
_LAST, _FIRST = "along the array's last axis", "along the array's first axis"


@pytest.mark.parametrize(
    ("kernel", "a", "block", "remedy", "better", "as_told", "better_block"),
    [
        (_columns, _SQUARE, (32, 8), _LAST, _rows, _SQUARE, (32, 8)),
        (_rows, _SQUARE.T, (32, 8), _FIRST, _columns, _SQUARE.T, (32, 8)),
        (_copied, _LONG[::3], 64, "np.ascontiguousarray", _copied, _SHORT, 64),
        (_thirds, _LONG, 64, "[k, i] instead of [3*i + k]", _second, _LONG.reshape(3, 768), 64),
        (_fields, _PAIRS, 64, "in an array of its own", _copied, _SHORT, 64),
        (_fields, _PACKED, 64, "align=True", _copied, _SHORT, 64),
        (_even, _SHORT, 64, "what is accessed side by side", _copied, _SHORT[:192], 64),
        (_rows, _SQUARE, (2, 32), "rows along threadIdx.x longer", _rows, _SQUARE, (32, 2)),
    ],
)
def test_a_layout_as_it_is_advised_ends_the_finding(
    kernel, a, block, remedy, better, as_told, better_block
):
    def told(kernel, a, block):
        out = np.zeros(a.shape if a.ndim == 2 and kernel is not _second else len(a), _F32)
        found = kd.kernel(kernel).explain(a, out, block=block, arch="sm_90", occupancy=False)
        return [each for each in findings(found, "coalescing") if " of a " in each.what]

    (finding,) = told(kernel, a, block)
    assert remedy in finding.remedy
    assert "data decides" not in finding.why
    assert told(better, as_told, better_block) == []


def test_strides_are_of_memory_in_every_layout():
    a, out = np.zeros((64, 128), np.float32), np.zeros((128, 64), np.float32)
    for array, stride in ((a, "a.shape[1]"), (np.asfortranarray(a), "1"), (a[:, ::2], "128")):
        found = kd.kernel(_columns).explain(
            array, out[: array.shape[1]], block=(32, 8), arch="sm_90", occupancy=False
        )
        assert str(found.accesses[0].stride) == stride


SQUARE = "float32[:, ::1], float32[:, ::1]"
FLAT = "float32[::1], int64, float32[:, ::1]"


def findings(explained, kind):
    return [each for each in explained.findings if each.kind == kind]


def test_a_sum_that_begins_with_a_python_float_is_blamed_on_that():
    @kd.kernel
    def summed(x, out):
        i = kd.grid(1)
        s = 0.0
        for k in range(8):
            s += x[i * 8 + k]
        t = s * np.float32(0.5)
        out[i] = t

    found = summed.explain("float32[::1], float32[::1]", block=64, sizes={"out": 64})
    (finding,) = findings(found, "float64")
    assert finding.where.line.strip() == "s = 0.0"
    assert finding.where.line[finding.where.col_offset : finding.where.end_col_offset] == "0.0"
    assert finding.number == found.flops("float64") == 64 * 9
    first = finding.where.lineno
    assert f"in lines {first + 2}, {first + 3}" in finding.what
    assert "np.float32(0.0)" in finding.remedy


_ROOTS = st.sampled_from(["{2.0}", "{n}", "{0.5}", "{3}", "{HALF}"])


@st.composite
def _marked(draw):
    """Statements of a kernel, with braces around all that makes them float64."""
    lines = []
    names = ["a[i]"]
    for number in range(draw(st.integers(1, 3))):
        text = draw(st.sampled_from(names))
        for _ in range(draw(st.integers(0, 3))):
            op, root = draw(st.sampled_from("+-*/")), draw(_ROOTS)
            other = draw(st.sampled_from([root, "a[i]"]))
            text = draw(st.sampled_from([f"({text} {op} {other})", f"({other} {op} {text})"]))
        form = draw(st.sampled_from(["{0}", "-{0}", "twice({0})", "({0} if i > 3 else a[i])"]))
        lines.append(f"t{number} = {form.format(text)}")
        if draw(st.booleans()):
            lines.append(f"t{number} += a[i] * {draw(_ROOTS)}")
        names.append(f"t{number}")
    return [*lines, f"out[i] = {' + '.join(names)}"]


def _explained(lines, left_alone=None):
    """Explain marked statements as they are, or with all marks but one converted."""
    marks = itertools.count()

    def converted(match):
        return match[1] if next(marks) in (left_alone, None) else f"np.float32({match[1]})"

    body = "\n        ".join(lines)
    text = re.sub(r"\{([^}]*)\}", converted, body) if left_alone is not None else body
    source = f"""
import numpy as np
import kerneldsl as kd

HALF = 0.5

@kd.func
def twice(v):
    return v + v

@kd.kernel
def generated(a, out, n):
    i = kd.grid(1)
    if i < out.size:
        {text.replace("{", "").replace("}", "")}
"""
    signature = "float32[::1], float32[::1], int64"
    kernel = exec_source(source)["generated"]
    return kernel.explain(signature, block=64, grid=1, arch="sm_90", occupancy=False)


@given(_marked())
@settings(max_examples=examples(30), deadline=None)
def test_all_that_makes_operations_float64_is_named_and_no_less_helps(lines):
    found = _explained(lines)
    marks = re.findall(r"\{([^}]*)\}", "\n".join(lines))
    named = " ".join(each.remedy for each in findings(found, "float64"))
    assert {f"np.float32({mark})" for mark in marks} <= set(
        re.findall(r"np\.float32\([^)]*\)", named)
    )
    assert _explained(lines, left_alone=-1).flops("float64") == 0
    for number in range(len(marks)):
        assert _explained(lines, left_alone=number).flops("float64") > 0


def test_what_a_called_function_computes_in_float64_is_named_there():
    @kd.func
    def shifted(v):
        return v + 0.5

    @kd.kernel
    def called(a, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = shifted(a[i]) * 2.0

    found = called.explain("float32[::1], float32[::1]", block=64, arch="sm_90", occupancy=False)
    (finding,) = findings(found, "float64")
    assert finding.number == found.flops("float64")
    assert "np.float32(0.5)" in finding.remedy
    assert "np.float32(2.0)" in finding.remedy


def test_a_constant_that_is_converted_is_not_blamed():
    @kd.kernel
    def scaled(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = np.float32(0.25) * x[i] + 1.5

    (finding,) = findings(scaled.explain("float32[::1], float32[::1]", block=64), "float64")
    assert "np.float32(1.5)" in finding.remedy


@kd.kernel
def blurred(x, out):
    i, j = kd.grid(2)
    if 1 <= i < out.shape[0] - 1 and 1 <= j < out.shape[1] - 1:
        s = np.float32(0)
        for a in range(-1, 2):
            for b in range(-1, 2):
                s += x[i + a, j + b]
        out[i, j] = s


@kd.kernel
def blurred_by_tiles(x, out):
    tile = kd.shared.array((10, 34), np.float32)
    n, m = out.shape
    ty, tx = kd.threadIdx.y, kd.threadIdx.x
    row, column = kd.blockIdx.y * 8, kd.blockIdx.x * 32
    for k in range(ty * 32 + tx, 340, 256):
        i, j = row + k // 34 - 1, column + k % 34 - 1
        if 0 <= i < n and 0 <= j < m:
            tile[k // 34, k % 34] = x[i, j]
    kd.syncthreads()
    i, j = row + ty, column + tx
    if 1 <= i < n - 1 and 1 <= j < m - 1:
        s = np.float32(0)
        for a in range(3):
            for b in range(3):
                s += tile[ty + a, tx + b]
        out[i, j] = s


def test_a_stencil_is_told_its_tile_and_the_tile_ends_the_reuse(rng):
    sizes = {"x": (256, 256), "out": (256, 256)}
    found = blurred.explain(SQUARE, forall=(256, 256), block=(32, 8), sizes=sizes)
    (finding,) = findings(found, "reuse")
    assert "10 × 34 elements, 1.33 KiB" in finding.remedy
    assert "kd.shared.array((10, 34), np.float32)" in finding.remedy
    tiled = blurred_by_tiles.explain(SQUARE, grid=(8, 32), block=(32, 8), sizes=sizes)
    assert findings(tiled, "reuse") == []
    assert tiled.arrays[0].read_bytes == found.arrays[0].read_bytes

    x = rng.random((256, 256)).astype(np.float32)
    results = [np.zeros_like(x) for _ in range(2)]
    with kd.use("cpu"):
        blurred.forall(256, 256)(x, results[0])
        blurred_by_tiles[(8, 32), (32, 8)](x, results[1])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("count", [1024, 4096, 16384])
def test_a_tile_holds_what_is_read_again_and_not_what_lies_between(count):
    @kd.kernel
    def looked_up(a, out):
        i = kd.grid(1)
        if i < out.size:
            s = a[i]
            for k in range(31):
                s += a[k]
            out[i] = s

    a = np.zeros(count, np.float32)
    found = looked_up.explain(a, a.copy(), block=128, arch="sm_90", occupancy=False)
    (finding,) = findings(found, "reuse")
    assert "31 elements, 124 bytes, into kd.shared.array(31, np.float32)" in finding.remedy


def test_a_product_is_told_to_go_through_its_loop_in_steps():
    @kd.kernel
    def product(a, b, c):
        i, j = kd.grid(2)
        if i < c.shape[0] and j < c.shape[1]:
            s = np.float32(0)
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s

    found = product.explain(f"{SQUARE}, float32[:, ::1]", forall=(512, 512), block=(32, 8))
    remedies = sorted(each.remedy for each in findings(found, "reuse"))
    assert all("through k in steps of 32" in each for each in remedies)
    assert "(32, 32), np.float32" in remedies[0]
    assert "(8, 32), np.float32" in remedies[1]


def test_indices_that_may_be_negative_are_told_with_the_promise_that_frees_them():
    def flat(x, w, out):
        i, j = kd.grid(2)
        if i < out.shape[0] and j < out.shape[1]:
            out[i, j] = x[i * w + j]

    explained, codes = [], []
    for kernel in (kd.kernel(flat), kd.kernel(wraparound=False)(flat)):
        explained.append(kernel.explain(FLAT, forall=(64, 64), sizes={"w": 64, "x": (4096,)}))
        codes.append(kernel.ptx(FLAT, forall=2, arch="sm_90"))
    (finding,) = findings(explained[0], "index arithmetic")
    assert finding.number == 64 * 64
    assert "wraparound=False" in finding.remedy
    assert findings(explained[1], "index arithmetic") == []
    assert ["shr.s64" in code for code in codes] == [True, False]


def test_indices_that_are_guarded_negative_or_unsigned_are_not_told():
    @kd.kernel
    def others(x, w, out):
        i, j = kd.grid(2)
        if i < out.shape[0] and j < out.shape[1]:
            out[i, j] = x[j - w] + x[np.uint32(i * w + j)]

    sizes = {"w": 64, "x": (4096,)}
    found = others.explain(FLAT, forall=(64, 64), sizes=sizes)
    assert findings(found, "index arithmetic") == []
