"""A chain that some block of a launch might not go through once is refused when it is compiled."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import BarrierDivergenceError, KernelTypingError, UnsupportedConstructError


@kd.kernel
def in_a_loop(state, out):
    for k in range(2):
        part = kd.chain.next(state)
        out[k] = part


@kd.kernel
def twice(state, out):
    part = kd.chain.next(state)
    out[part] = kd.chain.before(state, part, 1) + kd.chain.before(state, part, 2)


@kd.kernel
def without_a_part(state, out):
    out[kd.blockIdx.x] = kd.chain.before(state, kd.blockIdx.x, 1)


@kd.kernel
def not_in_the_first_part(state, out):
    part = kd.chain.next(state)
    if part > 0:
        out[part] = kd.chain.before(state, part, 1)


@kd.kernel
def not_in_every_block(state, out):
    if kd.blockIdx.x < 3:
        part = kd.chain.next(state)
        out[part] = kd.chain.before(state, part, 1)


@kd.kernel
def blocks_return(state, out):
    part = kd.chain.next(state)
    if part >= out.size:
        return
    out[part] = kd.chain.before(state, part, 1)


@kd.kernel
def threads_return(state, out):
    if kd.threadIdx.x > 3:
        return
    part = kd.chain.next(state)
    out[part] = kd.chain.before(state, part, 1)


@kd.kernel
def of_each_thread(state, out):
    part = kd.chain.next(state)
    out[part] = kd.chain.before(state, part, kd.threadIdx.x)


@kd.kernel
def only_counted(state, out):
    out[kd.blockIdx.x] = kd.chain.next(state)


@pytest.mark.parametrize(
    ("kernel", "error", "text"),
    [
        (only_counted, UnsupportedConstructError, "is given to kd.chain.next and not to"),
        (in_a_loop, UnsupportedConstructError, "kd.chain.next is in a loop"),
        (twice, UnsupportedConstructError, "called a second time with the state state"),
        (without_a_part, UnsupportedConstructError, "in front of kd.chain.next"),
        (not_in_the_first_part, UnsupportedConstructError, "the condition `part > 0`"),
        (not_in_every_block, UnsupportedConstructError, "`kd.blockIdx.x < 3` varies"),
        (blocks_return, UnsupportedConstructError, "`part >= out.size`"),
        (threads_return, UnsupportedConstructError, "`kd.threadIdx.x > 3` varies"),
        (of_each_thread, BarrierDivergenceError, "needs the same in every thread of the block"),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_refused(kernel: Any, error: type[Exception], text: str) -> None:
    state, out = np.zeros(12, np.int64), np.zeros(64)
    for target in ("cpu", "null"):
        with kd.use(target), pytest.raises(error, match=re.escape(text)):
            kernel[4, 32](state, out)


@kd.kernel
def plain(state, value, out):
    part = kd.chain.next(state)
    out[part] = kd.chain.before(state, part, value)


@kd.kernel
def without_initial(state, out):
    part = kd.chain.next(state)
    out[part] = kd.chain.before(state, part, 1.0, lambda a, b: max(a, b))


@pytest.mark.parametrize(
    "state",
    [np.zeros((4, 3), np.int64), np.zeros(12, np.int32), np.zeros(24, np.int64)[::2]],
    ids=["two axes", "32 bits", "strided"],
)
@pytest.mark.parametrize("target", ["cpu", "null"])
def test_a_state_is_a_row_of_words(state: np.ndarray, target: str) -> None:
    with kd.use(target), pytest.raises(KernelTypingError, match="state must be a contiguous array"):
        plain[4, 32](state, 1.0, np.zeros(4))


@pytest.mark.parametrize("target", ["cpu", "null"])
def test_typing(target: str) -> None:
    state, out = np.zeros(12, np.int64), np.zeros(4)
    with kd.use(target):
        with pytest.raises(KernelTypingError, match="value must be one of"):
            plain[4, 32](state, 1j, out)
        with pytest.raises(KernelTypingError, match="give initial"):
            without_initial[4, 32](state, out)
