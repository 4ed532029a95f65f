"""The regions that the CPU target compiles: what is split, narrowed, interchanged and kept."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import BarrierDivergenceError


@kd.kernel
def shifted(out, n, r):
    i = kd.grid(1)
    if i + r < n:
        out[i] = 1


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def returns_early(x, out):
    i = kd.grid(1)
    if i >= out.size or i < 3:
        return
    out[i] = x[i]


@kd.kernel
def float_bound(limit, out):
    i = kd.grid(1)
    if i < limit:
        out[i] = 1


@kd.kernel
def tree_sum(x, out):
    s = kd.shared.array(256, kd.float32)
    t = kd.threadIdx.x
    i = kd.grid(1)
    s[t] = x[i] if i < x.size else kd.float32(0)
    kd.syncthreads()
    width = 128
    while width > 0:
        if t < width:
            s[t] += s[t + width]
        kd.syncthreads()
        width //= 2
    if t == 0:
        out[kd.blockIdx.x] = s[0]


@kd.kernel
def tile_product(a, b, c):
    sa = kd.shared.array((16, 16), kd.float32)
    sb = kd.shared.array((16, 16), kd.float32)
    tx = kd.threadIdx.x
    ty = kd.threadIdx.y
    col = kd.blockIdx.x * 16 + tx
    row = kd.blockIdx.y * 16 + ty
    acc = kd.float32(0)
    for tile in range((a.shape[1] + 15) // 16):
        k0 = tile * 16
        sa[ty, tx] = a[row, k0 + tx] if row < a.shape[0] and k0 + tx < a.shape[1] else kd.float32(0)
        sb[ty, tx] = b[k0 + ty, col] if k0 + ty < b.shape[0] and col < b.shape[1] else kd.float32(0)
        kd.syncthreads()
        for k in range(16):
            acc += sa[ty, k] * sb[k, tx]
        kd.syncthreads()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = acc


@kd.kernel
def row_sum(a, out):
    i = kd.grid(1)
    if i < out.size:
        acc = kd.float32(0)
        for k in range(a.shape[1]):
            acc += a[i, k]
        out[i] = acc


@kd.kernel
def keeps_a_private_array(x, out):
    mine = kd.local.array(4, kd.int64)
    t = kd.threadIdx.x
    for k in range(4):
        mine[k] = x[t] * k
    kd.syncthreads()
    out[kd.grid(1)] = mine[3]


@kd.kernel
def warp_barrier_in_a_varying_loop(x):
    for k in range(kd.threadIdx.x):
        x[kd.threadIdx.x] = k
        kd.syncwarp()


@kd.kernel
def divergent(x):
    if kd.threadIdx.x < 16:
        kd.syncthreads()


VECTORS = "float32[::1]"


def test_a_guard_becomes_a_bound():
    source = axpy.cpu_source(f"float32, {VECTORS}, {VECTORS}, {VECTORS}", forall=1)
    assert "int.min" in source.split("row %")[0]
    assert "if %" not in source


def test_an_early_return_becomes_bounds():
    source = returns_early.cpu_source(f"{VECTORS}, {VECTORS}", forall=1)
    assert {"int.min", "int.max"} <= set(re.findall(r"int\.\w+", source.split("row %")[0]))
    assert "if %" not in source


def test_a_bound_that_is_no_integer_stays_a_test():
    source = float_bound.cpu_source(f"float64, {VECTORS}", forall=1)
    assert "numba.lt" in source.split("row %")[1]


def test_a_block_is_cut_at_its_barriers():
    source = tree_sum.cpu_source(f"{VECTORS}, {VECTORS}", block=256)
    assert source.count("row") >= 2
    assert "while %width" in source
    assert "syncthreads" not in source


@kd.kernel(wraparound=False)
def steps_of(x, out, *, step):
    t, total = kd.threadIdx.x, kd.float32(0)
    for at in range(0, x.size - 255, step):
        total += x[at + t]
    total = kd.block.sum(total)
    if t == 0:
        out[kd.blockIdx.x] = total


@pytest.mark.parametrize("step", [1, 256])
def test_steps_that_go_on_behind_each_other_are_taken_by_all_threads(rng, step):
    kernel = steps_of.member(step=step)
    x, out = rng.integers(-9, 9, 3000).astype(np.float32), np.empty(1, np.float32)
    with kd.use("cpu"):
        kernel[1, 256](x, out)
    assert out[0] == sum(x[at : at + 256].sum() for at in range(0, x.size - 255, step))


def test_a_loop_along_rows_stays_inside():
    source = row_sum.cpu_source("float32[:, ::1], float32[::1]", forall=1)
    assert source.index("row %") < source.index("for %")


def test_a_private_array_across_a_barrier_has_a_place_for_each_thread():
    out = np.full(70, -1)
    x = np.random.default_rng().integers(0, 100, 35)
    with kd.use("cpu"):
        keeps_a_private_array[2, 35](x, out)
    np.testing.assert_array_equal(out, np.tile(3 * x, 2))


def test_a_warp_barrier_in_a_varying_loop_runs_while_any_thread_is_in_it():
    x = np.full(32, -1)
    with kd.use("cpu"):
        warp_barrier_in_a_varying_loop[1, 32](x)
    assert (x == np.arange(32) - 1).all()


def test_a_divergent_barrier_shows_line_caret_and_chain():
    with pytest.raises(BarrierDivergenceError) as info:
        divergent.cpu_source("int64[::1]", block=32)
    text = str(info.value)
    assert "kd.syncthreads()\n" in text
    assert "^^^^" in text
    assert "`kd.threadIdx.x` is the thread's own index" in text


def test_an_unknown_threading_layer_is_an_error(monkeypatch):
    from targets.cpu.runtime import threads

    monkeypatch.setenv("KERNELDSL_THREADING_LAYER", "pthreads")
    with pytest.raises(kd.ArgumentValueError, match="pthreads") as info:
        threads._choose()
    assert "native, tbb, omp, workqueue or serial" in str(info.value)


USES_BIAS = False


@kd.kernel
def chooses_by_rank(a, out):
    i = kd.grid(1)
    if i < out.size:
        if a.ndim == 2:
            out[i] = a[i, 0]
        else:
            out[i] = a[i]
        if USES_BIAS:
            out[i] = a[i, 0, 0]


@kd.kernel
def row_sums(a, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a[i].sum()


@pytest.mark.parametrize("shape", [(5,), (5, 3)])
def test_a_branch_that_a_constant_rules_out_is_not_typed(shape):
    a = np.random.default_rng().random(shape)
    out = np.full(5, np.nan)
    with kd.use("cpu"):
        chooses_by_rank.forall(5)(a, out)
    np.testing.assert_array_equal(out, a.reshape(5, -1)[:, 0])
    kinds = f"float64[{', '.join([':'] * (len(shape) - 1) + ['::1'])}], float64[::1]"
    assert ".entry chooses_by_rank" in chooses_by_rank.ptx(kinds, arch="sm_90")


def test_functions_of_whole_arrays_are_there_when_they_are_needed():
    a = np.random.default_rng().integers(0, 100, (5, 7)).astype(float)  # whose sums are exact
    out = np.full(5, np.nan)
    with kd.use("cpu"):
        row_sums.forall(5)(a, out)
    np.testing.assert_array_equal(out, a.sum(axis=1))
    assert "add.f64" in row_sums.ptx("float64[:, ::1], float64[::1]", arch="sm_90")


@kd.kernel
def guard_of_a_reassigned_variable(out):
    i = kd.threadIdx.x
    limit = kd.float32(0)
    value = kd.int32(limit) if limit >= -1.0 and limit < 1.0 else kd.int32(3)
    out[i] = value
    limit = kd.float32(0)
    out[i] += kd.int32(limit)


@kd.kernel
def squares(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] * x[i]


def test_a_guard_over_a_variable_of_the_thread_stays_in_the_loop():
    out = np.full(3, -1, np.int32)
    with kd.use("cpu"):
        guard_of_a_reassigned_variable[1, 3](out)
    np.testing.assert_array_equal(out, 0)


def test_signed_integers_wrap_around():
    x = np.random.default_rng().integers(-(2**63), 2**63 - 1, 1000)
    out = np.zeros(1000)
    with kd.use("cpu"):
        squares.forall(1000)(x, out)
    np.testing.assert_array_equal(out, (x * x).astype(np.float64))
    # A square that were taken for positive would be converted as an unsigned number.
    assert "cvt.rn.f64.s64" in squares.ptx("int64[::1], float64[::1]", arch="sm_90")


def test_a_module_named_as_the_kernel_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shadowed_kernel.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    @kd.kernel
    def shadowed_kernel(out):
        out[kd.grid(1)] = helper(1.0)

    @kd.func
    def helper(x):
        return x * 2

    out = np.zeros(3)
    with kd.use("cpu"):
        shadowed_kernel.forall(3)(out)
    assert (out == 2).all()
    shadowed_kernel.ptx("float64[::1]", forall=1, arch="sm_90")


@kd.kernel
def prints_a_division(out, m):
    i = kd.grid(1)
    if i == 0:
        print("= sdiv i64 a, %b", i + 3)
    out[i] = i // m + i % m


def test_a_printed_text_is_no_division(capfd):
    out = np.zeros(4, np.int64)
    with kd.use("cpu"):
        prints_a_division.forall(4)(out, 2)
    assert (out == np.arange(4) // 2 + np.arange(4) % 2).all()
    assert "= sdiv i64 a, %b 3" in capfd.readouterr().out


@kd.kernel
def beside_an_extent(x, out):
    i = kd.grid(1)
    if i + x.size > 0:
        out[i] = 1


def test_an_extent_may_be_of_any_size():
    x, out = np.broadcast_to(np.zeros(1, np.int8), (2**63 - 1,)), np.zeros(4)
    with kd.use("cpu"):
        beside_an_extent.forall(4)(x, out)
    assert out.tolist() == [1, 0, 0, 0]  # the sum wraps


def test_a_division_by_a_constant_is_one_for_llvm():
    """It knows how often a loop over halves runs, and writes each round out."""

    @kd.kernel
    def tree(x, out):
        s = kd.shared.array(256, np.float32)
        t = kd.threadIdx.x
        s[t] = x[t]
        kd.syncthreads()
        stride = 128
        while stride > 0:
            if t < stride:
                s[t] += s[t + stride]
            kd.syncthreads()
            stride //= 2
        if t == 0:
            out[0] = s[0]

    x = np.zeros(256, np.float32)
    # One addition at least for each of the eight rounds; a loop over rounds has two or three.
    assert len(re.findall(r"\b(?:v?adds[sd]|fadd)\b", tree.asm(x, x, block=256))) >= 8
