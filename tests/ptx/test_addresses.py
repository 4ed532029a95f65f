"""Addresses of elements: in 32 bits if they are enough, and from those of neighbours."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.contract import ArrayPromises, Promises
from kerneldsl.contract.abi import EXPLICIT, LaunchMode
from kerneldsl.contract.promises import NARROW, NARROW_THREADS
from kerneldsl.language.kinds import array_kinds
from kerneldsl.language.signatures import parse_signature
from targets.cuda.compile import pipeline
from targets.cuda.compile.addresses.countdowns import shorten_countdowns
from targets.cuda.compile.addresses.facts import NO_FACTS, facts_of
from targets.cuda.compile.addresses.shorten import shorten_addresses
from targets.cuda.compile.compiler import compile_kernel
from targets.cuda.compile.ptxas import assemble
from tests.ptx.helpers import body_of, compile_ptx, specialize
from tests.ptx.interpreter import run_ptx
from tests.support.ptx_machine import Trace, run_thread

_BASE = 0x7F00_0000_0000


def heat(u, out, factor):
    x, y, z = kd.grid(3)
    depth, height, width = u.shape
    if 0 < x < width - 1 and 0 < y < height - 1 and 0 < z < depth - 1:
        around = u[z, y, x - 1] + u[z, y, x + 1] + u[z, y - 1, x] + u[z, y + 1, x]
        around += u[z - 1, y, x] + u[z + 1, y, x]
        out[z, y, x] = u[z, y, x] + factor * around


def corners(u, out):
    i, j = kd.grid(2)
    if i < out.shape[0] - 2 and j < out.shape[1] - 3:
        out[i, j] = u[i + 2, j + 3] + u[i + 2, j] - u[i, j + 3] * u[i + 1, j + 1]


def clamp(u, out):
    j, i = kd.grid(2)
    rows, columns = u.shape
    if i < rows and j < columns:
        above, left = u[max(i - 1, 0), j], u[i, max(j - 1, 0)]
        out[i, j] = above + left + u[min(i + 1, rows - 1), min(j + 1, columns - 1)]


def mirror(u, out):
    i, j = kd.grid(2)
    if i < u.shape[0] and j < u.shape[1]:
        out[j, i] = u[-1 - i, -1 - j]


def columns(u, x, out):
    j = kd.grid(1)
    if j < out.size:
        total = kd.float32(0)
        for i in range(x.size):
            total += u[i, j] * x[i]
        out[j] = total


def triangle(u, out):
    i = kd.grid(1)
    if i < out.size:
        total = kd.float32(0)
        for j in range(i):
            total += u[i, j] * u[j, i]
            if total > 0:
                total += u[i, i]
        out[i] = total


def masked(n, u, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = u[i] + (n & 0x7FFFFFFF)


def strided(u, out):
    i = kd.grid(1)
    for k in range(i, u.size, kd.gridsize(1)):
        out[k] = u[k] + u[u.size - 1 - k]


def quads(u, out):
    i = 4 * kd.grid(1)
    if i < u.size:
        out[i] = u[i]
    if i + 1 < u.size:
        out[i + 1] = u[i + 1]
    if i + 2 < u.size:
        out[i + 2] = u[i + 2]
    if i + 3 < u.size:
        out[i + 3] = u[i + 3]


def beside(u, out):
    i = kd.grid(1)
    if 2 < i < u.size:
        out[i] = u[i]
    if 3 < i < u.size + 1:
        out[i - 1] = u[i - 1]
    if 4 < i < u.size + 2:
        out[i - 2] = u[i - 2]


def behind(u, out, back):
    i, j = kd.grid(2)
    if i < u.shape[0] and j < u.shape[1]:
        out[i - back, j - 2 * back] = u[i - 2 * back, j - back]


def shares(u, out, total):
    i, j = kd.grid(2)
    if i < u.shape[0] and j < u.shape[1]:
        out[i, j] = j / u.shape[1] + i / total


def large(out):
    i = kd.grid(1)
    out[i] = float(np.uint64(-(i & 1)))


def scaled(key, out):
    i = kd.grid(1)
    out[i] = i * key
    out[4 * i + 1] = i * key


def weighted(x, weights, out):
    row = kd.blockIdx.x
    v = kd.tile.load(x[row], 0, 1024)
    v = v / v.sum()
    kd.tile.store(out[row], 0, v * kd.tile.load(weights, 0, 1024))


def bordered(u, out):
    start = kd.blockIdx.x * kd.blockDim.x - 3
    total = np.float32(0)
    for k in range(kd.threadIdx.x, kd.blockDim.x + 6, kd.blockDim.x):
        total += u[min(max(start + k, 0), u.size - 1)]
    out[kd.grid(1)] = total


def _promises(signature: str, *, is_narrow: bool = True) -> Promises:
    count = len(list(array_kinds(parse_signature(signature))))
    return Promises((ArrayPromises(),) * count, is_disjoint=True, is_narrow=is_narrow)


def _both(
    kernel: Callable[..., Any],
    signature: str,
    mode: LaunchMode = EXPLICIT,
    *,
    is_narrow: bool = True,
    **options: Any,
) -> tuple[str, str]:
    """Return a kernel's PTX before and after its addresses are shortened."""
    seen: list[str] = []

    def note(text: str, facts: Any, report: Any) -> str:
        seen[:] = [text, shorten_addresses(text, facts)]
        return seen[1]

    promises = _promises(signature, is_narrow=is_narrow)
    passes = [
        each._replace(rewrite=note) if each.name == "narrow-addresses" else each
        for each in pipeline.PASSES
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "PASSES", passes)
        compile_kernel(
            specialize(kernel, signature, mode, promises=promises, **options), arch="sm_90"
        )
    return seen[0], seen[1]


def _traces(
    texts: tuple[str, str],
    parameters: list[int],
    grid: tuple[int, ...],
    block: tuple[int, ...],
    thread: tuple[int, ...],
) -> tuple[Trace, Trace]:
    """Return what a thread accesses, by its index along each axis."""
    special = {"%laneid": 0}
    for axis, blocks, threads, index in itertools.zip_longest(
        "xyz", grid, block, thread, fillvalue=None
    ):
        blocks, threads, index = blocks or 1, threads or 1, index or 0
        special |= {f"%nctaid.{axis}": blocks, f"%ntid.{axis}": threads}
        special |= {f"%ctaid.{axis}": index // threads, f"%tid.{axis}": index % threads}
    one, other = (run_thread(text, parameters, special) for text in texts)
    return one, other


def _bytes_of(trace: Trace) -> list[int]:
    return [address for _, address, _ in trace]


_HEAT = "float32[:, :, ::1], float32[:, :, ::1], float32"


def test_neighbours_are_at_distances_from_one_address() -> None:
    """Golden: what is left of the addresses of seven points."""
    body = body_of(compile_ptx(heat, _HEAT, "sm_90", promises=_promises(_HEAT)))
    kinds = Counter(re.findall(r"^\s*([a-z][\w.]*64)\b", body, re.MULTILINE))
    # Two pointers; addresses of y - 1, y + 1, z - 1, z + 1, of the point, and in the other array.
    assert kinds == {"ld.param.b64": 2, "add.s64": 6}
    assert len(re.findall(r"\bmul\.wide\.s32\b", body)) == 6
    immediates = re.findall(r"ld\.global\.nc\.b32 \t%r\d+, \[(%\w+)\+(-?4)\]", body)
    assert {number for _, number in immediates} == {"4", "-4"}
    assert len({register for register, _ in immediates}) == 1
    assert "setp.ge.s32" in body
    assert "s64 \t%p" not in body


def test_accesses_under_conditions_share_an_address() -> None:
    before, after = _both(quads, _KERNELS[quads], wraparound=False)
    assert len(set(re.findall(r"global[\w.]*\b.*\[(%\w+)", after))) == 2
    assert len(re.findall(r"\bmul\.wide\.s32\b", after)) == 2
    for text in before, after:
        assert Counter(re.findall(r"\+(\d+)\]", text)) == {"4": 2, "8": 2, "12": 2}


def test_addresses_of_vectors_are_computed_before_the_test_of_whole_vectors() -> None:
    """Otherwise ptxas begins the block with arithmetic, while it waits for the pointers."""
    signature = "float32[:, ::1], float32[::1], float32[:, ::1]"
    body = body_of(compile_ptx(weighted, signature, "sm_90", promises=_promises(signature)))
    blocks = [
        each for each in re.split(r"^\$", body, flags=re.MULTILINE) if "ld.global.nc.v4" in each
    ]
    assert len(blocks) == 2
    for each in blocks:
        assert "ld.param" not in each.partition("ld.global.nc.v4")[0]


def test_what_is_added_to_negative_indices_is_a_minimum() -> None:
    """Golden: the minimum of two integers without signs, and no choice."""
    before, after = _both(behind, _BEHIND)
    assert len(re.findall(r"\bselp\b|\bshr\.s64\b", before)) == 4
    assert len(re.findall(r"\bmin\.u32\b", after)) == 4
    assert not re.search(r"\bselp\b|\bshr\.s64\b", after)
    _, without = _both(behind, _BEHIND, wraparound=False)
    assert "min.u32" not in without


def test_integers_that_fit_32_bits_are_converted_to_floats_in_32_bits() -> None:
    """Golden: three of four; `total` may be any integer."""
    before, after = _both(shares, "float64[:, ::1], float64[:, ::1], int64")
    assert len(re.findall(r"cvt\.rn\.f64\.[su]64", before)) >= 3
    assert len(re.findall(r"cvt\.rn\.f64\.[su]64", after)) == 1
    assert len(re.findall(r"cvt\.rn\.f64\.[su]32", after)) == 3


def test_negative_integers_are_large_to_a_conversion_without_a_sign() -> None:
    """Of -1 the result is 2**64, in 32 bits it would be -1."""
    _, after = _both(large, "float64[::1]")
    assert len(re.findall(r"cvt\.rn\.f64\.u64", after)) == 1
    assert not re.findall(r"cvt\.rn\.f64\.[su]32", after)


def test_numbers_that_a_kernel_has_in_64_bits_are_used() -> None:
    texts = _both(scaled, "int64, float64[::1]", wraparound=False)
    after = texts[1]
    for index in (0, 1, 77, 2**29 - 2):
        one, other = _traces(texts, [2**40 + 3, _BASE, 2**31 - 1], (2**22,), (128,), (index,))
        assert one == other
    assert re.search(r"cvt\.u32\.u64 %kd_r\d+, %rd\d+;", after)
    assert not re.search(r"(?:mul|mad)\.lo\.s32 %kd_r\d+, %r", after)


def test_without_the_promise_integers_keep_their_width() -> None:
    wide = _promises(_HEAT, is_narrow=False)
    body = body_of(compile_ptx(heat, _HEAT, "sm_90", promises=wide))
    assert re.search(r"\bmul\.lo\.s64\b", body)
    assert "kd_r" not in body


def test_in_debug_mode_accesses_may_be_of_no_element() -> None:
    promises = _promises(_HEAT)
    assert facts_of(specialize(heat, _HEAT, promises=promises)) != NO_FACTS
    assert facts_of(specialize(heat, _HEAT, promises=promises, debug=True)) == NO_FACTS


def test_strided_arrays_keep_their_strides_of_64_bits() -> None:
    signature = "float32[:, :], float32[:, :]"
    before, after = _both(mirror, signature)
    assert before.count("mad.lo.s64") == after.count("mad.lo.s64") == 4
    parameters = [_BASE, 3, 3, 2**33, -4, 2 * _BASE, 3, 3, 12, 4]
    one, other = _traces((before, after), parameters, (1, 1), (4, 4), (1, 2))
    assert one == other
    assert _bytes_of(one)[0] == _BASE + 2**33 + 0 * -4


def test_a_mask_that_a_kernel_writes_is_no_promise() -> None:
    signature = "int64, float32[::1], float32[::1]"
    _, after = _both(masked, signature)
    assert "and.b" in after


def test_what_was_made_is_accepted_by_ptxas() -> None:
    for kernel, signature in _KERNELS.items():
        for is_narrow in (True, False):
            artifact = compile_ptx(
                kernel, signature, "sm_90", promises=_promises(signature, is_narrow=is_narrow)
            )
            assert assemble(artifact.ptx, "sm_90").resources


_BEHIND = "float32[:, ::1], float32[:, ::1], int64"
_TWO = "float32[:, ::1], float32[:, ::1]"
_KERNELS: dict[Callable[..., Any], str] = {
    heat: _HEAT,
    corners: _TWO,
    clamp: _TWO,
    mirror: _TWO,
    columns: "float32[:, ::1], float32[::1], float32[::1]",
    triangle: "float64[:, ::1], float32[::1]",
    strided: "int16[::1], int16[::1]",
    quads: "float32[::1], float32[::1]",
    beside: "float32[::1], float32[::1]",
    behind: _BEHIND,
    bordered: "float32[::1], float32[::1]",
}


@st.composite
def _extents(draw: st.DrawFn, ndim: int) -> tuple[int, ...]:
    """Shapes, also with nearly 2**31 elements, in one row or many."""
    left, shape = draw(st.sampled_from([100, 2**20, NARROW_THREADS, NARROW - 1])), []
    for axis in range(ndim):
        shape.append(left if axis == ndim - 1 else draw(st.integers(1, min(left, 70_000))))
        left //= shape[-1]
    return tuple(draw(st.permutations(shape)))


def _index(draw: Any, extent: int) -> int:
    return draw(st.sampled_from([0, 1, 2, extent - 2, extent - 1, extent // 2, extent])) % 2**31


@pytest.mark.parametrize("kernel", [heat, corners, clamp, mirror])
@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("wraparound", [True, False])
@settings(deadline=None)  # the first case compiles
@given(data=st.data())
def test_each_thread_accesses_the_same_elements(
    kernel: Callable[..., Any], layout: str, wraparound: bool, data: st.DataObject
) -> None:
    if kernel is mirror and not wraparound:
        return  # it counts from the end
    signature = _KERNELS[kernel]
    if layout == "F":
        signature = signature.replace(":, :, ::1", "::1, :, :").replace(":, ::1", "::1, :")
    ndim = 3 if kernel is heat else 2
    texts = _compiled(kernel, signature, wraparound)
    shape = data.draw(_extents(ndim))
    target = shape[::-1] if kernel is mirror else shape
    parameters = [_BASE, *shape, 2 * _BASE, *target, 0]
    block = (32, 4, 2)[:ndim]
    along = shape if kernel in (corners, mirror) else shape[::-1]
    thread = tuple(_index(data.draw, n) for n in along)
    grid = tuple(-(-n // b) + 1 for n, b in zip(along, block, strict=True))
    one, other = _traces(texts, parameters, grid, block, thread)
    assert one == other
    assert all(0 <= a % _BASE < 4 * math.prod(shape) for a in _bytes_of(one))


@settings(deadline=None)  # the first case compiles
@given(data=st.data())
def test_negative_indices_are_of_the_same_elements(data: st.DataObject) -> None:
    texts = _compiled(behind, _BEHIND)
    shape = data.draw(_extents(2))
    back = data.draw(st.integers(0, min(shape) // 2) | st.just(min(shape) // 2))
    thread = tuple(_index(data.draw, n) for n in shape)
    grid = tuple(-(-n // 32) + 1 for n in shape)
    parameters = [_BASE, *shape, 2 * _BASE, *shape, back]
    one, other = _traces(texts, parameters, grid, (32, 32), thread)
    assert one == other
    assert all(0 <= a % _BASE < 4 * math.prod(shape) for a in _bytes_of(one))
    assert len(one) == 2 * all(i < n for i, n in zip(thread, shape, strict=True))


_cache: dict[Any, tuple[str, str]] = {}


def _compiled(
    kernel: Callable[..., Any], signature: str, wraparound: bool = True, *, is_narrow: bool = True
) -> tuple[str, str]:
    key = kernel, signature, wraparound, is_narrow
    if key not in _cache:
        _cache[key] = _both(kernel, signature, is_narrow=is_narrow, wraparound=wraparound)
    return _cache[key]


@pytest.mark.parametrize("kernel", [quads, beside])
@settings(deadline=None)  # the first case compiles
@given(data=st.data())
def test_accesses_under_conditions_are_of_the_same_elements(
    kernel: Callable[..., Any], data: st.DataObject
) -> None:
    texts = _compiled(kernel, _KERNELS[kernel], wraparound=False)
    (extent,) = data.draw(_extents(1))
    threads = -(-extent // 4) if kernel is quads else extent
    index = data.draw(st.integers(max(0, threads - 4), threads + 4) | st.integers(0, threads))
    parameters = [_BASE, extent, 2 * _BASE, extent]
    one, other = _traces(texts, parameters, (threads // 32 + 2,), (32,), (index,))
    assert one == other
    assert all(0 <= a % _BASE < 4 * extent for a in _bytes_of(one))


@pytest.mark.parametrize("is_narrow", [True, False])
@settings(deadline=None)  # the first case compiles
@given(data=st.data())
def test_loops_access_the_same_elements(is_narrow: bool, data: st.DataObject) -> None:
    kernel = data.draw(st.sampled_from([columns, triangle, strided, bordered]))
    texts = _compiled(kernel, _KERNELS[kernel], is_narrow=is_narrow)
    rows = data.draw(st.integers(0, 40))
    width = data.draw(st.sampled_from([rows, 41, 50_000_000 if is_narrow else 2**33]))
    block = data.draw(st.sampled_from([1, 32, 256]))
    index = data.draw(st.integers(0, 40)) if kernel is triangle else _index(data.draw, width)
    if kernel is columns:
        parameters = [_BASE, rows, width, 2 * _BASE, rows, 3 * _BASE, width]
    elif kernel is triangle:
        parameters = [_BASE, rows, max(width, rows), 3 * _BASE, rows]
    else:
        parameters, index = [_BASE, 3 * rows, 3 * _BASE, 3 * rows], index % block
    one, other = _traces(texts, parameters, (index // block + 2,), (block,), (index,))
    assert one == other


def test_products_that_do_not_change_in_a_loop_are_before_it() -> None:
    _, after = _both(bordered, _KERNELS[bordered])
    loop = re.search(r"(\$L\w+):\n(?:(?!\$L).*\n)*?\t@%p\d+ bra \t\1;", after)
    assert loop is not None
    assert not re.search(r"m(?:ul|ad)\.lo", loop[0])
    assert re.search(r"mad\.lo\.s32 %kd_r\d+, %r\d+, %r\d+, -3;", after[: loop.start()])


def test_the_guard_of_forall_compares_32_bits() -> None:
    _, after = _both(corners, _TWO, LaunchMode(2))
    assert re.search(r"setp\.ge\.u32 %p\d+, %kd_r\d+, %kd_r\d+;", after)


@settings(deadline=None)  # the first case compiles
@given(data=st.data())
def test_forall_accesses_the_same_elements(data: st.DataObject) -> None:
    key = "forall"
    if key not in _cache:
        _cache[key] = _both(corners, _TWO, LaunchMode(2))
    shape = data.draw(_extents(2))
    assume(max(shape) <= NARROW_THREADS)
    thread = tuple(_index(data.draw, n) for n in shape[::-1])
    grid = tuple(-(-n // 16) for n in shape[::-1])
    thread = tuple(min(i, 16 * n - 1) for i, n in zip(thread, grid, strict=True))
    one, other = _traces(
        _cache[key], [_BASE, *shape, 2 * _BASE, *shape, *shape], grid, (16, 16), thread
    )
    assert one == other


def test_the_last_thread_of_the_widest_narrow_grid_is_beyond_an_array() -> None:
    texts = _compiled(strided, _KERNELS[strided])
    parameters = [_BASE, NARROW - 1, 3 * _BASE, NARROW - 1]
    grid, last = (NARROW_THREADS // 1024,), NARROW_THREADS - 1
    one, other = _traces(texts, parameters, grid, (1024,), (last,))
    assert one == other
    assert _bytes_of(one)[1] == _BASE + 2 * (NARROW - 2 - last)


_COUNTDOWN = """.visible .entry e()
{{
mov.u32 %r1, %tid.x;
{begin}
$L1:
st.global.b32 [%rd9], %r1;
add.s64 %rd1, %rd1, {step};
{test}
@%p1 bra $L1;
{after}
ret;
}}"""


@pytest.mark.parametrize(
    ("begin", "step", "test", "after", "is_short"),
    [
        ("cvt.u64.u32 %rd1, %r1;", -4, "setp.gt.s64 %p1, %rd1, 0;", "", True),
        ("cvt.u64.u32 %rd1, %r1;", -1, "setp.ne.b64 %p1, %rd1, 0;", "", True),
        ("cvt.u64.u32 %rd1, %r1;", -2, "setp.ne.b64 %p1, %rd1, 0;", "", True),
        ("cvt.u64.u32 %rd1, %r1;", -3, "setp.ne.b64 %p1, %rd1, 0;", "", False),
        ("cvt.u64.u32 %rd1, %r1;", -1, "setp.gt.u64 %p1, %rd1, 0;", "", False),
        ("cvt.u64.u32 %rd1, %r1;", 1, "setp.ne.b64 %p1, %rd1, 0;", "", False),
        ("cvt.u64.u32 %rd1, %r1;", -1, "setp.ne.b64 %p1, %rd1, 7;", "", False),
        ("cvt.u64.u32 %rd1, %r2;", -1, "setp.ne.b64 %p1, %rd1, 0;", "", False),
        ("neg.s64 %rd1, %rd2;", -1, "setp.gt.s64 %p1, %rd1, 0;", "", False),
        (
            "cvt.u64.u32 %rd1, %r1;",
            -4,
            "setp.gt.s64 %p1, %rd1, 0;",
            "st.global.b64 [%rd9], %rd1;",
            False,
        ),
    ],
)
def test_counters_go_down_in_32_bits_if_all_that_they_begin_with_fits(
    begin: str, step: int, test: str, after: str, is_short: bool
) -> None:
    text = _COUNTDOWN.format(begin=begin, step=step, test=test, after=after)
    written = "\n".join(shorten_countdowns(text.splitlines(), NO_FACTS))
    assert ("add.s32 %kd_count0" in written) == is_short
    assert written == text or is_short


@pytest.mark.parametrize(
    ("test", "step", "is_short"),
    [
        ("setp.gt.u64 %p1, %rd1, 1;", -1, True),
        ("setp.gt.u64 %p1, %rd1, 0;", -1, True),
        ("setp.gt.u64 %p1, %rd1, 2;", -4, False),  # 3 is decreased to -1, which is large
        ("setp.gt.s64 %p1, %rd1, 1;", -1, True),
        ("setp.ne.b64 %p1, %rd1, 1;", -1, False),  # 0 is less
        ("setp.ne.b64 %p1, %rd1, 0;", -4, True),
    ],
)
def test_the_test_of_a_counter_may_come_before_its_step(
    test: str, step: int, is_short: bool
) -> None:
    text = _COUNTDOWN.format(begin="cvt.u64.u32 %rd1, %r1;", step=step, test=test, after="")
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("add.s64"))
    lines[at : at + 2] = reversed(lines[at : at + 2])
    written = "\n".join(shorten_countdowns(lines, NO_FACTS))
    assert ("add.s32 %kd_count0" in written) == is_short
    for start in range(0, 40, 4):
        turns = [run_ptx(_as_number(each, start)) for each in ("\n".join(lines), written)]
        assert turns[0] is None or turns[0]["%rd9"] == turns[1]["%rd9"]


def _as_number(ptx: str, start: int) -> str:
    """Return a countdown from a number, which counts its turns."""
    begin = f"mov.b64 %rd9, 0;\nmov.b32 %r1, {start};"
    counted = ptx.replace("mov.u32 %r1, %tid.x;", begin)
    return counted.replace("st.global.b32 [%rd9], %r1;", "add.s64 %rd9, %rd9, 1;")


def test_a_counter_at_an_end_of_32_bits_keeps_64() -> None:
    begin = "mov.b64 %rd1, {start};"
    for start, is_short in ((-(2**31) + 4, True), (-(2**31) + 3, False), (2**31, False)):
        text = _COUNTDOWN.format(
            begin=begin.format(start=start), step=-4, test="setp.gt.s64 %p1, %rd1, 0;", after=""
        )
        written = "\n".join(shorten_countdowns(text.splitlines(), NO_FACTS))
        assert ("add.s32 %kd_count0" in written) == is_short


def test_addresses_in_a_loop_are_multiples_from_each_other() -> None:
    """Golden: rows of a matrix are one register of 32 bits apart."""
    signature = _KERNELS[columns]
    body = body_of(compile_ptx(columns, signature, "sm_90", promises=_promises(signature)))
    turn = re.search(
        r"^(\$L__BB0_\d+):\n((?:(?!\$|ret).*\n)*?)\t@%p\d+ bra \1;", body, re.MULTILINE
    )
    assert turn is not None
    assert turn[2].count("ld.global.nc.b32") == 8
    assert len(re.findall(r"mul\.wide\.s32 %kd_d\d+, %\w+, 4;", turn[2])) == 4
    assert "setp.gt.s32" in turn[2]
    assert not re.search(r"^\s*(?:mul|mad)\.lo\.s64", body, re.MULTILINE)


_EXTENDED = """.visible .entry e(
)
{
\tmov.u32 %r1, %tid.x;
\tcvt.u64.u32 %rd1, %r1;
\tand.b64 %rd2, %rd1, 31;
\tadd.s64 %rd3, %rd2, -7;
\tmax.s64 %rd4, %rd3, -3;
\tst.shared.b64 [%rd9], %rd2;
\tst.shared.b64 [%rd9+8], %rd4;
}
"""


def test_integers_without_signs_are_extended_by_zeros() -> None:
    """ptxas computes a high half from a sign."""
    written = shorten_addresses(_EXTENDED, NO_FACTS)
    assert re.search(r"and\.b32 (%kd_r\d+), .*\n\tcvt\.u64\.u32 %rd2, \1;", written)
    assert re.search(r"max\.s32 (%kd_r\d+), .*\n\tcvt\.s64\.s32 %rd4, \1;", written)


_EXTENDED_LOW_HALF = """.visible .entry e(
.param .u64 e_param_0
)
{{
.reg .pred %p<2>;
.reg .b32 %r<2>;
.reg .b64 %rd<6>;
ld.param.b64 %rd1, [e_param_0];
mov.u32 %r1, %tid.x;
cvt.u64.u32 %rd2, %r1;
min.s64 %rd3, %rd1, 5120;
cvt.{conversion} %rd4, %rd3;
setp.lt.s64 %p1, %rd2, %rd4;
@%p1 bra $L1;
ret;
$L1:
st.global.b64 [%rd1], %rd4;
ret;
}}"""


@pytest.mark.parametrize("conversion", ["s64.s32", "u64.u32"])
def test_a_conversion_may_extend_the_low_half_of_a_wide_register(conversion: str) -> None:
    """LLVM writes such: the register is no operand of instructions of 32 bits."""
    text = _EXTENDED_LOW_HALF.format(conversion=conversion)
    written = shorten_addresses(text, NO_FACTS)
    assert not re.search(r"[.][subf]32 .*%rd", written.replace(f"cvt.{conversion}", ""))
    header = ".version 8.0\n.target sm_90\n.address_size 64\n"
    assert assemble(header + written, "sm_90")


_PARTLY_DEFINED = """.visible .entry e(
.param .u64 e_param_0
)
{
.reg .pred %p<3>;
.reg .b32 %r<2>;
.reg .b64 %rd<6>;
ld.param.b64 %rd1, [e_param_0];
mov.u32 %r1, %tid.x;
cvt.u64.u32 %rd2, %r1;
setp.gt.s64 %p1, %rd2, 3;
@%p1 bra $L1;
and.b64 %rd3, %rd2, 255;
neg.s64 %rd4, %rd3;
$L1:
setp.lt.s64 %p2, %rd4, %rd2;
@%p2 bra $L2;
st.global.b64 [%rd1], %rd4;
$L2:
ret;
}"""


def test_an_operand_may_be_defined_on_some_ways_only() -> None:
    """LLVM writes such for elements that a thread does not have, and does not read."""
    written = shorten_addresses(_PARTLY_DEFINED, NO_FACTS)
    header = ".version 8.0\n.target sm_90\n.address_size 64\n"
    assert assemble(header + written, "sm_90")
