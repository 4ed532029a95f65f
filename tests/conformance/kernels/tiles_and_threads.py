"""Tiles among the code of threads: numbers that they take, places of every integer type."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList
from tests.support.tile_words import of_tile

_LIST = CaseList("tiles_and_threads")
CASES = _LIST.cases

_BLOCKS = (4, 33, 96)


@kd.kernel
def _number_in_a_variable_of_threads(x, out):
    t = kd.threadIdx.x
    v = t * 2
    w = t
    out[0, t] = v
    v = kd.tile.load(x, 0, 40).sum()
    out[1, t] = v + w
    if x[1] > 0:
        w = kd.tile.of(w).max()
    out[2, t] = w
    for k in range(3):
        w = kd.tile.of(w + v).sum() + t + k
        v = (kd.tile.of(w) > 0).sum()
    out[3, t] = w
    out[4, t] = v


def _numbers(x: np.ndarray, out: np.ndarray) -> dict[int, np.ndarray]:
    t = np.arange(out.shape[1])
    out[0] = 2 * t
    v = x[:40].sum()
    out[1] = v + t
    w = np.full(t.size, t.max())
    out[2] = w
    for k in range(3):
        w = (w + v).sum() + t + k
        v = (w > 0).sum()
    out[3], out[4] = w, v
    return {1: out}


for _block in _BLOCKS:
    _LIST.add(
        f"number.{_block}",
        _number_in_a_variable_of_threads,
        lambda rng, block=_block: (
            rng.integers(1, 9, 50),
            poisoned((5, block), np.int64),
        ),
        block=(_block,),
        expected=_numbers,
    )


def _by_its_index(v, j, many):
    """Use a bound that only the index of an element keeps, and shift by the index."""
    return (v << (j & 7)) + (1000 if j < many else 2000) + j // 3 - abs(j - 5)


@kd.kernel
def _indices_of_threads(x, out, many):
    kd.tile.store(out, 0, kd.tile.of(x[kd.threadIdx.x]), _by_its_index, many)


def _indexed(x: np.ndarray, out: np.ndarray, many: int) -> dict[int, np.ndarray]:
    out[:] = [_by_its_index(int(v), j, many) for j, v in enumerate(x)]
    return {1: out}


for _block in _BLOCKS:
    _LIST.add(
        f"indices.{_block}",
        _indices_of_threads,
        lambda rng, block=_block: (
            rng.integers(1, 99, block),
            poisoned(block, np.int64),
            np.int64(7),
        ),
        block=(_block,),
        expected=_indexed,
    )


@kd.kernel
def _placed(x, out, at):
    v = kd.tile.load(x, at, 16, other=-1)
    kd.tile.store(out[0], 0, v)
    kd.tile.store(out[1], at, v)


def _moved(x: np.ndarray, out: np.ndarray, at: Any) -> dict[int, np.ndarray]:
    (v,) = of_tile("load", {0: (x, at, 16, -1, None)}).values()
    of_tile("store", {0: (out[0], 0, v)})
    of_tile("store", {0: (out[1], at, v)})
    return {1: out}


#: Ends of the integers' ranges, beside which sums and negations wrap, and places within.
_PLACES = {
    "uint8": (0, 5, 255),
    "int8": (-128, -3, 127),
    "uint16": (21, 65535),
    "int32": (-(2**31), 2**31 - 1, 8),
    "uint32": (2**32 - 1, 7),
    "int64": (-(2**63), 2**63 - 1, -(2**62), 2**63 - 16),
    "uint64": (2**64 - 1, 2**63, 2**64 - 8, 4),
}
for _dtype, _ats in _PLACES.items():
    for _at in _ats:
        for _block in (4, 7):
            _LIST.add(
                f"place.{_dtype}.{_at}.{_block}",
                _placed,
                lambda rng, dtype=_dtype, at=_at: (
                    rng.standard_normal(24).astype(np.float32),
                    poisoned((2, 24), np.float32),
                    np.dtype(dtype).type(at),
                ),
                block=(_block,),
                expected=_moved,
            )


@kd.kernel
def _in_order(x, y, out):
    t = kd.threadIdx.x
    count = kd.blockDim.x
    kd.tile.store(y, 0, kd.tile.load(x, 0, 40))
    kd.tile.store(y, 0, kd.tile.load(y, 1, 39))
    kd.tile.store(y, 3, kd.tile.load(y, 0, 16) + 1)
    out[0, t] = y[count - 1 - t]
    s = kd.shared.array(100, np.int64)
    s[count - 1 - t] = t
    v = kd.tile.load(s, 1, 3)
    s[count - 1 - t] = v.sum()
    kd.tile.store(s, 0, kd.tile.of(s[count - 1 - t] + t))
    out[1, t] = s[count - 1 - t]


def _ordered(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> dict[int, np.ndarray]:
    count = out.shape[1]
    y[:40] = x[:40]
    y[:39] = y[1:40].copy()
    y[3:19] = y[:16].copy() + 1
    out[0] = y[:count][::-1]
    out[1] = (np.arange(count)[::-1][1:4].sum() + np.arange(count))[::-1]
    return {1: y, 2: out}


for _block in _BLOCKS:
    _LIST.add(
        f"order.{_block}",
        _in_order,
        lambda rng, block=_block: (
            rng.integers(-99, 99, 100),
            rng.integers(-99, 99, 100),
            poisoned((2, block), np.int64),
        ),
        block=(_block,),
        expected=_ordered,
    )


_IS_OFF = False


@kd.kernel
def _never_run(x, out):
    t = kd.threadIdx.x
    last = x[t]
    if _IS_OFF:
        dead = kd.tile.of(np.float32(last))
        total, own = dead.sum(), dead.own
        last = np.int64(total) + np.int64(own)
        twice = kd.tile.of(np.float32(last))
        for _ in range(x.size):
            twice += twice
        out[t] = twice.sum()
    else:
        alive = kd.tile.of(np.uint32(last))
        total, own = alive.sum(), alive.own
        last = np.int64(total) + np.int64(own)
    out[t] = last


for _block in _BLOCKS:
    _LIST.add(
        f"never_run.{_block}",
        _never_run,
        lambda rng, block=_block: (rng.integers(0, 9, block), poisoned(block, np.int64)),
        block=(_block,),
        expected=lambda x, out: {1: x.sum() + x},
    )
