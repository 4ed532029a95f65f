"""Kernels that the planner's choice is measured on: what each does, over which arrays, and checks.

A case makes its arguments for a number of indices 2**exponent, and knows by NumPy what must come
out. Data is made on the device, since the host would take longer for the largest sizes than all
launches together.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import kerneldsl as kd

__all__ = ["CASES", "Case", "Prepared", "make_data"]

HALF = np.float32(0.5)
A32 = np.float32(1.5)


# ---------------------------------------------------------------- making the data


@kd.kernel
def scramble(seed, bits, out):
    """Write a permutation of the indices, different for each seed."""
    i = kd.grid(1)
    if i < out.size:
        mask = (1 << bits) - 1
        v = i ^ (i >> (bits // 2))
        v = (v * (2654435761 + 2 * seed)) & mask
        v = v ^ (v >> (bits - bits // 2))
        out[i] = (v * 2246822519 + seed) & mask


@kd.kernel
def spread(seed, out):
    """Write numbers between 0 and 1 that look random."""
    i = kd.grid(1)
    if i < out.size:
        v = (i * 2654435761 + seed * 40503) & 0xFFFFFFFF
        v = ((v >> 15) ^ v) * 2246822519 & 0xFFFFFFFF
        out[i] = ((v >> 13) ^ v) % 251 / 251


def make_data(count: int, dtype: Any, seed: int) -> Any:
    """Return an array on the device, filled."""
    out = kd.empty(count, dtype)
    if np.dtype(dtype).kind == "f":
        spread.forall(count)(seed, out)
    else:
        scramble.forall(count)(seed, 7, out)
    return out


# ------------------------------------------------------------------------ kernels


@kd.kernel
def fill(value, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = value


@kd.kernel
def copy(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i]


@kd.kernel
def add_one(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] + 1


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def triad(x, y, z, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] * y[i] + z[i]


@kd.kernel
def mix4(w, x, y, z, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = w[i] * x[i] + y[i] * z[i]


@kd.kernel
def every_second(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[2 * i] + x[2 * i + 1]


@kd.kernel
def jacobi(a, out):
    y, x = kd.grid(2)
    if 0 < y < a.shape[0] - 1 and 0 < x < a.shape[1] - 1:
        out[y, x] = np.float32(0.25) * (a[y - 1, x] + a[y + 1, x] + a[y, x - 1] + a[y, x + 1])


@kd.kernel
def laplace(a, out):
    z, y, x = kd.grid(3)
    if 0 < z < a.shape[0] - 1 and 0 < y < a.shape[1] - 1 and 0 < x < a.shape[2] - 1:
        around = a[z - 1, y, x] + a[z + 1, y, x] + a[z, y - 1, x] + a[z, y + 1, x]
        out[z, y, x] = around + a[z, y, x - 1] + a[z, y, x + 1] - np.float32(6) * a[z, y, x]


@kd.kernel
def transpose(a, out):
    y, x = kd.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        out[x, y] = a[y, x]


@kd.kernel
def iterate(x, out):
    i = kd.grid(1)
    if i < out.size:
        v = x[i]
        for _ in range(128):
            v = v * v * HALF + HALF
        out[i] = v


@kd.kernel
def gather(x, index, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[index[i]]


@kd.kernel
def scatter(x, index, out):
    i = kd.grid(1)
    if i < x.size:
        out[index[i]] = x[i]


def _register_heavy(values: int, rounds: int) -> Any:
    """Hold many values at once, each needed again in every round."""
    names = [f"v{k}" for k in range(values)]
    lines = ["def register_heavy(x, out):", "    i = kd.grid(1)", "    if i < out.size:"]
    lines += [f"        {names[0]} = x[i]"]
    lines += [f"        {name} = {names[k]} * HALF + HALF" for k, name in enumerate(names[1:])]
    lines += [f"        for _ in range({rounds}):"]
    lines += [
        f"            {name} = {name} * {names[(k + 7) % values]} + {names[(k + 13) % values]}"
        f" * HALF"
        for k, name in enumerate(names)
    ]
    lines += ["        out[i] = " + " + ".join(names)]
    text = "\n".join(lines) + "\n"
    filename = "<register_heavy>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"kd": kd, "HALF": np.float32(0.25), "__name__": __name__}
    exec(compile(text, filename, "exec"), scope)  # the text is ours
    return kd.kernel(scope["register_heavy"])


register_heavy = _register_heavy(24, 4)


# ------------------------------------------------------------------ block kernels

_BLOCKS = (32, 64, 96, 128, 192, 256, 320, 384, 512, 768, 1024)
_ITEMS = (1, 2, 4, 8, 16, 32)
_BINS = 256
_RADIUS = 16


def _tile(member: Any) -> int:
    return int(member.block * member.items)


@kd.kernel(space=kd.Space(block=_BLOCKS, items=_ITEMS, covers=_tile, shared=lambda c: 4 * c.block))
def total(x, out, *, items):
    """Sum all elements, a part by each block."""
    cells = kd.shared.array(0, np.float32)
    t, width = kd.threadIdx.x, kd.blockDim.x
    first = kd.blockIdx.x * width * items + t
    part = np.float32(0)
    for k in range(items):
        i = first + k * width
        if i < x.size:
            part += x[i]
    cells[t] = part
    kd.syncthreads()
    step = 512
    while step > 0:
        if t < step and t + step < width:
            cells[t] += cells[t + step]
        kd.syncthreads()
        step //= 2
    if t == 0:
        kd.atomic.add(out, 0, cells[0])


@kd.kernel(space=kd.Space(block=_BLOCKS, items=_ITEMS, covers=_tile))
def histogram(x, out, *, items):
    """Return how often each byte occurs, counted by each block for itself first."""
    counts = kd.shared.array(_BINS, np.int32)
    t, width = kd.threadIdx.x, kd.blockDim.x
    for b in range(t, _BINS, width):
        counts[b] = 0
    kd.syncthreads()
    first = kd.blockIdx.x * width * items + t
    for k in range(items):
        i = first + k * width
        if i < x.size:
            kd.atomic.add(counts, x[i], 1)
    kd.syncthreads()
    for b in range(t, _BINS, width):
        if counts[b] > 0:
            kd.atomic.add(out, b, counts[b])


@kd.kernel(
    space=kd.Space(
        block=_BLOCKS,
        items=_ITEMS,
        covers=_tile,
        shared=lambda c: 4 * (c.block * c.items + 2 * _RADIUS),
        where=lambda c: 4 * (c.block * c.items + 2 * _RADIUS) <= 99 * 1024,
    )
)
def window(x, out, *, items):
    """Compute moving sums over 33 elements, out of shared memory."""
    cells = kd.shared.array(0, np.float32)
    t, width = kd.threadIdx.x, kd.blockDim.x
    first = kd.blockIdx.x * width * items
    for k in range(t, width * items + 2 * _RADIUS, width):
        i = first + k - _RADIUS
        cells[k] = x[i] if 0 <= i < x.size else np.float32(0)
    kd.syncthreads()
    for k in range(items):
        i = first + k * width + t
        if i < out.size:
            part = np.float32(0)
            for d in range(2 * _RADIUS + 1):
                part += cells[k * width + t + d]
            out[i] = part


@kd.kernel(
    space=kd.Space(
        block=[
            (w, h) for w in (8, 16, 32, 64) for h in (1, 2, 4, 8, 16, 32) if 32 <= w * h <= 1024
        ],
        covers=lambda c: (c.block[0], c.block[0]),
        shared=lambda c: 4 * c.block[0] * (c.block[0] + 1),
        where=lambda c: c.block[1] <= c.block[0],
    )
)
def turn(a, out):
    """Transpose through shared memory."""
    cells = kd.shared.array(0, np.float32)
    tx, ty, width = kd.threadIdx.x, kd.threadIdx.y, kd.blockDim.x
    left, top = kd.blockIdx.x * width, kd.blockIdx.y * width
    for k in range(ty, width, kd.blockDim.y):
        if top + k < a.shape[0] and left + tx < a.shape[1]:
            cells[k * (width + 1) + tx] = a[top + k, left + tx]
    kd.syncthreads()
    for k in range(ty, width, kd.blockDim.y):
        if left + k < out.shape[0] and top + tx < out.shape[1]:
            out[left + k, top + tx] = cells[tx * (width + 1) + k]


# -------------------------------------------------------------------------- cases


@dataclass(frozen=True)
class Prepared:
    """A case for one size.

    Parameters
    ----------
    extent : tuple of int
        Of ``forall``.
    args : tuple
        The kernel's arguments.
    out : DeviceArray
        Which of them is written.
    expected : callable
        Computes with NumPy what must be in it.
    initial : float
        What is in it before a launch that is checked.
    """

    extent: tuple[int, ...]
    args: tuple[Any, ...]
    out: Any
    expected: Callable[[], np.ndarray[Any, Any]]
    initial: float = 77


@dataclass(frozen=True)
class Case:
    """A kernel with its arguments.

    Parameters
    ----------
    name : str
        Of the case.
    kernel : Kernel
        What runs.
    prepare : callable
        Makes a `Prepared` for an exponent of 2.
    is_streaming : bool
        Whether it is of the streaming set.
    operations : int
        Of an index, roughly; a CPU does not run the largest sizes of those with many.
    tolerance : float
        Largest difference from what is expected, relative to the largest value.
    """

    name: str
    kernel: Any
    prepare: Callable[[int], Prepared]
    is_streaming: bool = False
    tolerance: float = 1e-6
    operations: int = 1


def _stream(
    kernel: Any, inputs: int, dtype: Any, compute: Callable[..., Any], *scalars: Any
) -> Any:
    def prepare(exponent: int) -> Prepared:
        n = 1 << exponent
        arrays = [make_data(n, dtype, seed) for seed in range(inputs)]
        out = kd.empty(n, dtype)
        return Prepared(
            (n,),
            (*scalars, *arrays, out),
            out,
            lambda: compute(*scalars, *[each.copy_to_host() for each in arrays]),
        )

    return prepare


def _fill(exponent: int) -> Prepared:
    n = 1 << exponent
    out = kd.empty(n, np.float32)
    return Prepared((n,), (A32, out), out, lambda: np.full(n, A32, np.float32))


def _every_second(exponent: int) -> Prepared:
    n = 1 << exponent
    x, out = make_data(2 * n, np.float32, 1), kd.empty(n, np.float32)

    def expected() -> Any:
        host = x.copy_to_host()
        return host[::2] + host[1::2]

    return Prepared((n,), (x, out), out, expected)


def _strided(exponent: int) -> Prepared:
    n = 1 << exponent
    x, out = make_data(4 * n, np.float32, 1), kd.empty(n, np.float32)
    view = x[::4]
    return Prepared((n,), (view, out), out, lambda: x.copy_to_host()[::4])


def _grid(kernel: Any, ndim: int, compute: Callable[[Any], Any]) -> Any:
    def prepare(exponent: int) -> Prepared:
        parts = [(exponent + ndim - 1 - k) // ndim for k in range(ndim)]
        shape = tuple(1 << part for part in parts)
        a = make_data(1 << exponent, np.float32, 3).reshape(shape)
        turned = shape[::-1] if kernel in (transpose, turn) else shape
        out = kd.zeros(turned, np.float32)
        # A block kernel has its first axis along x.
        extent = shape[::-1] if kernel is turn else shape
        return Prepared(extent, (a, out), out, lambda: compute(a.copy_to_host()), initial=0)

    return prepare


def _jacobi_expected(a: Any) -> Any:
    out = np.zeros_like(a)
    out[1:-1, 1:-1] = np.float32(0.25) * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
    return out


def _laplace_expected(a: Any) -> Any:
    out = np.zeros_like(a)
    inner = (slice(1, -1),) * 3
    total = np.float32(-6) * a[inner]
    for axis in range(3):
        for side in (slice(None, -2), slice(2, None)):
            place = [slice(1, -1)] * 3
            place[axis] = side
            total = total + a[tuple(place)]
    out[inner] = total
    return out


def _iterate_expected(x: Any) -> Any:
    for _ in range(128):
        x = x * x * HALF + HALF
    return x


def _register_heavy_expected(x: Any) -> Any:
    quarter = np.float32(0.25)
    values = [x]
    for _ in range(23):
        values.append(values[-1] * quarter + quarter)
    for _ in range(4):
        for k in range(24):
            values[k] = values[k] * values[(k + 7) % 24] + values[(k + 13) % 24] * quarter
    return np.sum(values, axis=0, dtype=np.float64).astype(np.float32)


def _indexed(kernel: Any) -> Any:
    def prepare(exponent: int) -> Prepared:
        n = 1 << exponent
        x, out, index = make_data(n, np.float32, 1), kd.empty(n, np.float32), kd.empty(n, np.int32)
        scramble.forall(n)(5, exponent, index)

        def expected() -> Any:
            host, at = x.copy_to_host(), index.copy_to_host()
            if kernel is gather:
                return host[at]
            found = np.empty_like(host)
            found[at] = host
            return found

        return Prepared((n,), (x, index, out), out, expected)

    return prepare


def _total(exponent: int) -> Prepared:
    n = 1 << exponent
    x, out = make_data(n, np.float32, 1), kd.zeros(1, np.float32)

    def expected() -> Any:
        return x.copy_to_host().sum(keepdims=True, dtype=np.float64)

    return Prepared((n,), (x, out), out, expected, initial=0)


def _histogram(exponent: int) -> Prepared:
    n = 1 << exponent
    x, out = make_data(n, np.uint8, 1), kd.zeros(_BINS, np.int32)

    def expected() -> Any:
        return np.bincount(x.copy_to_host(), minlength=_BINS)

    return Prepared((n,), (x, out), out, expected, initial=0)


def _window_expected(x: Any) -> Any:
    sums = np.concatenate([[0.0], np.cumsum(x, dtype=np.float64)])
    at = np.arange(x.size)
    low, high = np.maximum(at - _RADIUS, 0), np.minimum(at + _RADIUS + 1, x.size)
    return sums[high] - sums[low]


F32, F64 = np.float32, np.float64

CASES: tuple[Case, ...] = (
    Case("fill f32", fill, _fill, is_streaming=True),
    Case("copy f32", copy, _stream(copy, 1, F32, lambda x: x), is_streaming=True),
    Case("copy f64", copy, _stream(copy, 1, F64, lambda x: x), is_streaming=True),
    Case("add u8", add_one, _stream(add_one, 1, np.uint8, lambda x: x + np.uint8(1)),
         is_streaming=True),
    Case("add i16", add_one, _stream(add_one, 1, np.int16, lambda x: x + np.int16(1)),
         is_streaming=True),
    Case("axpy f32", axpy, _stream(axpy, 2, F32, lambda a, x, y: a * x + y, A32),
         is_streaming=True),
    Case("axpy f64", axpy, _stream(axpy, 2, F64, lambda a, x, y: a * x + y, F64(1.5)),
         is_streaming=True),
    Case("triad f32", triad, _stream(triad, 3, F32, lambda x, y, z: x * y + z),
         is_streaming=True),
    Case("mix4 f32", mix4, _stream(mix4, 4, F32, lambda w, x, y, z: w * x + y * z),
         is_streaming=True),
    Case("pairs f32", every_second, _every_second),
    Case("strided f32", copy, _strided),
    Case("jacobi 2-D", jacobi, _grid(jacobi, 2, _jacobi_expected)),
    Case("laplace 3-D", laplace, _grid(laplace, 3, _laplace_expected), tolerance=1e-5),
    Case("transpose", transpose, _grid(transpose, 2, lambda a: a.T)),
    Case("iterate", iterate, _stream(iterate, 1, F32, _iterate_expected), tolerance=1e-4,
         operations=256),
    Case("register-heavy", register_heavy,
         _stream(register_heavy, 1, F32, _register_heavy_expected), tolerance=1e-4,
         operations=256),
    Case("gather", gather, _indexed(gather)),
    Case("scatter", scatter, _indexed(scatter)),
    Case("total", total, _total, tolerance=1e-4),
    Case("histogram", histogram, _histogram),
    Case("window", window, _stream(window, 1, F32, _window_expected), tolerance=1e-4),
    Case("turn", turn, _grid(turn, 2, lambda a: a.T)),
)  # fmt: skip
