"""Loads and stores with hints for caches: they are accesses as any other."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from kerneldsl.language.element_types import ELEMENT_TYPES, vector_names
from tests.support.arrays import HOST_DTYPES, poisoned, random_array, strided
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("hinted")
CASES = _list.cases

_LOADS = ("all", "global", "streaming", "last_use")
_STORES = ("all", "global", "streaming", "through")


def _copy(loading, storing):
    @kd.kernel
    def copy(x, out):
        i = kd.grid(1)
        if i < out.size:
            kd.store(out, i, kd.load(x, i, loading), cache=storing)

    return copy


_list.add(
    "again",
    _copy("again", "all"),
    lambda rng: (random_array(rng, 67, "float32"), poisoned(67, "float32")),
    extent=(67,),
)

for _number, _dtype in enumerate(HOST_DTYPES):
    _hints = _LOADS[_number % 4], _STORES[_number // 4 % 4]
    _list.add(
        f"copy_{_dtype}",
        _copy(*_hints),
        lambda rng, dtype=_dtype: (random_array(rng, 67, dtype), poisoned(67, dtype)),
        extent=(67,),
    )


def _copy_vectors(make):
    @kd.kernel
    def copy(x, out):
        i = kd.grid(1)
        xs, outs = kd.view(x, make), kd.view(out, make)
        if i < outs.size:
            kd.store(outs, i, kd.load(xs, i, "streaming") + kd.load(xs, -1, "global"), "through")

    return copy


for _name in vector_names():
    _item = ELEMENT_TYPES[_name].fields[0].dtype
    _kernel = _copy_vectors(getattr(kd, _name))
    for _label, _offset in (("", 0), ("_unaligned", 1)):
        _list.add(
            f"{_name}{_label}",
            _kernel,
            lambda rng, item=_item, offset=_offset: (
                random_array(rng, 131 + offset, item)[offset:],
                poisoned(131 + offset, item)[offset:],
            ),
            grid=(3,),
        )


@kd.kernel
def axes(x, out):
    """Indices from the end, and of arrays whose elements do not follow each other."""
    i, j = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        value = kd.load(x, (i - out.shape[0], j), "streaming") + kd.load(x[i], -1 - j, "global")
        kd.store(out, (-1 - i, j), value, cache="streaming")


_list.add(
    "axes",
    axes,
    lambda rng: (
        strided(random_array(rng, (13, 7), "float32"), (2, -3)),
        strided(poisoned((13, 7), "float32"), (-1, 2)),
    ),
    grid=(2, 2),
    block=(8, 5),
)


@kd.kernel
def other_memory(x, out):
    """Arrays of the block and of the thread have no caches to hint at."""
    t = kd.threadIdx.x
    held = kd.shared.array(32, np.float32)
    own = kd.local.array(2, np.float32)
    kd.store(held, t, kd.load(x, t, cache="last_use"), cache="through")
    kd.syncthreads()
    kd.store(own, t & 1, kd.load(held, 31 - t, "global"), "streaming")
    kd.store(out, t, kd.load(own, t & 1, "streaming"))


_list.add(
    "other_memory",
    other_memory,
    lambda rng: (random_array(rng, 32, "float32"), poisoned(32, "float32")),
)


@kd.kernel
def converted(x, out, ints):
    """What is stored is converted as an assignment converts it."""
    i = kd.grid(1)
    kd.store(out, i, kd.load(x, i) * 3 + 1, "streaming")
    kd.store(ints, i, i + 200, "global")
    kd.store(ints, i, ints[i] + 100)


_list.add(
    "converted",
    converted,
    lambda rng: (
        rng.integers(-99, 99, 32), poisoned(32, "float64"), poisoned(32, "uint8")
    ),
)  # fmt: skip


@kd.func
def taken(array, i):
    return kd.load(array, i, "streaming")


@kd.func
def put(array, i, value):
    kd.store(array, i, value, "streaming")


@kd.kernel
def in_functions(arrays, out):
    i = kd.grid(1)
    total = 0
    for k in range(3):
        total += taken(arrays[k], i)
    put(out, i, total)


_list.add(
    "in_functions",
    in_functions,
    lambda rng: (
        tuple(rng.integers(-99, 99, 32).astype(np.int32) for _ in range(3)), poisoned(32, "int64")
    ),
)  # fmt: skip


@kd.kernel
def in_order(x, out, count):
    """The index is computed before the value, and each once."""
    if kd.grid(1) == 0:
        kd.store(
            out, kd.atomic.add(count, 0, 1), kd.load(x, kd.atomic.add(count, 0, 1)), "streaming"
        )
        out[2] = kd.load(out, 0, "global") + kd.load(x, kd.atomic.add(count, 0, 1))


_list.add(
    "in_order",
    in_order,
    lambda rng: (random_array(rng, 5, "int32"), poisoned(3, "int32"), np.zeros(1, np.int32)),
)


@kd.kernel
def written_between(out):
    """A load sees the stores before it, with a hint and without."""
    i = kd.grid(1)
    kd.store(out, i, 5, "streaming")
    first = kd.load(out, i, "streaming")
    out[i] = 7
    second = kd.load(out, i, "streaming")
    kd.store(out, i, first * 100 + second * 10 + 1, "through")
    out[i] += 0


_list.add("written_between", written_between, lambda rng: (poisoned(32, "int32"),))


@kd.kernel
def fields(x, out):
    i = kd.grid(1)
    if i < x.size:
        kd.store(out, i, kd.load(x["b"], i, "streaming") + kd.load(x["a"], i, "global"))


def _records(rng):
    x = np.empty(40, [("a", np.int8), ("b", np.float32)])
    x["a"], x["b"] = random_array(rng, 40, "int8"), random_array(rng, 40, "float32")
    return x, poisoned(40, "float32")


_list.add("fields", fields, _records, grid=(2,))


@kd.kernel
def numbers_of_few_bits(words, out):
    i = kd.grid(1)
    kd.store(out, i, kd.load(kd.packed(words, kd.int4), i, "streaming"))


_list.add(
    "numbers_of_few_bits",
    numbers_of_few_bits,
    lambda rng: (random_array(rng, 16, "uint8"), poisoned(32, "int8")),
)
