"""Arithmetic that is converted to 32 bits: what is computed is the same, in 32 bits."""

from __future__ import annotations

import re
from types import FunctionType

import numpy as np

import kerneldsl as kd
from tests.ptx.helpers import body_of, compile_ptx
from tests.support.simulated_grid import SimulatedGrid

u32, i32 = np.uint32, np.int32
_SMALL = (0, 1, 2, 5, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1)
_SIGNED = (-(2**31), -(2**16) - 3, -129, -1, 0, 1, 77, 2**31 - 1)
_LONG = (-(2**63), -(2**32) - 5, -1, 0, 3, 2**31, 2**40 + 9, 2**63 - 1)


@kd.func
def next_state(state):
    return u32(state * u32(1664525) + u32(1013904223))


@kd.func
def uniform(state):
    return np.float32(state >> u32(8)) * np.float32(2.0**-24)


@kd.func
def hashed(i):
    state = u32(u32(i) * u32(747796405) + u32(2891336453))
    word = u32(((state >> ((state >> u32(28)) + u32(4))) ^ state) * u32(277803737))
    return u32((word >> u32(22)) ^ word)


def drawn(out, rounds):
    i = kd.grid(1)
    if i < out.size:
        state, total = hashed(i), np.float32(0.0)
        for _ in range(rounds):
            state = next_state(state)
            one = uniform(state)
            state = next_state(state)
            total += one * uniform(state)
        out[i] = total


def mixed(a, b, c, d, out):
    out[0] = u32((a * u32(5) - b) ^ (a >> 9))
    out[1] = u32((b >> 3) + (b << 7) * c)
    out[2] = u32((a | b) & (c * d + 12345678901))
    out[3] = i32((b - d * a) * 3 + (d << 31))
    out[4] = u32(u32(b * b + 1) * u32(a ^ d) + (u32(c) >> 31))
    out[5] = u32((c >> 5) + a)
    total = a * b
    out[6] = u32(total + (total >> 32))
    for k in range(3):
        out[7] = u32(total * k + b)
    out[8] = u32(((a >> ((a >> u32(28)) + u32(4))) ^ a) * u32(277803737))
    out[9] = u32((a << (c & 31)) + (b >> (d & 31)))
    out[10] = u32((a >> (d & 63)) + (b << (d & 63)))


def test_what_is_computed_is_the_same() -> None:
    artifact = compile_ptx(mixed, "uint32, int32, int64, uint8, uint32[::1]")
    grid, out = SimulatedGrid(artifact), np.zeros(11, np.uint32)

    def cut(value: int) -> int:
        return value % 2**32

    def cut_signed(value: int) -> int:
        return (value + 2**31) % 2**32 - 2**31

    oracle = FunctionType(mixed.__code__, {"u32": cut, "i32": cut_signed, "range": range})
    for a in _SMALL:
        for b in _SIGNED:
            for c in _LONG:
                values = (a, b, c, (a + b) % 256)
                expected = [0] * 11
                oracle(*values, expected)
                grid.run((1, 1, 1), (1, 1, 1), (*values, out.ctypes.data, out.size))
                assert out.tolist() == [cut(each) for each in expected], values


def test_a_state_of_32_bits_stays_so_from_one_iteration_to_the_next() -> None:
    """Golden: LLVM widened the variable, so products had 64 bits."""
    body = body_of(compile_ptx(drawn, "float32[::1], int64"))
    loops = re.findall(r"^(\$L\w+):(.*?)bra(?:\.uni)?\s+\1;", body, re.M | re.S)
    assert loops
    assert all("mul.lo.s64" not in loop and "mad.lo.s64" not in loop for _, loop in loops)
    assert "mad.lo.s32" in body


def test_shifts_by_counts_below_32_have_32_bits() -> None:
    """Golden: a product of 64 bits takes three instructions, a shift two."""
    body = body_of(compile_ptx(drawn, "float32[::1], int64"))
    assert "shr.u64" not in body
    assert "mul.lo.s64" not in body
    assert "mad.wide" not in body
