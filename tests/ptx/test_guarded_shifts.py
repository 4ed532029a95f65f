"""The test of a shift's count is in PTX, whose instructions read 32 bits of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from targets.cuda.compile.ptxas_workarounds import keep_guards
from tests.ptx.helpers import body_of, compile_ptx
from tests.support.ptx_machine import run_thread


def _written(x: Any, n: Any, out: Any) -> None:
    out[0] = x << n if n < 64 else 0


def _written_inverse(x: Any, n: Any, out: Any) -> None:
    out[0] = 0 if n > 63 else x >> n


def _twice(x: Any, n: Any, out: Any) -> None:
    out[0] = (x >> n) << n


def _in_a_loop(x: Any, n: Any, out: Any) -> None:
    for _ in range(3):
        x = x >> n
    out[0] = x


def _of_32_bits(x: Any, n: Any, out: Any) -> None:
    out[0] = np.left_shift(np.uint32(x), np.uint32(n)) if n < 32 else 0


#: Shifts whose test has a constant 0, and what is right.
_KERNELS: dict[Callable[..., None], Callable[[int, int], int]] = {
    _written: lambda x, n: x << n if n < 64 else 0,
    _written_inverse: lambda x, n: x >> n,
    _twice: lambda x, n: x >> n << n if n < 64 else 0,
    _in_a_loop: lambda x, n: x >> min(3 * n, 64),
    _of_32_bits: lambda x, n: (x << n) % 2**32 if n < 32 else 0,
}


@pytest.mark.parametrize("kernel", _KERNELS)
def test_all_bits_of_a_count_are_tested(kernel: Callable[..., None]) -> None:
    ptx = compile_ptx(kernel, "uint64, uint64, uint64[::1]").ptx
    special = dict.fromkeys(re.findall(r"%(?:n?tid|n?ctaid)\.\w", ptx), 0)
    x = 2**64 - 5
    for n in (0, 3, 31, 32, 63, 64, 2**32 - 1, 2**32, 2**32 + 3, 2**63, 2**64 - 1):
        (store,) = run_thread(ptx, [x, n, 4096, 1], special)
        assert store[2][0] % 2**64 == _KERNELS[kernel](x, n) % 2**64, n


def test_a_chain_of_shifts_is_tested_once() -> None:
    body = body_of(compile_ptx(_in_a_loop, "uint64, uint64, uint64[::1]"))
    assert body.count("shr.u64") == 3
    assert body.count("selp") == 1


def test_a_count_of_fewer_bits_needs_no_test() -> None:
    def shifted(x, n, out):
        i = kd.grid(1)
        out[i] = x >> n if n < 64 else 0

    body = body_of(compile_ptx(shifted, "uint64, uint32, uint64[::1]"))
    assert "setp" not in body


_TEXT = """\
define void @kernel(i64 %x, i64 %n, i32 %m) {
  %wide = zext nneg i32 %m to i64
  %0 = shl i64 %x, COUNT
  %less = icmp ult i64 COUNT, 64
  %1 = select i1 %less, i64 ARMS, !dbg !3
}
"""


@pytest.mark.parametrize(
    ("arms", "hidden"), [("%0, i64 0", "%0, i64 %{}"), ("0, i64 %0", "%{}, i64 %0")]
)
def test_the_zero_is_hidden(arms: str, hidden: str) -> None:
    text = _TEXT.replace("ARMS", arms)
    kept = keep_guards(text.replace("COUNT", "%n")).splitlines()
    assert kept[4] == '  %"1.zero" = call i64 asm "mov.b64 $0, 0;", "=l"()'
    assert kept[5] == f"  %1 = select i1 %less, i64 {hidden}, !dbg !3".format('"1.zero"')
    for count in ("%wide", "7"):
        unguarded = text.replace("COUNT", count)
        assert keep_guards(unguarded) == unguarded
