"""``debug``, ``opt`` and ``lineinfo`` of ``cuda.jit`` and ``cuda.compile_ptx``."""

from __future__ import annotations

import re

import pytest
from numba import types

from kerneldsl import cuda

SIGNATURE = (types.int32, types.float32[::1])


def scaled(n, x):
    twice = 2 * n
    x[0] = twice


def quotient(x, y):
    share = x / y
    return share


LINES = {scaled.__code__.co_firstlineno + n for n in (0, 1, 2)}


def test_a_kernel_that_is_debugged():
    kernel = cuda.jit(SIGNATURE, debug=True, opt=False)(scaled)
    (llvm,) = kernel.inspect_llvm().values()
    for text in ('arg: 1, .*name: "n"', 'arg: 2, .*name: "x"', 'arg: 0, .*name: "twice"'):
        assert len(re.findall(rf"!DILocalVariable\({text}", llvm)) == 1
    ptx = kernel.inspect_asm(SIGNATURE)
    assert ".target sm_90, debug\n" in ptx
    assert {int(n) for n in re.findall(r"\.loc\s+1 (\d+) ", ptx)} - {0} == LINES


@pytest.mark.parametrize("options", [{"lineinfo": True}, {"opt": False}, {}], ids=str)
def test_a_kernel_that_is_not(options):
    ptx = cuda.jit(SIGNATURE, **options)(scaled).inspect_asm(SIGNATURE)
    assert ", debug" not in ptx
    assert ("__local_depot0" in ptx) == ("opt" in options)
    lines = {int(n) for n in re.findall(r"\.loc\s+1 (\d+) ", ptx)} - {0}
    assert lines <= LINES
    assert bool(lines) == ("lineinfo" in options)


@pytest.mark.parametrize("options", [{"debug": True, "opt": False}, {"lineinfo": True}], ids=str)
def test_a_device_function(options, recwarn):
    given = types.float32, types.float32
    ptx, _ = cuda.compile_ptx(quotient, given, device=True, cc=(9, 0), **options)
    assert re.findall(r'\.file\s+\d+ "(.*)"', ptx) == [__file__]
    assert bool(re.search(r"\.section\s+\.debug_info", ptx)) == ("debug" in options)
    assert not recwarn
