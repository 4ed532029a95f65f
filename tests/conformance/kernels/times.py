"""Dates and durations: operators of each with each, NaT, units that differ, memory of all kinds.

NumPy's own scalars are the reference, whose operators the kernels' are to be.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("times")
CASES = _list.cases
_SIZE = 77
_BLOCK = 32
_NAT = -(2**63)
#: Units of two operands: the same, each the finer one, far apart, and those of a calendar.
_UNITS = (
    *(("s", "s"), ("D", "h"), ("ms", "s"), ("W", "m"), ("us", "ns"), ("fs", "as")),
    *(("Y", "M"), ("M", "M"), ("D", "ms")),
)


def _times(rng, kind, unit, size=_SIZE):
    """Dates or durations around 0 and far from it, equal ones, zeros and NaT."""
    values = rng.integers(-(10**9), 10**9, size)
    values[::3] = rng.integers(-4, 5, values[::3].size)
    values[rng.random(size) < 0.1] = _NAT
    return values.view(f"{kind}8[{unit}]")


def _finer(one, two):
    return np.promote_types(f"m8[{one}]", f"m8[{two}]").str[3:]


@kd.kernel
def dates(a, b, d, apart, later, earlier):
    i = kd.grid(1)
    if i < a.size:
        apart[i] = a[i] - b[i]
        later[i] = a[i] + d[i]
        later[i] = later[i] if i % 2 else d[i] + a[i]
        earlier[i] = a[i] - d[i]


@kd.kernel
def durations(d, e, k, total, rest, scaled, turned):
    i = kd.grid(1)
    if i < d.size:
        total[i] = d[i] + e[i]
        total[i] -= d[i]
        total[i] += e[i]
        rest[i] = d[i] % e[i]
        scaled[i] = d[i] * k[i] - 3 * d[i]
        turned[i] = -d[i] if d[i] < e[i] else abs(d[i])


@kd.kernel
def quotients(d, e, k, ratio, whole, parts, floored):
    i = kd.grid(1)
    if i < d.size:
        ratio[i] = d[i] / e[i]
        whole[i] = d[i] // e[i]
        parts[i] = d[i] / k[i]
        floored[i] = d[i] // k[i]


@kd.kernel
def compared(a, b, d, e, out):
    i = kd.grid(1)
    if i < a.size:
        found = 0
        if a[i] < b[i]:
            found += 1
        if a[i] <= b[i]:
            found += 2
        if a[i] > b[i]:
            found += 4
        if a[i] >= b[i]:
            found += 8
        if a[i] == b[i]:
            found += 16
        if a[i] != b[i]:
            found += 32
        found += (64 if d[i] < e[i] else 0) + (128 if d[i] <= e[i] else 0)
        found += (256 if d[i] > e[i] else 0) + (512 if d[i] >= e[i] else 0)
        found += (1024 if d[i] == e[i] else 0) + (2048 if d[i] != e[i] else 0)
        out[i] = found + (4096 if a[i] != a[i] else 0)


def _into(*kinds):
    return tuple(poisoned(_SIZE, each) for each in kinds)


def _for_dates(one, two):
    finer = _finer(one, two)
    return lambda rng: (
        *(_times(rng, "M", one), _times(rng, "M", two), _times(rng, "m", two)),
        *_into(f"m8{finer}", f"M8{finer}", f"M8{finer}"),
    )


def _for_durations(one, two):
    finer = _finer(one, two)
    return lambda rng: (
        *(_times(rng, "m", one), _times(rng, "m", two), rng.integers(-9, 9, _SIZE)),
        *_into(f"m8{finer}", f"m8{finer}", f"m8[{one}]", f"m8[{one}]"),
    )


def _for_quotients(one, two):
    return lambda rng: (
        *(_times(rng, "m", one), _times(rng, "m", two), rng.integers(-3, 3, _SIZE)),
        *_into("f8", "i8", f"m8[{one}]", f"m8[{one}]"),
    )


def _for_comparisons(one, two):
    return lambda rng: (
        *(_times(rng, kind, unit) for kind in "Mm" for unit in (one, two)),
        *_into("i8"),
    )


for _one, _two in _UNITS:
    _label = f"{_one}_{_two}"
    _list.add(f"dates_{_label}", dates, _for_dates(_one, _two), grid=(3,))
    _list.add(f"durations_{_label}", durations, _for_durations(_one, _two), grid=(3,))
    _list.add(f"quotients_{_label}", quotients, _for_quotients(_one, _two), grid=(3,))
    _list.add(f"compared_{_label}", compared, _for_comparisons(_one, _two), grid=(3,))


_Span = namedtuple("_Span", ["first", "steps"])


@kd.kernel
def arguments(first, step, span, out, days):
    """Dates and durations by themselves, in a tuple, NaT among them; strided arrays."""
    i = kd.grid(1)
    if i < out.size:
        date = first + step * i
        if date >= span.first:
            date = date + span.steps[i % 2]
        out[i] = date
        days[i] = (date - first) // step


for _label, _step in (("", 90), ("_negative", -7), ("_nat", _NAT)):
    _list.add(
        f"arguments{_label}",
        arguments,
        lambda rng, step=_step: (
            np.datetime64("2026-02-28T23:59:00", "s"),
            np.timedelta64(step, "s"),
            _Span(
                np.datetime64("2026-03-01", "D"),
                (np.timedelta64(7200, "s"), np.timedelta64(_NAT, "s")),
            ),
            poisoned(2 * _SIZE, "M8[s]")[::-2],
            poisoned(_SIZE, "i8"),
        ),
        grid=(3,),
    )

_SHARED = np.dtype("M8[ms]")


@kd.func
def later(one, two):
    return one if one > two else two


@kd.kernel
def over_barriers(a, pause, out):
    t, i = kd.threadIdx.x, kd.grid(1)
    held = kd.shared.array(_BLOCK, _SHARED)
    own = kd.local.array(2, _SHARED)
    date = a[i % a.size]
    held[t] = date
    own[t % 2] = date + pause
    own[1 - t % 2] = date - pause
    kd.syncthreads()
    other = held[_BLOCK - 1 - t]
    kd.syncthreads()
    held[t] = later(date, other)
    kd.syncthreads()
    found = later(held[t ^ 1], own[0])
    if i < out.size:
        kd.store(out, i, found + (own[1] - kd.load(a, i % a.size, "streaming")), "streaming")


_list.add(
    "over_barriers",
    over_barriers,
    lambda rng: (_times(rng, "M", "s"), np.timedelta64(1500, "ms"), poisoned(_SIZE, "M8[ms]")),
    grid=(3,),
    block=(_BLOCK,),
)


@kd.kernel
def element(a, step, out):
    i = kd.grid(1)
    out[i] = a[i] + step * 2


_list.add(
    "forall",
    element,
    lambda rng: (_times(rng, "M", "ns"), np.timedelta64(3, "D"), poisoned(_SIZE, "M8[ns]")),
    extent=(_SIZE,),
)
