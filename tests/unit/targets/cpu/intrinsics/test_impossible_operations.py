"""Operations that have no result on the CPU: the launch raises, and no thread is lost unheard."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import KernelFault
from tests.support.extent import full_beyond


@kd.kernel
def beyond_a_tuple(x, out):
    i = kd.grid(1)
    values = (1, 2, 3)
    out[i] = values[i]


@kd.kernel
def nothing_as_a_number(x, out):
    i = kd.grid(1)
    value = None
    if i != 2:
        value = 3
    out[i] = value


@kd.kernel
def steps_of_zero(x, out):
    i = kd.grid(1)
    count = 0
    for _ in range(0, 5, i - 2):
        count += 1
    out[i] = count


@kd.kernel
def always_a_step_of_zero(x, out):
    i = kd.grid(1)
    for k in range(0, 5, 0):
        out[i] = k


@kd.kernel
def another_size(x, out):
    out[kd.grid(1)] = x.reshape(3, 2)[0, 0]


@kd.kernel
def too_few_names(x, out):
    first, second = x
    out[kd.grid(1)] = first + second


@kd.kernel
def behind_a_barrier(x, out):
    t = kd.threadIdx.x
    s = kd.shared.array(64, np.int64)
    s[t] = t
    kd.syncthreads()
    out[t] = (1, 2, 3)[s[63 - t]]


CASES = [
    (beyond_a_tuple, IndexError, "tuple index out of range"),
    (nothing_as_a_number, TypeError, "expected int64, got None"),
    (steps_of_zero, ValueError, "must not be zero"),
    (always_a_step_of_zero, ValueError, "must not be zero"),
    (another_size, ValueError, "total size of new array"),
    (too_few_names, ValueError, "too_few_names"),
    (behind_a_barrier, IndexError, "tuple index out of range"),
]
#: Indices that debug mode finds before they are used, and the tuples.
_CHECKED = {beyond_a_tuple: (3, "values"), behind_a_barrier: (63, "(1, 2, 3)")}
_LAUNCHES = [
    pytest.param(*case, debug, id=f"{case[0].__name__}-{debug}")
    for debug in (False, True)
    for case in CASES
]


@pytest.fixture(autouse=True)
def on_cpu():
    with kd.use("cpu"):
        yield


def launch(kernel: Any, count: int, *, debug: bool = False) -> np.ndarray:
    kernel = kd.kernel(debug=True)(kernel.__wrapped__) if debug else kernel
    out = np.full(count, 9.0)
    start = kernel[1, 64] if kernel.__name__.startswith("behind") else kernel.forall(count)
    start(np.arange(4.0), out)
    return out


@pytest.mark.parametrize(
    ("kernel", "kind", "text", "debug"),
    full_beyond(_LAUNCHES, _LAUNCHES[: len(CASES) + 1] + _LAUNCHES[-1:]),
)
def test_the_launch_raises(kernel: Any, kind: type[Exception], text: str, debug: bool) -> None:
    index, owner = _CHECKED.get(kernel, (0, "")) if debug else (0, "")
    if owner:
        text = re.escape(f"Index {index} is out of range for axis 0 of {owner} with extent 3")
    for _ in range(3):  # the first launch is not the native one
        with pytest.raises(kind, match=text) as caught:
            launch(kernel, 64, debug=debug)
        assert isinstance(caught.value, KernelFault)
        assert kernel.__name__ in str(caught.value)
        assert "Guard the " in str(caught.value)
        # Debug mode looks at an index before it is used, and knows whose it is.
        thread = (index % 63, 0, 0)
        assert caught.value.thread_idx == (thread if owner else None)


def test_a_launch_of_many_threads_raises() -> None:
    with pytest.raises(KernelFault, match="tuple index"):
        launch(beyond_a_tuple, 1 << 20)


def test_a_launch_after_one_that_raised_is_right() -> None:
    with pytest.raises(KernelFault):
        launch(beyond_a_tuple, 8)
    assert launch(beyond_a_tuple, 3).tolist() == [1, 2, 3]


def test_a_fault_of_debug_mode_comes_first() -> None:
    @kd.kernel(debug=True)
    def both(x, out):
        i = kd.grid(1)
        assert i != 1, "one"
        out[i] = (1, 2, 3)[i]

    with pytest.raises(AssertionError, match="one"):
        both.forall(3)(np.arange(4.0), np.zeros(3))
