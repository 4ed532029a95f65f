"""The class of each operation that the planner and `explain` count."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.ir.operation_classes import class_of
from tests.support.regions.reading import as_written, specialized


@kd.func
def _product(a, b):
    return a * b


@kd.kernel
def operators(x, out):
    i = kd.grid(1)
    out[i] = (x[i] + 1) * 2 - x[i] / 3 + x[i] // 4 + x[i] % 5 + x[i] ** 6
    out[i] += -x[i]


@kd.kernel
def bits(n, out):
    i = kd.grid(1)
    m = n[i]
    m <<= 1
    out[i] = (m & 3) | (m ^ 5) | (~m >> 2)


@kd.kernel
def functions(x, out):
    i = kd.grid(1)
    out[i] = math.sqrt(x[i]) + np.exp(x[i]) + math.fabs(x[i])
    out[i] = min(x[i], out[i], np.float32(3)) + max(out[i], x[i]) + abs(x[i])
    out[i] = np.float32(int(x[i])) + float(len(x)) + np.maximum(x[i], out[i])


@kd.kernel
def choices(x, out):
    i = kd.grid(1)
    found = x[i]
    if 0 < i < out.size and (found > 0 or not found < -1):
        out[i] = found if i % 2 == 0 else 0
    value = np.float32(1)
    if found > 2:
        value = found
    out[i] = value if found < 9 else x[i + 1]  # a branch


@kd.kernel
def language(x, out):
    i = kd.grid(1)
    kd.syncthreads()
    out[i] = kd.rsqrt(x[i]) + kd.shfl_down_sync(0xFFFFFFFF, x[i], 1) + _product(x[i], x[i])
    kd.atomic.cas(out, kd.blockIdx.x, x[i], x[0])


_F = "float32[::1]"
_CASES = {
    operators: (_F, {"add": 5, "mul": 1, "sub": 1, "div": 2, "mod": 1, "pow": 1}),
    bits: ("int64[::1]", {"lshift": 1, "and_": 1, "or_": 2, "xor": 1, "rshift": 1}),
    functions: (
        _F,
        {"sqrt": 1, "exp": 1, "min": 2, "max": 1, "maximum": 1, "add": 6},
    ),
    choices: (_F, {"compare": 7, "mod": 1, "add": 1, "select": 2}),
    language: (_F, {"intrinsic": 2, "add": 2, "mul": 1}),
}


@pytest.mark.parametrize("kernel", _CASES, ids=lambda kernel: kernel.__name__)
def test_classes(kernel: Any) -> None:
    signature, expected = _CASES[kernel]
    block = {} if kernel is not language else {"block": 64}
    spec = specialized(kernel, (f"{signature}, {signature}",), **block)
    found: Counter[str] = Counter()
    for each in as_written(spec).body.walk():
        kind = class_of(each)
        if kind is not None:
            found[kind.name] += kind.times
    assert found == expected
