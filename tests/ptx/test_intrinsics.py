"""Every intrinsic has a lowering, on every dtype it takes, for every architecture."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import Promises
from kerneldsl.errors import KernelTypingError
from kerneldsl.language.element_types import DTYPE_NAMES, ELEMENT_TYPES
from kerneldsl.language.intrinsics.atomics import ATOMIC_VECTORS
from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.intrinsics.table import INTRINSICS
from targets.cuda.compile.compiler import compile_kernel
from tests.ptx.helpers import (
    ARCH_PARAMETERS,
    ASSEMBLED_ARCHS,
    QUICK_ARCHS,
    assemble_together,
    lower,
    specialize,
    write,
)
from tests.support.cases import kind_of
from tests.support.extent import IS_QUICK


def indices(out):
    i, j, k = kd.grid(3)
    a, b, c = kd.gridsize(3)
    p, q = kd.grid(2)
    out[0] = i + j + k + a + b + c + p * q + kd.grid(1) + kd.gridsize(1)
    out[1] = kd.threadIdx.x + kd.threadIdx.y + kd.threadIdx.z
    out[2] = kd.blockIdx.x + kd.blockIdx.y + kd.blockIdx.z
    out[3] = kd.blockDim.x + kd.blockDim.y + kd.blockDim.z
    out[4] = kd.gridDim.x + kd.gridDim.y + kd.gridDim.z
    out[5] = kd.laneid + kd.warpsize


def votes_and_fences(p, out):
    kd.syncthreads()
    out[0] = kd.syncthreads_count(p[kd.threadIdx.x])
    out[1] = kd.syncthreads_and(p[kd.threadIdx.x])
    out[2] = kd.syncthreads_or(p[kd.threadIdx.x])
    kd.syncwarp()
    kd.syncwarp(0xFF)
    kd.threadfence()
    kd.threadfence_block()
    kd.threadfence_system()


def shuffles(x):
    t = kd.threadIdx.x
    x[t] = kd.shfl_sync(0xFFFFFFFF, x[t], t + 1)
    x[t] = kd.shfl_up_sync(0xFFFFFFFF, x[t], 1)
    x[t] = kd.shfl_down_sync(-1, x[t], np.int8(2))
    x[t] = kd.shfl_xor_sync(np.uint32(255), x[t], 4)


def warp_votes(p, out):
    t = kd.threadIdx.x
    out[t] = kd.ballot_sync(0xFFFFFFFF, p[t])
    out[t] = kd.all_sync(-1, p[t]) + kd.any_sync(0xFF, p[t]) + kd.eq_sync(-1, p[t])
    out[t] += kd.activemask() + kd.lanemask_lt()


def lane_values(x, out):
    t = kd.threadIdx.x
    lanes, is_one = kd.match_all_sync(-1, x[t])
    out[t] = kd.match_any_sync(0xFFFFFFFF, x[t]) + (lanes if is_one else 3)
    x[t] = kd.reduce_add_sync(t, x[t])
    x[t] = kd.reduce_min_sync(-1, x[t]) + kd.reduce_max_sync(-1, x[t])


def bitwise_reductions(x):
    t = kd.threadIdx.x
    x[t] = kd.reduce_and_sync(0xFFFFFFFF, x[t])
    x[t] = kd.reduce_or_sync(-1, x[t]) + kd.reduce_xor_sync(np.uint32(255), x[t])


def bits(x):
    t = kd.threadIdx.x
    x[t] = kd.popc(x[t]) + kd.clz(x[t]) + kd.ffs(x[t]) + kd.brev(x[t])
    x[t] = kd.byte_perm(x[t], x[t + 1], 0x5410)


def wide_integers(x):
    t = kd.threadIdx.x
    low, high = x[t], x[t + 1]
    x[t] = kd.mulhi(low, high)
    x[t] += kd.funnelshift_l(low, high, 3) + kd.funnelshift_r(low, high, t)
    x[t] += kd.funnelshift_lc(low, high, t) + kd.funnelshift_rc(low, high, 99)


def dot_products(x, y, z):
    t = kd.threadIdx.x
    z[t] = kd.dot4(x[t], y[t], kd.dot4(y[t], x[t], z[t]))


def floats(x):
    t = kd.threadIdx.x
    x[t] = kd.fma(x[t], x[t + 1], kd.rsqrt(x[t])) + kd.cbrt(x[t])
    kd.nanosleep(t)


def choices(x):
    t = kd.threadIdx.x
    x[t] = kd.selp(t > 3, x[t], x[t + 1])


def _cast(source, target):
    dtype = target if target == "bfloat16" else getattr(kd, target)

    def cast(x, y):
        t = kd.threadIdx.x
        y[t] = kd.bitcast(x[t], dtype)

    return cast, f"{source}[::1], {target}[::1]"


def sums_of_groups(x):
    t = kd.threadIdx.x
    x[t] = kd.warp.sum(x[t])
    x[t] = kd.block.sum(x[t])
    x[t] = kd.warp.inclusive_scan(x[t])
    x[t] = kd.block.inclusive_scan(x[t])
    x[t] = kd.warp.exclusive_scan(x[t])
    x[t] = kd.block.exclusive_scan(x[t])


def extremes_of_groups(x):
    t = kd.threadIdx.x
    x[t] = kd.warp.max(x[t])
    x[t] = kd.block.max(x[t])
    x[t] = kd.warp.min(x[t])
    x[t] = kd.block.min(x[t])


def operations_of_groups(x):
    t = kd.threadIdx.x
    x[t] = kd.warp.reduce(x[t], lambda a, b: b)
    x[t] = kd.block.reduce(x[t], lambda a, b: a)
    x[t] = kd.warp.inclusive_scan(x[t], lambda a, b: b)
    x[t] = kd.block.inclusive_scan(x[t], lambda a, b: b)
    x[t] = kd.warp.exclusive_scan(x[t], lambda a, b: b, x[t])
    x[t] = kd.block.exclusive_scan(x[t], lambda a, b: b, x[0])
    x[t] = kd.block.exclusive_scan(x[t], initial=x[t])


def exchanges_of_groups(x):
    t = kd.threadIdx.x
    x[t] = kd.warp.broadcast(x[t], 3)
    x[t] = kd.block.broadcast(x[t], 3)
    x[t] = kd.warp.exchange(x[t], t + 1)
    x[t] = kd.block.exchange(x[t], t - 1)


def sorts_of_groups(x):
    t = kd.threadIdx.x
    x[t] = kd.warp.sort(x[t])
    x[t] = kd.block.sort(x[t])
    key, value = kd.warp.sort(x[t], x[t])
    x[t], value = kd.block.sort(value, key)


def votes_of_groups(p, out):
    t = kd.threadIdx.x
    out[t] = kd.warp.count(p[t]) + kd.block.count(p[t])
    out[t] += kd.warp.any(p[t]) + kd.block.any(p[t])
    out[t] += kd.warp.all(p[t]) + kd.block.all(p[t])


def uniform(x):
    x[0] = kd.uniform(x[1])


def _arrays(dtype):
    element = dtype if dtype == "bfloat16" else getattr(kd, "bool_" if dtype == "bool" else dtype)

    def arrays(x):
        one = kd.shared.array(32, element)
        two = kd.shared.array((4, 8), element)
        three = kd.shared.array((2, 4, 4), element)
        dynamic = kd.shared.array(0, element)
        local = kd.local.array((2, 3), element)
        t = kd.threadIdx.x
        one[t] = two[t // 8, t % 8] = three[t // 16, t // 4 % 4, t % 4] = x[t]
        local[t % 2, t % 3] = x[t]
        dynamic[t] = local[0, t % 3]
        kd.syncthreads()
        x[t] = one[31 - t]
        x[t + 32] = two[t % 4, t // 4]
        x[t + 64] = three[t % 2, t // 2 % 4, t // 8]
        x[t + 96] = dynamic[dynamic.size - 1 - t]

    return arrays


_CAST = [d for d in DTYPE_NAMES if ELEMENT_TYPES[d].is_integer or ELEMENT_TYPES[d].is_float]


def _are_cast(source, target):
    return source in _CAST and ELEMENT_TYPES[source].nbytes == ELEMENT_TYPES[target].nbytes


_SHUFFLED = ("int32", "int64", "uint32", "uint64", "float32", "float64")
_ATOMICS = [i for i in INTRINSICS.values() if i.typing in (Typing.ATOMIC, Typing.ATOMIC_CAS)]


def _atomic(intrinsic):
    if intrinsic.typing is Typing.ATOMIC_CAS:

        def swap(x, y):
            i = kd.grid(1)
            y[i] = intrinsic(x, i % 8, y[i], y[i + 1])
            intrinsic(x, -1, 1, 2)

        return swap

    def update(x, y):
        i = kd.grid(1)
        y[i] = intrinsic(x, i % 8, y[i])
        intrinsic(x, (i,), 3)

    return update


def _kernels():
    yield indices, "int64[::1]"
    for dtype in ("bool", "int8", "int32", "int64", "uint64"):
        yield votes_and_fences, f"{dtype}[::1], int32[::1]"
        yield warp_votes, f"{dtype}[::1], int32[::1]"
        yield votes_of_groups, f"{dtype}[::1], int32[::1]"
    for dtype in INTRINSICS["block.sum"].dtypes:
        yield sums_of_groups, f"{dtype}[::1]"
        yield operations_of_groups, f"{dtype}[::1]"
        yield exchanges_of_groups, f"{dtype}[::1]"
    for dtype in INTRINSICS["block.max"].dtypes:
        yield extremes_of_groups, f"{dtype}[::1]"
        yield sorts_of_groups, f"{dtype}[::1]"
    for dtype in DTYPE_NAMES:
        if ELEMENT_TYPES[dtype].is_integer:
            yield bits, f"{dtype}[::1]"
        yield choices, f"{dtype}[::1]"
        if ELEMENT_TYPES[dtype].is_integer and ELEMENT_TYPES[dtype].nbytes >= 4:
            yield wide_integers, f"{dtype}[::1]"
        if ELEMENT_TYPES[dtype].is_float or dtype == "int64":
            yield floats, f"{dtype}[::1]"
        yield from (_cast(dtype, other) for other in _CAST if _are_cast(dtype, other))
    for first in ("int32", "uint32"):
        for second in ("int32", "uint32"):
            yield dot_products, f"{first}[::1], {second}[::1], int32[::1]"
    for dtype in ("bool", "int8", "uint16", *_SHUFFLED):
        yield shuffles, f"{dtype}[::1]"
        yield lane_values, f"{dtype}[::1], int64[::1]"
        if "float" not in dtype:
            yield bitwise_reductions, f"{dtype}[::1]"
    for dtype in DTYPE_NAMES:
        yield _arrays(dtype), f"{dtype}[::1]"
        yield uniform, f"{dtype}[::1]"
    for intrinsic in _ATOMICS:
        for dtype in intrinsic.dtypes:
            if dtype not in ATOMIC_VECTORS:  # which no number is added to: test_atomics.py
                yield _atomic(intrinsic), f"{dtype}[::1], {dtype}[::1]"


KERNELS = list(_kernels())


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
def test_every_intrinsic_on_every_dtype(arch: str) -> None:
    """In a quick run each architecture has a part of them, which between them are an eighth."""
    part = 8 * len(QUICK_ARCHS)
    kernels = KERNELS[8 * QUICK_ARCHS.index(arch) :: part] if IS_QUICK else KERNELS
    written = [write(lower(function, signature), arch) for function, signature in kernels]
    if arch in ASSEMBLED_ARCHS:
        assert assemble_together(written, arch) == len(kernels)


@pytest.mark.parametrize(
    ("intrinsic", "dtype"),
    [
        (intrinsic, dtype)
        for intrinsic in _ATOMICS
        for dtype in DTYPE_NAMES
        if dtype not in intrinsic.dtypes
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_an_atomic_refuses_other_dtypes(intrinsic, dtype: str) -> None:
    with pytest.raises(KernelTypingError):
        lower(_atomic(intrinsic), f"{dtype}[::1], {dtype}[::1]")


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_shuffle_refuses_what_does_not_fit_its_registers(dtype: str) -> None:
    with pytest.raises(KernelTypingError) as raised:
        lower(shuffles, f"{dtype}[::1]")
    with pytest.raises(KernelTypingError, match="value must be one of"):
        lower(lane_values, f"{dtype}[::1], int64[::1]")
    cause = str(raised.value.__cause__)
    assert f"value must be one of {', '.join(_SHUFFLED)} or a smaller integer" in cause
    assert f"and is {dtype}" in cause


@pytest.mark.parametrize("dtype", ["bool", "complex64", "complex128"])
def test_what_has_no_order_has_no_extremes(dtype: str) -> None:
    with pytest.raises(KernelTypingError) as raised:
        lower(extremes_of_groups, f"{dtype}[::1]")
    cause = str(raised.value.__cause__)
    assert f"x must be one of {', '.join(INTRINSICS['block.max'].dtypes)}, and is {dtype}" in cause


def test_bits_and_votes_of_numbers_that_are_no_integers_are_refused() -> None:
    with pytest.raises(KernelTypingError) as raised:
        lower(bits, "float32[::1]")
    assert "value must be an integer, and is float32" in str(raised.value.__cause__)
    with pytest.raises(KernelTypingError) as raised:
        lower(warp_votes, "float32[::1], int32[::1]")
    assert "predicate must be a boolean or an integer" in str(raised.value.__cause__)


def test_an_index_of_the_wrong_rank_is_refused() -> None:
    def scatter(x):
        kd.atomic.add(x, 0, 1)

    with pytest.raises(KernelTypingError) as raised:
        lower(scatter, "int32[:, ::1]")
    assert "the array has 2 dimensions, and the index 1" in str(raised.value.__cause__)


def _mixed_widths(x):
    x[0] = kd.mulhi(x[0], 3)


def _bytes_of_long_words(x):
    x[0] = kd.dot4(x[0], x[1], 0)


def _complex_root(x):
    x[0] = kd.cbrt(x[0])


def _mixed_choice(x):
    x[0] = kd.selp(True, x[0], 2.0)


def _other_width(x):
    x[0] = kd.bitcast(x[0], np.int64)


def _cast_of_bool(x):
    x[0] = kd.bitcast(x[0], np.int8)


@pytest.mark.parametrize(
    ("function", "dtype", "message"),
    [
        (_mixed_widths, "uint32", "a and b must both be int32, uint32, int64 or uint64, and are"),
        (_mixed_widths, "uint32", "kd.uint32(…) converts it"),
        (wide_integers, "int16", "a and b must both be int32, uint32, int64 or uint64, and are"),
        (_bytes_of_long_words, "int64", "a must be int32 or uint32"),
        (_complex_root, "complex64", "x must be a real number, and is complex64"),
        (_mixed_choice, "float32", "a and b must be numbers of one type, and are float32"),
        (_other_width, "float32", "value has 32 bits (float32), and dtype 64 (int64)"),
        (_cast_of_bool, "bool", "value must be an integer or a float, and is bool"),
        (bitwise_reductions, "float32", "value must be an integer, and is float32"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_values_of_types_that_do_not_fit_are_refused(function, dtype: str, message: str) -> None:
    with pytest.raises(KernelTypingError) as raised:
        lower(function, f"{dtype}[::1]")
    assert message in str(raised.value)


def _loads(x, out):
    i = kd.grid(1)
    out[i] = kd.atomic.load(x, i)
    out[i] += kd.atomic.load(x, i, "acquire", "system") + kd.atomic.load(x, i, "seq_cst")


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "int32", "float64"])
def test_an_atomic_load_is_none_of_the_read_only_cache(dtype: str) -> None:
    """LLVM takes an array that is only loaded, and is no other one, for constant."""
    promises = Promises(is_disjoint=True)
    signature = f"{dtype}[::1], {dtype}[::1]"
    ptx = compile_kernel(specialize(_loads, signature, promises=promises), arch="sm_90").ptx
    assert ptx.count("ld.relaxed.gpu.global") == 1
    assert ptx.count("ld.acquire.") == 2
    assert "ld.global.nc" not in ptx


_PACKED = np.dtype([("n", np.int8), ("h", np.float16)])


def _doubled(a):
    i = kd.grid(1)
    a[i].h = a[i].h + a[i].h


def test_halves_are_stored_byte_by_byte_by_an_integers_bits() -> None:
    """The driver's compiler converts the lowest byte of a float to an integer, else."""
    kind = kind_of(np.zeros(2, _PACKED))
    ptx = compile_kernel(specialize(_doubled, (kind,)), arch="sm_90").ptx
    assert ptx.count("bfe.u32") == 1
    assert len(re.findall(r"st\.global\.b8 \t\[%rd\d+\+?\d*\], %r\d", ptx)) == 1
