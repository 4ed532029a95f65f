"""Loops of threads that run for strips of neighbouring threads at once.

In debug mode each thread runs by itself, from its beginning to its end: that is the oracle.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.ir.printer import print_region
from targets.cpu.regions.read import read_kernel
from tests.unit.targets.cpu.passes import test_lanes as old

f32 = np.float32
DIVERGENT = {function.__name__: old.pair(function) for function in old.DIVERGENT}


def text_of(kernel, signature: str, **how) -> str:
    """Return the region of a kernel."""
    _, spec = kernel.specialization(signature, target="cpu", **how)
    return print_region(read_kernel(spec)[1])


def lines_of(text: str) -> list[str]:
    """Return the lines of a region, without constants, numbers of values and places."""
    text = re.sub(r"%\d+", "%", re.sub(r"row\[.*?\] %\d+, %\d+", "row", text))
    lines = [line.split("  #")[0].rstrip() for line in text.splitlines()]
    return [line for line in lines if "const[" not in line]


@kd.kernel
def powers(x, out, rounds):
    i = kd.grid(1)
    if i < out.size:
        value = x[i]
        for _ in range(rounds):
            value = value * f32(0.5) + f32(1)
        out[i] = value


def test_a_loop_that_all_threads_run_moves_outside() -> None:
    lines = lines_of(text_of(powers, "float32[::1], float32[::1], int64", forall=1))
    first = lines.index(next(line for line in lines if line.startswith("%rest: int64 = for")))
    end = lines.index("}", first)
    assert lines[first + 1 : end] == [
        "  %value_lanes: float32 = lane.slot[lanes=64]",
        "  row (%lane: int64) {",
        "    %x: int64 = numba.add %strip, %lane",
        "    %value: float32 = array.load %x.1, %x",
        "    lane.store %value_lanes, %value, %lane",
        "  }",
        "  for %, %rounds, % (%_: int64) {",
        "    row (%lane.1: int64) {",
        "      %value.1: float32 = lane.load %value_lanes, %lane.1",
        "      %: float32 = numba.mul %value.1, %",
        "      %value.2: float32 = numba.add %, %",
        "      lane.store %value_lanes, %value.2, %lane.1",
        "    }",
        "  }",
        "  row (%lane.2: int64) {",
        "    %x.2: int64 = numba.add %strip, %lane.2",
        "    %value.3: float32 = lane.load %value_lanes, %lane.2",
        "    array.store %out, %x.2, %value.3",
        "  }",
        "  %: int64 = numba.add %strip, %",
        "  yield %",
    ]


@kd.kernel
def escapes(x, out, most):
    i = kd.grid(1)
    if i < out.size:
        value, count = x[i], most
        for k in range(most):
            if value > f32(4):
                count = k
                break
            value = value * value
        out[i] = count


def test_a_loop_that_threads_leave_runs_under_a_mask() -> None:
    text = text_of(escapes, "float32[::1], int32[::1], int64", forall=1)
    begin = text.index("lane.head")
    assert lines_of(text[begin : text.index("array.store")]) == [
        "lane.head",
        "    %: int64 = numba.add %, %",
        "    row (%lane.1: int64) {",
        "      %: bool = lane.load %inside_lanes, %lane.1",
        "      %: float32 = lane.load %value_lanes, %lane.1",
        "      %: int64 = lane.load %count_lanes, %lane.1",
        "      %: bool, %: int64, %: float32, %: int64 = labeled[label=break] {",
        "        %: int64 = undefined",
        "        %: bool = numba.gt %, %",
        "        if % {",
        "          leave[label=break] %, %, %, %",
        "        } {",
        "        }",
        "        %value.1: float32 = numba.mul %, %",
        "        yield %, %, %value.1, %",
        "      }",
        "      %: bool = numba.lt %, %most",
        "      %: bool = bool.and %, %",
        "      %: int64 = int.select %, %, %",
        "      %: float32 = int.select %, %, %",
        "      lane.store %value_lanes, %, %lane.1",
        "      %: int64 = int.select %, %, %",
        "      lane.store %count_lanes, %, %lane.1",
        "      %: bool = bool.and %, %",
        "      lane.store %inside_lanes, %, %lane.1",
        "    }",
        "    yield %",
        "  }",
        "  row (%lane.2: int64) {",
        "    %count: int64 = lane.load %count_lanes, %lane.2",
        "    %x.2: int64 = numba.add %strip, %lane.2",
        "    %: int32 = cast %count",
        "",
    ]


@pytest.mark.parametrize("name", DIVERGENT)
def test_strips_compute_what_each_thread_does(name: str) -> None:
    kernel, alone = DIVERGENT[name]
    for n in old.EXTENTS:
        x = np.random.default_rng(n).standard_normal(n).astype(f32) * f32(2)
        for most in (0, 1, 23, 60):
            found, expected = np.full(n, np.nan, f32), np.full(n, np.nan, f32)
            kernel.forall(n)(x, found, most)
            alone.forall(n)(x, expected, most)
            old.same(found, expected)
            if n:
                found[:] = np.nan
                kernel[-(-n // 33), 33](x, found, most)
                old.same(found, expected)


@pytest.mark.parametrize("name", [name for name in DIVERGENT if name != "returns_from_loop"])
def test_divergent_loops_run_in_strips(name: str) -> None:
    text = text_of(DIVERGENT[name][0], "float32[::1], float32[::1], int64", forall=1)
    assert "lane.any" in text
