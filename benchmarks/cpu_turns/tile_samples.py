"""Kernels of tiles, one for each kind of operation."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from samples import Sample

import kerneldsl as kd

__all__ = ["tile_samples"]

_SHAPE, _COUNT, _BLOCKS = (16, 64), 1024, 256


@kd.kernel
def _folds_of_rows(x: Any, out: Any) -> None:
    t = kd.tile.load(x[kd.blockIdx.x], (0, 0), _SHAPE)
    kd.tile.store(out[kd.blockIdx.x], (0, 0), t - t.max(axis=1) - t.mean(axis=1))


@kd.kernel
def _folds_of_columns(x: Any, out: Any) -> None:
    t = kd.tile.load(x[kd.blockIdx.x], (0, 0), _SHAPE)
    kd.tile.store(out[kd.blockIdx.x], (0, 0), (t - t.mean(axis=0)) * t.min(axis=0))


@kd.kernel
def _turned(x: Any, out: Any) -> None:
    t = kd.tile.load(x[kd.blockIdx.x], (0, 0), _SHAPE)
    kd.tile.store(out[kd.blockIdx.x].T, (0, 0), (t + t * t).T)


@kd.kernel
def _scans(x: Any, out: Any) -> None:
    t = kd.tile.load(x[kd.blockIdx.x], (0, 0), _SHAPE)
    kd.tile.store(out[kd.blockIdx.x], (0, 0), t.cumsum(axis=1) + t.cumsum(axis=0))


@kd.kernel
def _scan(x: Any, out: Any) -> None:
    t = kd.tile.load(x, kd.blockIdx.x * _COUNT, _COUNT)
    kd.tile.store(out, kd.blockIdx.x * _COUNT, t.cumsum() - t.cumsum(exclusive=True))


@kd.kernel
def _ordered(x: Any, out: Any) -> None:
    t = kd.tile.load(x[kd.blockIdx.x], (0, 0), _SHAPE)
    places = (t * t).argsort()
    kd.tile.store(out[kd.blockIdx.x], (0, 0), t.take(places))


@kd.kernel
def _short_rows(x: Any, out: Any) -> None:
    t = kd.tile.load(x[kd.blockIdx.x], (0, 0), (64, 16))
    kd.tile.store(out[kd.blockIdx.x], (0, 0), t.sort())


@kd.kernel
def _repeated(x: Any, out: Any) -> None:
    t = kd.tile.load(x, kd.blockIdx.x * _COUNT, _COUNT)
    for _ in range(8):
        t = t * kd.float32(0.5) + t.sum() * kd.float32(1e-3)
        if t.max() > 100:
            t = t - t.min()
    kd.tile.store(out, kd.blockIdx.x * _COUNT, t)


@kd.kernel
def _ends(x: Any, out: Any) -> None:
    at = kd.blockIdx.x * _COUNT - 100
    t = kd.tile.load(x, at, _COUNT, other=1)
    s = kd.tile.load(x, at + 1, _COUNT, other=1)
    kd.tile.store(out, at, t + s * kd.tile.arange(_COUNT))


@kd.kernel
def _of_threads(x: Any, out: Any) -> None:
    t = kd.threadIdx.x
    own = kd.tile.of(x[kd.grid(1)])
    out[kd.grid(1)] = (own - own.sum()).own * t


@kd.kernel
def _columns_of_many(x: Any, out: Any) -> None:
    row = kd.blockIdx.x
    total = kd.tile.zeros(_COUNT, kd.float64)
    for k in range(16):
        total = total + kd.tile.load(x, ((row + k) % _BLOCKS) * _COUNT, _COUNT)
    kd.tile.store(out, row * _COUNT, total)


def tile_samples() -> Iterator[Sample]:
    """Return a sample of each kernel for several blocks."""
    rng = np.random.default_rng(0)
    planes = rng.standard_normal((_BLOCKS, *_SHAPE)).astype(np.float32)
    whole = (planes * 1000).astype(np.int32)
    for kernel in (_folds_of_rows, _folds_of_columns, _turned, _scans, _ordered):
        for threads in (64, 256):
            out = np.zeros_like(planes)
            run = functools.partial(kernel[_BLOCKS, threads], planes, out)
            yield Sample(f"{kernel.__name__[1:]} {threads}", run, (out,))
    integers = np.zeros_like(whole)
    run = functools.partial(_ordered[_BLOCKS, 64], whole, integers)
    yield Sample("ordered integers", run, (integers,))
    narrow, sorted_rows = planes.reshape(_BLOCKS, 64, 16), np.zeros((_BLOCKS, 64, 16), np.float32)
    run = functools.partial(_short_rows[_BLOCKS, 64], narrow, sorted_rows)
    yield Sample("short_rows", run, (sorted_rows,))
    flat = planes.reshape(-1)
    for kernel in (_scan, _repeated, _ends, _columns_of_many):
        for threads in (64, 100, 256):
            out = np.zeros_like(flat)
            run = functools.partial(kernel[_BLOCKS, threads], flat, out)
            yield Sample(f"{kernel.__name__[1:]} {threads}", run, (out,))
    for threads in (64, 256):
        out = np.zeros_like(flat)
        run = functools.partial(_of_threads[flat.size // threads, threads], flat, out)
        yield Sample(f"of_threads {threads}", run, (out,))
