"""What warps and blocks compute together: every operation, dtype and shape of a group."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from kerneldsl.language.intrinsics.table import INTRINSICS
from tests.support.arrays import HOST_DTYPES, poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("groups")
CASES = _list.cases

_BLOCKS = ((1,), (7,), (32,), (33,), (96,), (100,), (256,), (1024,))
_PLANES = ((5, 7), (33, 3), (3, 4, 11))


def _dtypes(word):
    return [dtype for dtype in INTRINSICS[word].dtypes if dtype in HOST_DTYPES]


def _volume(block):
    return int(np.prod(block))


def _shown(block):
    return "x".join(map(str, block))


def _special(x):
    """Put what compares and adds in ways of its own into an array of floats."""
    if np.dtype(x.dtype).kind not in "iub":
        x[::5] = np.nan
        x[1::5] = 0.0
        x[2::5] = -0.0
        x[3::25] = np.inf
        x[8::25] = -np.inf
    return x


def _values(block, blocks, dtype, columns, *, is_special=False):
    def make(rng):
        size = _volume(block) * blocks
        x = random_array(rng, size, dtype)
        return _special(x) if is_special else x, poisoned((size, columns), dtype)

    return make


@kd.func
def own_index():
    row = kd.threadIdx.z * kd.blockDim.y + kd.threadIdx.y
    threads = kd.blockDim.x * kd.blockDim.y * kd.blockDim.z
    return kd.blockIdx.x * threads + row * kd.blockDim.x + kd.threadIdx.x


@kd.kernel
def sums(x, out):
    i = own_index()
    out[i, 0] = kd.warp.sum(x[i])
    out[i, 1] = kd.block.sum(x[i])
    out[i, 2] = kd.warp.inclusive_scan(x[i])
    out[i, 3] = kd.block.inclusive_scan(x[i])
    out[i, 4] = kd.warp.exclusive_scan(x[i])
    out[i, 5] = kd.block.exclusive_scan(x[i])


@kd.kernel
def extremes(x, out):
    i = own_index()
    out[i, 0] = kd.warp.max(x[i])
    out[i, 1] = kd.block.max(x[i])
    out[i, 2] = kd.warp.min(x[i])
    out[i, 3] = kd.block.min(x[i])


_NARROW = ("int8", "int16", "uint8", "uint16")


@kd.kernel
def narrow_sums(x, out):
    # As many of the last digits as every dtype holds.
    i = own_index()
    out[i, 0] = kd.warp.sum(x[i]) % 100
    out[i, 1] = kd.block.sum(x[i]) % 100
    out[i, 2] = kd.warp.inclusive_scan(x[i]) % 100
    out[i, 3] = kd.block.inclusive_scan(x[i]) % 100
    out[i, 4] = kd.warp.exclusive_scan(x[i]) % 100
    out[i, 5] = kd.block.exclusive_scan(x[i]) % 100


@kd.kernel
def truth_sums(x, out):
    i = own_index()
    out[i, 0] = kd.warp.sum(x[i]) % 2 == 1
    out[i, 1] = kd.block.sum(x[i]) % 2 == 1
    out[i, 2] = kd.warp.inclusive_scan(x[i]) % 2 == 1
    out[i, 3] = kd.block.inclusive_scan(x[i]) % 2 == 1
    out[i, 4] = kd.warp.exclusive_scan(x[i]) % 2 == 1
    out[i, 5] = kd.block.exclusive_scan(x[i]) % 2 == 1


for _kernel, _word, _columns in (
    (sums, "block.sum", 6),
    (narrow_sums, "block.sum", 6),
    (truth_sums, "block.sum", 6),
    (extremes, "block.max", 4),
):
    for _dtype in _dtypes(_word):
        if _word == "block.sum" and _kernel is not (
            truth_sums if _dtype == "bool" else narrow_sums if _dtype in _NARROW else sums
        ):
            continue
        for _block in ((100,), (64,)):
            _list.add(
                f"{_kernel.__name__}_{_dtype}_{_shown(_block)}",
                _kernel,
                _values(_block, 2, _dtype, _columns),
                grid=(2,),
                block=_block,
                dtype=_dtype,
            )
    if _kernel in (narrow_sums, truth_sums):
        continue
    for _dtype in ("float32", "int64"):
        for _block in (*_BLOCKS, *_PLANES):
            _list.add(
                f"{_kernel.__name__}_of_{_shown(_block)}_{_dtype}",
                _kernel,
                _values(_block, 2, _dtype, _columns),
                grid=(2,),
                block=_block,
            )
    for _dtype in ("float16", "float32", "float64"):
        for _block in ((3,), (64,), (100,)):
            _list.add(
                f"{_kernel.__name__}_of_special_{_shown(_block)}_{_dtype}",
                _kernel,
                _values(_block, 3, _dtype, _columns, is_special=True),
                grid=(3,),
                block=_block,
            )


@kd.kernel
def wide_sums(x, out):
    i = own_index()
    out[i, 0] = kd.warp.sum(x[i])
    out[i, 1] = kd.block.sum(x[i])
    out[i, 2] = kd.block.inclusive_scan(x[i])
    out[i, 3] = kd.block.exclusive_scan(x[i])


for _dtype in ("bool", "int8", "uint8", "int16", "uint16"):

    def _extreme_integers(rng, dtype=_dtype):
        limit = True if dtype == "bool" else np.iinfo(dtype).max
        return np.full(1024, limit, dtype), poisoned((1024, 4), np.int64)

    _list.add(f"wide_sums_{_dtype}", wide_sums, _extreme_integers, block=(1024,))


@kd.kernel
def votes(x, out):
    i = own_index()
    out[i, 0] = kd.warp.count(x[i] > 0)
    out[i, 1] = kd.block.count(x[i])
    out[i, 2] = 2 if kd.warp.any(x[i] == 3) else 1
    out[i, 3] = 2 if kd.block.any(x[i] == 3) else 1
    out[i, 4] = 2 if kd.warp.all(x[i] > -3) else 1
    out[i, 5] = 2 if kd.block.all(x[i] > -3) else 1


def _some(block, blocks, columns):
    def make(rng):
        size = _volume(block) * blocks
        return rng.integers(-3, 4, size), poisoned((size, columns), np.int64)

    return make


for _block in (*_BLOCKS, *_PLANES):
    _list.add(f"votes_of_{_shown(_block)}", votes, _some(_block, 5, 6), grid=(5,), block=_block)


@kd.kernel
def with_returns(x, keep, out):
    # Who has returned takes part in nothing; a warp or a whole block may be gone.
    i = kd.grid(1)
    if not keep[i]:
        return
    out[i, 0] = kd.block.sum(x[i])
    out[i, 1] = kd.warp.sum(x[i])
    out[i, 2] = kd.block.inclusive_scan(x[i])
    out[i, 3] = kd.warp.inclusive_scan(x[i])
    out[i, 4] = kd.block.exclusive_scan(x[i])
    out[i, 5] = kd.warp.exclusive_scan(x[i])
    out[i, 6] = kd.block.max(x[i])
    out[i, 7] = kd.warp.min(x[i])
    out[i, 8] = kd.block.count(x[i] > 0)
    out[i, 9] = kd.warp.count(x[i] > 0)


def _kept(block, share, dtype):
    def make(rng):
        size = 3 * block
        keep = rng.random(size) < share
        keep[32:64] = False  # all of a warp
        keep[2 * block :] &= share > 0.3  # all of a block
        return random_array(rng, size, dtype), keep, poisoned((size, 10), dtype)

    return make


for _block in (33, 96, 100, 256):
    for _share in (0.1, 0.5, 0.97, 1.0):
        for _dtype in ("float32", "int32"):
            _list.add(
                f"with_returns_{_block}_{_share}_{_dtype}",
                with_returns,
                _kept(_block, _share, _dtype),
                grid=(3,),
                block=(_block,),
            )


@kd.kernel
def under_conditions(x, out):
    # The lanes on each side of a branch are a group of their own.
    i = kd.grid(1)
    if x[i] > 0:
        out[i, 0] = kd.warp.sum(x[i])
        out[i, 1] = kd.warp.inclusive_scan(x[i])
        out[i, 2] = kd.warp.count(x[i] > 1)
    else:
        out[i, 0] = -kd.warp.max(x[i])
        out[i, 1] = kd.warp.exclusive_scan(x[i])
        out[i, 2] = kd.warp.min(x[i])
    if kd.threadIdx.x < 40:
        out[i, 3] = kd.warp.sum(out[i, 0])
    else:
        out[i, 3] = 7.0
    out[i, 4] = kd.warp.sum(out[i, 3])


for _block in (32, 45, 96):
    _list.add(
        f"under_conditions_{_block}",
        under_conditions,
        _values((_block,), 2, "float32", 5),
        grid=(2,),
        block=(_block,),
    )


@kd.kernel
def in_loops(x, out, n):
    i = kd.grid(1)
    value = x[i]
    total = np.float32(0)
    for k in range(n):
        value = value * np.float32(0.5)
        total += kd.block.sum(value)
        if kd.block.max(value) < k:
            value = kd.block.inclusive_scan(value)
        total -= kd.warp.sum(value)
    rounds = 0
    while kd.block.any(value > 0.01) and rounds < 5:
        value = value * np.float32(0.125)
        rounds += 1
    out[i, 0] = total
    out[i, 1] = value
    out[i, 2] = rounds


def _in_loops(rng):
    return random_array(rng, 200, np.float32), poisoned((200, 3), np.float32), 6


_list.add("in_loops", in_loops, _in_loops, grid=(2,), block=(100,))


@kd.func
def centred(value):
    return value - kd.block.sum(value) / np.float32(kd.block.count(value == value))


@kd.kernel
def in_functions(x, out):
    i = kd.grid(1)
    s = kd.shared.array(1, np.float32)
    first = centred(x[i])
    second = centred(first * first)
    if kd.threadIdx.x == kd.blockDim.x - 1:
        s[0] = second
    out[i, 0] = first + kd.block.max(second)
    out[i, 1] = s[0] + kd.warp.sum(centred(second))


_list.add("in_functions", in_functions, _values((77,), 3, "float32", 2), grid=(3,), block=(77,))


@kd.kernel
def of_products(x, out):
    # Nothing is contracted into the sums: each of the threads gets the same bits.
    i = kd.grid(1)
    out[i, 0] = kd.block.sum(x[i] * x[i])
    out[i, 1] = kd.warp.sum(x[i] * np.float32(1.1))
    out[i, 2] = kd.block.inclusive_scan(x[i] * x[i])


for _block in (2, 64, 100):
    _list.add(
        f"of_products_{_block}",
        of_products,
        _values((_block,), 2, "float32", 3),
        grid=(2,),
        block=(_block,),
    )


@kd.kernel
def of_constants(x, out):
    i = kd.grid(1)
    out[i, 0] = kd.block.sum(1)
    out[i, 1] = kd.warp.sum(kd.threadIdx.x)
    out[i, 2] = kd.block.exclusive_scan(1)
    out[i, 3] = kd.block.max(kd.blockIdx.x)
    kd.block.sum(x[i])


_list.add("of_constants", of_constants, _values((70,), 2, "int64", 4), grid=(2,), block=(70,))


# -- any operation ----------------------------------------------------------------------------
@kd.func
def multiply(a, b):
    return a * b


@kd.func
def later(a, b):
    """Associative, and not commutative: it tells in which order values meet."""
    return b


@kd.func
def affine(a, b):
    """Compose x -> 3x + 2y of both halves of a number: associative, in int64 alone."""
    return (a >> 32) * (b >> 32) << 32 | ((a & 0xFFFF) * (b >> 32) + (b & 0xFFFF)) & 0xFFFF


@kd.kernel
def any_operation(x, out):
    i = own_index()
    out[i, 0] = kd.warp.reduce(x[i], multiply)
    out[i, 1] = kd.block.reduce(x[i], multiply)
    out[i, 2] = kd.warp.reduce(x[i], later)
    out[i, 3] = kd.block.reduce(x[i], later)
    out[i, 4] = kd.warp.inclusive_scan(x[i], multiply)
    out[i, 5] = kd.block.inclusive_scan(x[i], later)
    out[i, 6] = kd.warp.exclusive_scan(x[i], later, x[i])
    out[i, 7] = kd.block.exclusive_scan(x[i], multiply, x[0])


def _mild(block, blocks, dtype, columns):
    """Values of which a product of many is a number."""

    def make(rng):
        size = _volume(block) * blocks
        x = random_array(rng, size, dtype)
        if x.dtype.kind not in "iub":
            x = (np.sign(x.real) * 2.0 ** rng.integers(-1, 2, size)).astype(dtype)
        return x, poisoned((size, columns), dtype)

    return make


for _dtype in _dtypes("block.reduce"):
    if _dtype == "bool":
        continue
    for _block in ((100,), (32,)):
        _list.add(
            f"any_operation_{_dtype}_{_shown(_block)}",
            any_operation,
            _mild(_block, 2, _dtype, 8),
            grid=(2,),
            block=_block,
            dtype=_dtype,
        )
for _block in ((1,), (7,), (33,), (256,), *_PLANES):
    _list.add(
        f"any_operation_of_{_shown(_block)}",
        any_operation,
        _mild(_block, 2, "float32", 8),
        grid=(2,),
        block=_block,
    )


@kd.kernel
def truth_operations(x, out):
    i = own_index()
    out[i, 0] = kd.warp.reduce(x[i], lambda a, b: a != b)
    out[i, 1] = kd.block.reduce(x[i], lambda a, b: a != b)
    out[i, 2] = kd.warp.inclusive_scan(x[i], lambda a, b: a or b)
    out[i, 3] = kd.block.inclusive_scan(x[i], lambda a, b: a and b)
    out[i, 4] = kd.warp.exclusive_scan(x[i], lambda a, b: a != b, False)
    out[i, 5] = kd.block.exclusive_scan(x[i], lambda a, b: a != b, True)


_list.add(
    "truth_operations",
    truth_operations,
    _values((70,), 2, "bool", 6),
    grid=(2,),
    block=(70,),
    dtype="bool",
)


@kd.kernel
def operations_in_places(x, keep, out):
    # A local function, a lambda, in a branch, in a loop, behind a return, of products.
    i = kd.grid(1)
    if not keep[i]:
        return

    def longer(a, b):
        return a if abs(a) >= abs(b) else b

    total = np.float32(0)
    for k in range(3):
        total += kd.block.reduce(x[i] * np.float32(k), longer)
    out[i, 0] = total
    out[i, 1] = 0
    if x[i] > 0:
        out[i, 1] = kd.warp.reduce(x[i] * x[i], lambda a, b: a + b)
    out[i, 2] = kd.block.exclusive_scan(x[i] * x[i], lambda a, b: a + b, np.float32(10))
    out[i, 3] = kd.warp.exclusive_scan(x[i], initial=x[i])
    out[i, 4] = kd.block.exclusive_scan(x[i], None, 3)


def _operations_in_places(rng):
    keep = rng.random(300) < 0.8
    keep[128:160] = False
    return random_array(rng, 300, np.float32), keep, poisoned((300, 5), np.float32)


_list.add(
    "operations_in_places", operations_in_places, _operations_in_places, grid=(3,), block=(100,)
)


@kd.kernel
def affine_maps(x, out):
    i = kd.grid(1)
    out[i, 0] = kd.block.reduce(x[i], affine)
    out[i, 1] = kd.block.inclusive_scan(x[i], affine)
    out[i, 2] = kd.warp.inclusive_scan(x[i], affine)


def _affine_maps(rng):
    x = rng.integers(0, 3, 200) << 32 | rng.integers(0, 1000, 200)
    return x, poisoned((200, 3), np.int64)


_list.add("affine_maps", affine_maps, _affine_maps, grid=(2,), block=(100,))


# -- values of other threads ------------------------------------------------------------------
@kd.kernel
def other_threads(x, out, n):
    i = own_index()
    threads = kd.blockDim.x * kd.blockDim.y * kd.blockDim.z
    own = i - kd.blockIdx.x * threads
    out[i, 0] = kd.block.broadcast(x[i], n % threads)
    out[i, 1] = kd.warp.broadcast(x[i], 0)
    out[i, 2] = kd.block.exchange(x[i], threads - 1 - own)
    out[i, 3] = kd.warp.exchange(x[i], kd.laneid ^ 5)
    out[i, 4] = kd.block.exchange(x[i], own * 7 - 3)  # may be nobody
    out[i, 5] = kd.warp.exchange(x[i], kd.laneid * 3 - 9)


def _with_number(block, blocks, dtype, columns, number):
    make = _values(block, blocks, dtype, columns)
    return lambda rng: (*make(rng), number)


for _dtype in _dtypes("block.exchange"):
    _list.add(
        f"other_threads_{_dtype}",
        other_threads,
        _with_number((100,), 2, _dtype, 6, 77),
        grid=(2,),
        block=(100,),
        dtype=_dtype,
    )
for _block in (*_BLOCKS, *_PLANES):
    _list.add(
        f"other_threads_of_{_shown(_block)}",
        other_threads,
        _with_number(_block, 2, "float64", 6, 1000),
        grid=(2,),
        block=_block,
    )


@kd.kernel
def of_some_threads(x, keep, out):
    i = kd.grid(1)
    out[i, 0] = out[i, 1] = out[i, 2] = out[i, 3] = out[i, 4] = 0
    if not keep[i]:
        return
    out[i, 0] = kd.block.exchange(x[i], kd.threadIdx.x ^ 9)
    out[i, 1] = kd.block.broadcast(x[i], 5)
    out[i, 2] = kd.block.sort(x[i])
    if x[i] > 0:
        out[i, 3] = kd.warp.sort(x[i])
        out[i, 4] = kd.warp.exchange(x[i], kd.laneid ^ 3)
    else:
        keys, values = kd.warp.sort(x[i], np.float32(i))
        out[i, 3] = keys
        out[i, 4] = values


def _of_some_threads(rng):
    keep = rng.random(300) < 0.7
    keep[[5, 105, 205]] = True
    keep[132:164] = False
    return random_array(rng, 300, np.float32), keep, poisoned((300, 5), np.float32)


_list.add("of_some_threads", of_some_threads, _of_some_threads, grid=(3,), block=(100,))


# -- sorting ----------------------------------------------------------------------------------
@kd.kernel
def sorted_keys(x, out):
    i = own_index()
    out[i, 0] = kd.warp.sort(x[i])
    out[i, 1] = kd.block.sort(x[i])
    keys, values = kd.block.sort(x[i], x[i])
    out[i, 2] = keys
    out[i, 3] = values


@kd.kernel
def sorted_pairs(x, y, out):
    # Few different keys, so that what is equal tells whether it keeps its order.
    i = own_index()
    keys, values = kd.warp.sort(x[i], y[i])
    out[i, 0] = values
    keys, values = kd.block.sort(x[i], i)
    out[i, 1] = values + keys * 0


for _dtype in _dtypes("block.sort"):
    for _block in ((100,), (64,)):
        _list.add(
            f"sorted_keys_{_dtype}_{_shown(_block)}",
            sorted_keys,
            _values(_block, 2, _dtype, 4, is_special=True),
            grid=(2,),
            block=_block,
            dtype=_dtype,
        )


def _pairs(block):
    def make(rng):
        size = 2 * _volume(block)
        x = rng.integers(-3, 4, size).astype(np.int16)
        return x, random_array(rng, size, np.float64), poisoned((size, 2), np.float64)

    return make


for _block in (*_BLOCKS, *_PLANES):
    _list.add(
        f"sorted_pairs_of_{_shown(_block)}", sorted_pairs, _pairs(_block), grid=(2,), block=_block
    )
