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


@kd.kernel
def published_twice(state, out):
    part = kd.chain.next(state)
    kd.chain.publish(state, part, 1)
    kd.chain.publish(state, part, 1)
    out[part] = kd.chain.before(state, part, 1)


@kd.kernel
def published_too_late(state, out):
    part = kd.chain.next(state)
    out[part] = kd.chain.before(state, part, 1)
    kd.chain.publish(state, part, 1)


@kd.kernel
def published_without_a_part(state, out):
    kd.chain.publish(state, kd.blockIdx.x, 1)
    part = kd.chain.next(state)
    out[part] = kd.chain.before(state, part, 1)


@kd.kernel
def published_between_parts(state, out, other):
    part = kd.chain.next(state)
    kd.chain.publish(state, part, 1)
    out[kd.chain.next(other)] = kd.chain.before(state, part, 1)


@kd.kernel
def published_alone(state, out, other):
    part = kd.chain.next(state)
    kd.chain.publish(other, part, 1)
    out[part] = kd.chain.before(state, part, 1)


@kd.kernel
def published_in_a_loop(state, out):
    part = kd.chain.next(state)
    for _ in range(1):
        kd.chain.publish(state, part, 1)
    out[part] = kd.chain.before(state, part, 1)


@kd.kernel
def published_in_some_parts(state, out):
    part = kd.chain.next(state)
    if part < 2:
        kd.chain.publish(state, part, 1)
    out[part] = kd.chain.before(state, part, 1)


@kd.kernel
def published_by_each_thread(state, out):
    part = kd.chain.next(state)
    kd.chain.publish(state, part, kd.threadIdx.x)
    out[part] = kd.chain.before(state, part, 1)


@kd.kernel
def published_with_an_op(state, out):
    part = kd.chain.next(state)
    kd.chain.publish(state, part, 1, lambda a, b: max(a, b))
    out[part] = kd.chain.before(state, part, 1)


@kd.kernel
def published_without_an_op(state, out):
    part = kd.chain.next(state)
    kd.chain.publish(state, part, 1)
    out[part] = kd.chain.before(state, part, 1, lambda a, b: max(a, b), 0)


@kd.kernel
def published_as_another_dtype(state, out):
    part = kd.chain.next(state)
    kd.chain.publish(state, part, kd.float32(1))
    out[part] = kd.chain.before(state, part, 1)


@kd.func
def publish_float(state, part):
    kd.chain.publish(state, part, 1.0)


@kd.kernel
def published_as_another_dtype_elsewhere(state, out):
    part = kd.chain.next(state)
    held = state
    publish_float(held, part)
    out[part] = kd.chain.before(state, part, 1)


@pytest.mark.parametrize(
    ("kernel", "error", "text"),
    [
        (published_twice, UnsupportedConstructError, "kd.chain.publish is called a second time"),
        (published_too_late, UnsupportedConstructError, "publish is called behind kd.chain.before"),
        (published_without_a_part, UnsupportedConstructError, "publish is called in front of"),
        (published_in_a_loop, UnsupportedConstructError, "kd.chain.publish is in a loop"),
        (published_in_some_parts, UnsupportedConstructError, "the condition `part < 2`"),
        (published_by_each_thread, BarrierDivergenceError, "needs the same in every thread"),
        (published_with_an_op, UnsupportedConstructError, "of one state differ in op"),
        (published_without_an_op, UnsupportedConstructError, "of one state differ in op"),
        (published_as_another_dtype, UnsupportedConstructError, "a value of float32, and kd.chain"),
        (
            published_as_another_dtype_elsewhere,
            UnsupportedConstructError,
            "kd.chain.publish has a value of float64, and kd.chain.before of int64",
        ),
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


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (published_between_parts, "kd.chain.next is called behind kd.chain.publish"),
        (published_alone, "other is given to kd.chain.publish and not to chain.before"),
    ],
)
def test_refused_of_two_states(kernel: Any, text: str) -> None:
    state, out = np.zeros(12, np.int64), np.zeros(64)
    for target in ("cpu", "null"):
        with kd.use(target), pytest.raises(UnsupportedConstructError, match=re.escape(text)):
            kernel[4, 32](state, out, np.zeros(12, np.int64))


@kd.func
def one_more(state, part, value):
    kd.chain.publish(state, part, value)
    return kd.chain.before(state, part, value)


@kd.kernel
def under_an_argument(state, out, is_early):
    part = kd.chain.next(state)
    if is_early:
        kd.chain.publish(state, part, out.dtype.type(2))
    out[part] = kd.chain.before(state, part, out.dtype.type(2))


@kd.kernel
def in_a_function(state, out, is_early):
    out[kd.blockIdx.x] = 0
    part = kd.chain.next(state)
    out[part] = one_more(state, part, 2)


@pytest.mark.parametrize("kernel", [under_an_argument, in_a_function])
@pytest.mark.parametrize("is_early", [False, True])
def test_accepted(kernel: Any, is_early: bool) -> None:
    state, out = np.zeros(12, np.int64), np.full(4, 77.0)
    with kd.use("cpu"):
        kernel[4, 1](state, out, is_early)
    np.testing.assert_array_equal(out, [0, 2, 4, 6])


@kd.kernel
def plain(state, value, out):
    part = kd.chain.next(state)
    out[part] = kd.chain.before(state, part, value)


@kd.kernel
def published(state, value, out):
    part = kd.chain.next(state)
    kd.chain.publish(state, part, value)
    out[part] = 1.0 + kd.chain.before(state, part, 1j)


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
        with pytest.raises(KernelTypingError, match="value must be one of"):
            published[4, 32](state, 1j, out)
        with pytest.raises(KernelTypingError, match="give initial"):
            without_initial[4, 32](state, out)
