"""Control flow in the region IR: exits, loops over several values, variables of several paths."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import errors

import kerneldsl as kd
from kerneldsl.ir.printer import print_function
from kerneldsl.ir.ranges import ranges_of
from kerneldsl.ir.simplify import simplify
from kerneldsl.ir.uniformity import uniformity_of
from kerneldsl.language.intrinsics.intrinsic import Scope
from targets.cpu.regions.compile import compile_kernel
from targets.cpu.target import CpuCompiler
from tests.support.cuda_regions import compile_regions as compile_cuda
from tests.support.read_kernels import read_typed
from tests.support.verifier import VerificationError, verify

_F = "float32[::1]"
N = 16


@kd.func
def sign(value):
    if value < 0:
        return -1
    if value == 0:
        return 0
    return 2.5


@kd.func
def find(values, wanted):
    for k in range(values.size):
        if values[k] == wanted:
            return k
    return -1


@kd.func
def above(value):
    if value > 1:
        return value


@kd.func
def overwrite(values, i):
    if values[i] > 1:
        return
    values[i] = 7


@kd.kernel
def exits(x, y, out):
    i = kd.grid(1)
    if i >= out.size:
        return
    total = 0
    for k in range(10):
        if x[k] < 0:
            continue
        if x[k] > 2:
            break
        total += x[k]
    out[i] = total + sign(x[i]) * 10 + find(x, x[i]) * 100


@kd.kernel
def optional(x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i]
        overwrite(out, i)
        r = above(x[i])
        if r is None:
            out[i] -= 50
        else:
            out[i] += r


@kd.kernel
def nested(x, y, out):
    i = kd.grid(1)
    if i < out.size:
        if x[i] > 1:
            if x[i] > 2:
                return
            out[i] = 1
        out[i] += 2
        a, b = 1, 2
        n = 0
        while True:
            a, b = b, a + b
            n += 1
            if b > x[i] * 10:
                break
        out[i] += b + a * 100 + n * 1000


@kd.kernel
def several(x, y, out):
    i = kd.grid(1)
    if i < out.size:
        s = 0.0
        for a, b in zip(x, y):  # noqa: B905
            s += a * b
        for j, a in enumerate(x):
            s += j * a
        for j, (a, b) in enumerate(zip(x, y), 3):  # noqa: B905
            s += j * a - b
        for array in (x, y):
            s += array[i]
        for u in (x[0], y[i], x[1]):
            if u > 2:
                continue
            s += u
        for p, q in ((1, 2), (3, 4)):
            s += p * q
        for r in range(10, -1, -3):
            s += r
        s += r
        for c, d in zip((1, 2, 3), range(2, 20, 5)):  # noqa: B905
            s += c * d
        out[i] = s


@kd.kernel
def variables(x, y, out):
    i = kd.grid(1)
    if i < out.size:
        if x[i] > 0:
            p = x
            t = (i, 1.5)
            v = 3
        else:
            p = y
            t = (2, 2.5)
        best, at = p[0], 0
        for j in range(p.size):
            if p[j] > best:
                best, at = p[j], j
        out[i] = best + at + t[0] * t[1]
        if x[i] > 0:
            out[i] += v
        out[i] += i if x[i] > 0 else 2.5
        current = x
        for j in range(3):
            out[i] += current[j]
            current = y
        for j in range(x.size):
            if x[j] == x[i]:
                last = j
        out[i] += last
        if x[i] in (1, 2) or (i, 1) == (3, 1):
            out[i] += 1000


class Point(NamedTuple):
    x: float
    weights: Any
    by: float = 2.0


@kd.func
def weighed(point, i, extra=None):
    if extra is None:
        return point.x * point.weights[i]
    return point.x * point.weights[i] + extra.by


@kd.func
def first_of(value):
    if isinstance(value, tuple):
        return value[0]
    return value.real if not isinstance(value, (int, float)) else value


@kd.kernel
def by_type(x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = first_of(x[i]) + first_of((y[i], 2)) * 10 + first_of(x[i] * 1j + 3) * 100


@kd.kernel
def members(x, y, out):
    i = kd.grid(1)
    if i < out.size:
        point = Point(1.0, x)
        if y[i] > 0:
            point = Point(weights=y, x=3.0, by=x[i])
        total = 0.0
        for k in range(3):
            total += weighed(point, k) + weighed(point, k, point)
            point = Point(point.by, point.weights)
        out[i] = total


@kd.kernel
def sometimes(x, y, out):
    i = kd.grid(1)
    if i < out.size:
        if x[i] > 0:
            chosen = y
            pair = (x, 2)
            none = None
        else:
            none = 3
        for k in range(3):
            if x[k] == x[i]:
                again = x
                found = (k, y)
        out[i] = 0
        if x[i] > 0:
            out[i] = chosen[i] + pair[0][0] * pair[1]
        if x[0] == x[i]:
            out[i] += again[1] + found[0] + found[1][2]
        if none is not None:
            out[i] += none


@kd.kernel
def joined(x, y, out):
    i = kd.grid(1)
    if i < out.size:
        t = (x[i], 3) + (1, 2)  # noqa: RUF005
        s = t[1:]
        out[i] = t[0] + s[0] + len(s)
        for q in t[2:]:
            out[i] += q
        if x[i] in (1, 2) and y[i] not in (2.0, 3):
            out[i] += 10
        if not t:
            out[i] = 7
        if t == (1.0, 3, 1, 2):
            out[i] += 100
        step = 2 if x[i] > 0 else -1
        for a, b in zip(range(0, 6 * step, step), y):  # noqa: B905
            out[i] += a * b


@kd.kernel
def counted(x, out):
    n = 0
    for k in range(x.size):
        if x[k] < 0:
            n = 3
            break
        n = 1
    out[n] = 5


def _expected(name: str, x: Any, y: Any) -> Any:
    out = np.zeros(N, np.float32)
    kernel = globals()[name]
    for i in range(N):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kd, "grid", lambda ndim, i=i: i)
            kernel.function(x, y, out)
    return out


NAMES = [
    *("exits", "optional", "nested", "several", "variables", "by_type", "members", "sometimes"),
    "joined",
]


@pytest.mark.parametrize("name", NAMES)
def test_results_on_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, N).astype(np.float32) for _ in range(2))
    monkeypatch.setenv("KERNELDSL_CACHE", "0")
    monkeypatch.setattr(CpuCompiler, "compile", lambda self, spec: compile_kernel(spec))
    out = np.zeros(N, np.float32)
    globals()[name].forall(N)(x, y, out)
    assert out.tolist() == _expected(name, x, y).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_ptx_is_made(name: str) -> None:
    assert ".entry" in _ptx(globals()[name], 3)


def _ptx(kernel: Any, arrays: int) -> str:
    asked = kernel._asked_for((", ".join([_F] * arrays),), None, None, None, "null", None)
    spec = kernel._dispatcher.specialize(*asked)[1]
    return compile_cuda(spec, arch="sm_90").ptx


def test_ranges_and_uniformity_join_all_exits() -> None:
    function = read_typed(counted, f"{_F}, {_F}")
    simplify(function.body)
    verify(function)
    (left,) = (each for each in function.body.walk() if each.name == "labeled")
    assert len(list(left.leaves())) == 1
    (number,) = left.results
    assert ranges_of(function, {})[number] == (0, 3)
    assert uniformity_of(function).scope(number) is Scope.THREAD
    text = print_function(function)
    assert "labeled[label=break] {" in text
    assert "leave[label=break] %n" in text


def test_leaving_what_is_not_around_is_found() -> None:
    function = read_typed(counted, f"{_F}, {_F}")
    (left,) = (each for each in function.body.walk() if each.name == "labeled")
    operations = function.body.operations
    position = operations.index(left)
    operations[position : position + 1] = left.regions[0].operations[:-1]
    with pytest.raises(VerificationError, match="leave is not in the operation"):
        verify(function)


@kd.func
def larger(a, b):
    if a > b:
        return a
    return b


@kd.kernel
def combined(x, out):
    i = kd.grid(1)
    total = kd.block.reduce(x[i], larger)
    before = kd.block.exclusive_scan(x[i], larger, 0.0)
    out[i] = total + before + kd.warp.inclusive_scan(x[i], lambda a, b: a + b)


def test_an_operation_of_a_group_is_a_region() -> None:
    function = read_typed(combined, f"{_F}, {_F}")
    (reduced,) = (each for each in function.body.walk() if each.name == "block.reduce")
    (region,) = reduced.regions
    assert [value.type for value in region.arguments] == [reduced.result.type] * 2
    assert ".entry" in _ptx(combined, 2)


@kd.func
def converted(a, b):
    return (a, b)


@kd.kernel
def uncombined(x, out):
    out[kd.grid(1)] = kd.block.reduce(x[0], converted)


def test_an_operation_must_give_a_number() -> None:
    with pytest.raises(errors.TypingError, match="must give a number"):
        read_typed(uncombined, f"{_F}, {_F}")


@kd.kernel
def unread(x, out):
    t = x[0]
    n, m = 0, 1
    for k in range(x.size):
        t = x[k]
        n += k
        m = n + m
        for j in range(3):
            t = t + j
        if k > 3:
            t = 0
            break
        out[k] = 1


def test_loops_carry_what_is_read() -> None:
    function = read_typed(unread, f"{_F}, {_F}")
    carried = [len(each.results) for each in function.body.walk() if each.name == "for"]
    simplify(function.body)
    verify(function)
    assert carried[0] > 1
    assert [len(each.results) for each in function.body.walk() if each.name == "for"] == [0]
    assert not any(each.name == "array.load" for each in function.body.walk())
    assert any(each.name == "leave" for each in function.body.walk())


@kd.kernel
def endless(x):
    if x[0] > 1:
        while True:
            pass
    x[0] = 2


def test_a_loop_without_an_end_is_kept() -> None:
    function = read_typed(endless, _F)
    simplify(function.body)
    assert any(each.name == "while" for each in function.body.walk())
