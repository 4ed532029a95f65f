"""Accesses that an explanation counts, against each thread's accesses one after the other."""

from __future__ import annotations

import sys
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from tests.support.extent import examples, full_beyond
from tests.support.recorded import Counted, record, sectors_of


@kd.kernel
def strided(x, out, stride, start, n):
    i = kd.grid(1)
    if i < n:
        out[i] = x[start + stride * i]


@kd.kernel
def looped(x, out, n):
    i = kd.grid(1)
    r = 0
    for k in range(i, n, kd.gridsize(1)):
        r += 1
        if x[k] < 0 or k % 3 == 1:
            continue
        out[k] = k


@kd.kernel
def transposed(a, out):
    tile = kd.shared.array((16, 17), np.float32)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    x, y = kd.grid(2)
    if x < a.shape[1] and y < a.shape[0]:
        tile[ty, tx] = a[y, x]
    kd.syncthreads()
    x = kd.blockIdx.y * 16 + tx
    y = kd.blockIdx.x * 16 + ty
    if x < out.shape[1] and y < out.shape[0]:
        out[y, x] = tile[tx, ty]


@kd.kernel
def reduced(x, out):
    s = kd.shared.array(64, np.float32)
    t = kd.threadIdx.x
    i = kd.grid(1)
    s[t] = x[i] if i < x.size else np.float32(0)
    kd.syncthreads()
    d = 1
    while d < 64:
        if t % (2 * d) == 0:
            s[t] = s[t] + s[t + d]
        kd.syncthreads()
        d *= 2
    if t == 0:
        out[kd.blockIdx.x] = s[0]


@kd.func
def at(x, i, step):
    if i >= x.size // step:
        return x[0]
    return x[i * step]


@kd.kernel
def called(x, out):
    i = kd.grid(1)
    r = 0
    while i < out.size:
        r += 1
        out[i] = at(x, i, 2)
        i += 100
        if i > 150:
            break


@kd.kernel
def gathered(index, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[index[i]]


def _explained(kernel, args, block, grid):
    found = kernel.explain(*args, block=block, grid=grid, arch="sm_90", occupancy=False)
    sums = defaultdict(lambda: Counted(0, 0, 0, 0))
    for each in found.accesses:
        name = each.array if each.space == "global" else each.space
        key = name, each.operation == "store"
        old = sums[key]
        sums[key] = Counted(
            old.requests + each.requests,
            old.lanes + each.threads,
            old.sectors + each.sectors,
            old.wavefronts + each.wavefronts,
        )
    return found, sums


def _agree(kernel, args, block, grid):
    """Compare every array; of global memory the sectors, of shared memory the wavefronts."""
    found, sums = _explained(kernel, args, block, grid)
    wanted = record(kernel, grid, block, tuple(a.copy() if hasattr(a, "copy") else a for a in args))
    assert not found.is_sampled
    assert set(sums) == set(wanted)
    for key, counted in wanted.items():
        got = sums[key]
        assert got[:2] == counted[:2], key
        which = 3 if key[0] == "shared" else 2
        assert got[which] == counted[which], key
    assert {each.certainty for each in found.accesses} == {"exact"}
    return found


_DTYPES = st.sampled_from(["int8", "float16", "int32", "float32", "float64", "complex128"])


@given(
    st.integers(-40, 40), st.integers(0, 9), _DTYPES, st.integers(1, 80), st.integers(1, 3),
    st.integers(0, 150),
)  # fmt: skip
@settings(max_examples=examples(20), deadline=None)
def test_strides_offsets_dtypes_and_blocks(stride, start, dtype, block, grid, n):
    n = min(n, block * grid)
    if stride < 0:
        start += -stride * max(n - 1, 0)
    x = np.zeros(start + abs(stride) * n + 1, dtype)
    out = np.zeros(max(n, 1), dtype)
    if n:
        _agree(strided, (x, out, stride, start, n), block, grid)


@pytest.mark.parametrize("block", [(16, 16), pytest.param((16, 5), marks=pytest.mark.full)])
def test_shared_tiles(block):
    a = np.zeros((37, 50), np.float32)
    if block == (16, 16):
        _agree(transposed, (a, a.T.copy()), block, (4, 3))
    else:  # not all of the tile is written, and that is nothing to this count
        _agree(transposed, (a, a.T.copy()), block, (4, 8))


@pytest.mark.parametrize(
    ("kernel", "args", "block", "grid"),
    [
        (looped, (np.arange(-20, 130, dtype=np.float32), np.zeros(150, np.float32), 150), 33, 2),
        (reduced, (np.ones(150, np.float32), np.zeros(3, np.float32)), 64, 3),
        (called, (np.zeros(120, np.float64), np.zeros(210, np.float64)), 40, 3),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_loops_branches_and_calls(kernel, args, block, grid):
    _agree(kernel, args, block, grid)


def test_indices_in_an_argument_are_looked_up():
    random = np.random.default_rng(7)
    index = random.integers(0, 500, 150).astype(np.int32)
    args = index, np.zeros(500, np.float32), np.zeros(150, np.float32)
    _agree(gathered, args, 64, 3)


def test_unknown_indices_are_an_estimate_near_the_truth():
    """Evenly spread indices of a signature touch what those of an argument do, on average."""
    sizes = {"index": 4096, "x": 1 << 14, "out": 4096}
    signature = "int32[::1], float32[::1], float32[::1]"
    found = gathered.explain(signature, block=128, sizes=sizes, arch="sm_90")
    (load,) = (each for each in found.accesses if each.array == "x")
    assert load.certainty == "estimate"
    index = np.random.default_rng(1).integers(0, 1 << 14, 4096).astype(np.int32)
    args = index, np.zeros(1 << 14, np.float32), np.zeros(4096, np.float32)
    (exact,) = (
        each for each in gathered.explain(*args, block=128, arch="sm_90").accesses
        if each.array == "x"
    )  # fmt: skip
    assert load.sectors_per_request == pytest.approx(exact.sectors_per_request, rel=0.02)


def test_some_blocks_stand_for_all():
    """Of a grid that is too large to walk, edges and inner blocks are weighed."""
    n = 1_000_003
    sizes = {"x": 3 * n + 2, "out": n, "stride": 3, "start": 2, "n": n}
    signature = "float32[::1], float32[::1], int64, int64, int64"
    found = strided.explain(signature, block=256, sizes=sizes, arch="sm_90")
    assert found.is_sampled
    assert found.assumed == {"grid": (-(-n // 256), 1, 1)}
    load, store = found.accesses
    warps = -(-n // 32)
    assert load.requests == pytest.approx(warps)
    assert load.threads == pytest.approx(n)
    addresses = 4 * (2 + 3 * np.arange(n))
    by_warp = [
        len(np.unique(part // 32)) for part in np.array_split(addresses[: n - n % 32], n // 32)
    ]
    assert load.sectors == pytest.approx(sum(by_warp) + 2, rel=1e-4)
    assert store.sectors == pytest.approx(-(-n // 8))
    x, out = found.arrays
    assert out.written_bytes == pytest.approx(32 * -(-n // 8))
    assert x.read_bytes == pytest.approx(4 * 3 * n, rel=1e-4)


@kd.kernel
def by_extent(a, out):
    i, j = kd.grid(2)
    out[i, j] = a[i, j] + a[i, 0]


@kd.kernel
def by_grid(a, out):
    x, y = kd.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        out[y, x] = a[y, x] + a[y, 0]


@pytest.mark.parametrize("block", full_beyond([36, 100, 260], [100]))
def test_blocks_that_begin_anywhere_in_a_sector_are_equally_many(block):
    count = 1_000_003
    x, out = np.ones(2 * count, np.float32), np.zeros(count, np.float32)
    found = strided.explain(
        x, out, 1, 0, count, block=block, grid=-(-count // block), arch="sm_90", occupancy=False
    )
    lanes = np.arange(count)
    warps = lanes // block * (block // 32 + 1) + lanes % block // 32
    expected = len(np.unique(np.stack([warps, lanes // 8]), axis=1)[0])
    assert found.is_sampled
    for access in found.accesses:
        assert access.sectors == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("block", [96, 128, 224])
def test_counts_of_blocks_that_stand_for_all_have_no_rounding_in_them(block):
    n = 1 << 22
    x, out = np.ones(n, np.float32), np.zeros(n, np.float32)
    found = strided.explain(x, out, 1, 0, n, block=block, arch="sm_90", occupancy=False)
    assert found.is_sampled
    for access in found.accesses:
        assert access.sectors_per_request == 4
        assert (access.requests, access.threads) == (n / 32, n)
    doubled = twofold.explain(x, out, block=block, arch="sm_90", occupancy=False)
    assert doubled.flops() == n


@kd.kernel
def twofold(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] + x[i]


@kd.func
def squared(x, i):
    return x[i] * x[i]


@kd.kernel
def of_both(x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = squared(x, i) + squared(y, 2 * i)


def test_a_function_that_is_called_with_several_arrays_accesses_each():
    x, y, out = (np.zeros(n, np.float32) for n in (512, 1024, 512))
    found = of_both.explain(x, y, out, block=64, arch="sm_90", occupancy=False)
    reads = {each.name: each.read_bytes for each in found.arrays}
    assert reads == {"x": 512 * 4, "y": 1024 * 4, "out": 0}
    loads = [each for each in found.accesses if each.operation == "load"]
    assert [(each.array, each.stride, each.sectors_per_request) for each in loads] == [
        *[("x", 1, 4)] * 2, *[("y", 2, 8)] * 2,
    ]  # fmt: skip
    assert str(found.formulas.requested_bytes) == "20*out.shape[0]"


def test_device_memory_is_read_in_pairs_of_sectors_and_written_in_single_ones():
    count = 1 << 10
    for stride, each in (1, 4), (3, 12), (16, 64), (33, 64):
        x, out = np.ones(stride * count, np.float32), np.zeros(stride * count, np.float32)
        loads = strided.explain(x, out, stride, 0, count, block=128, grid=8, arch="sm_90")
        assert loads.dram_read_bytes == each * count
        written = next(array for array in loads.arrays if array.name == "out").written_bytes
        assert written == 4 * count


def test_an_extent_runs_its_last_axis_along_x():
    """A launch over an extent has the counts of a guarded launch by grid and block."""
    args = np.zeros((19, 45), np.float32), np.zeros((19, 45), np.float32)
    options = {"block": (32, 4), "arch": "sm_90", "occupancy": False}
    one = by_extent.explain(*args, forall=(19, 45), **options)
    two = by_grid.explain(*args, **options)
    assert one.grid_dim == two.grid_dim == (2, 5, 1)
    for first, second in zip(one.accesses, two.accesses, strict=True):
        assert first.requests == second.requests
        assert first.sectors == second.sectors
        assert first.index == second.index
    assert one.flops() == two.flops() == 19 * 45
    for each in (one, two):
        (formula,) = each.formulas.flops.values()
        assert each.formulas.evaluate(formula) == 19 * 45


@kd.kernel
def wide(x, out):
    quads = kd.view(x, kd.float32x4)
    i = kd.grid(1)
    if i < quads.size:
        q = kd.load(quads, i, cache="streaming")
        out[i] = q.x + q.w


def test_vectors_are_one_request():
    sizes = {"x": 4096, "out": 1024}
    found = wide.explain("float32[::1], float32[::1]", block=128, sizes=sizes, arch="sm_90")
    (load,) = (each for each in found.accesses if each.operation == "load")
    assert (load.itemsize, load.requests, load.sectors_per_request) == (16, 32, 16)


_PARTICLE = [("x", "f4"), ("y", "f4", (3,)), ("at", [("z", "f8")]), ("on", "i1")]


@kd.kernel
def fields(a, b, out):
    i = kd.grid(1)
    if i < out.size:
        r = a[i]
        b[i].x = a[i].y[2]
        out[i] = r.at.z + a["at"]["z"][i] + b["y"][i, 1]


@pytest.mark.parametrize("is_aligned", [False, True], ids=["packed", "aligned"])
def test_fields_of_records_are_accesses_of_their_bytes(is_aligned):
    """A packed field is loaded and stored byte by byte, as the PTX says."""
    dtype = np.dtype(_PARTICLE, align=is_aligned)
    a, b, out = np.zeros(64, dtype), np.zeros(64, dtype), np.zeros(64, np.float64)
    found = fields.explain(a, b, out, block=32, arch="sm_90", occupancy=False)
    starts = {
        "r.at.z": dtype.fields["at"][1],
        "b[i].x": 0,
        "a[i].y[2]": dtype.fields["y"][1] + 8,
        'a["at"]["z"][i]': dtype.fields["at"][1],
        'b["y"][i, 1]': dtype.fields["y"][1] + 4,
    }
    by_text = {each.text: each for each in found.accesses if each.array != "out"}
    assert set(by_text) == set(starts)
    for text, start in starts.items():
        access, nbytes = by_text[text], 8 if "z" in text else 4
        field = dtype.fields["y"][1] if "y" in text else start
        assert (access.itemsize, access.field_offset, access.stride) == (nbytes, field, 1)
        assert (access.record_bytes, access.threads) == (dtype.itemsize, 64)
        parts = [(start, nbytes)] if is_aligned else [(start + k, 1) for k in range(nbytes)]
        assert access.requests == 2 * len(parts)
        assert access.needed_bytes == 64 * nbytes
        assert access.sectors == sum(
            sectors_of([lane * dtype.itemsize + place for lane in lanes], width)
            for place, width in parts
            for lanes in (range(32), range(32, 64))
        )
    code = fields.ptx(a, b, out, arch="sm_90")
    stores = 1 if is_aligned else 4
    assert code.count("st.global.b32" if is_aligned else "st.global.b8") == stores
    assert found.formulas.evaluate(found.formulas.requested_bytes) == 64 * (4 + 4 + 8 + 8 + 4 + 8)
    assert "float64" not in {each.kind for each in found.findings}


def test_a_copied_record_is_read_and_written_byte_by_byte():
    @kd.kernel
    def copied(a, b):
        tile = kd.shared.array(32, particle)
        t = kd.threadIdx.x
        tile[t] = a[t]
        kd.syncthreads()
        r = tile[t]
        b[t] = r

    particle = np.dtype([("x", "f4"), ("y", "f4")], align=True)
    a = np.zeros(32, particle)
    found = copied.explain(a, a.copy(), block=32, arch="sm_90", occupancy=False)
    kinds = [(each.operation, each.space, each.text, each.requests) for each in found.accesses]
    assert kinds == [
        ("load", "global", "a[t]", 8),
        ("store", "shared", "tile[t]", 8),
        ("load", "shared", "r", 8),
        ("store", "global", "b[t]", 8),
    ]
    told = [each for each in found.findings if each.kind == "coalescing"]
    assert len(told) == 2
    assert all("8 bytes are copied one by one" in each.why for each in told)


def test_without_sympy_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    monkeypatch.setitem(sys.modules, "sympy", None)
    monkeypatch.setattr(
        "kerneldsl.launch.artifact.find_artifact", lambda *which: compiled.append(which)
    )
    with pytest.raises(kd.ToolMissingError, match=r"kerneldsl\[sym\]"):
        strided.explain("float32[::1], float32[::1], int64, int64, int64", arch="sm_90")
    assert not compiled
