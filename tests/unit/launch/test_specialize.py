"""What is refused when a kernel is specialized, and what its code relies on."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import ONE_EACH
from kerneldsl.launch.recorded import recording
from kerneldsl.launch.specialize import useful_promises


@kd.func
def raise_in_place(value):
    value += 1.0
    return value


@kd.kernel
def row_in_place(x, out):
    row = x[kd.grid(1)]
    row += 1.0
    out[0] = 0.0


@kd.kernel
def row_in_function(x, out):
    out[0] = 0.0
    raise_in_place(x[kd.grid(1)])


@kd.kernel
def element_by_tuple(x, out):
    place = kd.grid(2)
    value = x[place]
    value += 1.0
    out[place] = raise_in_place(value)


@pytest.mark.parametrize("kernel", [row_in_place, row_in_function])
def test_a_row_that_is_changed_in_place_without_being_indexed_is_refused(kernel):
    with kd.use("cpu"), pytest.raises(kd.UnsupportedConstructError, match="a view of x in place"):
        kernel.forall(2)(np.zeros((2, 3)), np.zeros(3))
    with kd.use("cpu"):
        kernel.forall(2)(np.zeros(2), np.zeros(3))


def test_an_element_that_a_tuple_indexes_is_no_view():
    out = np.zeros((2, 3))
    with kd.use("cpu"):
        element_by_tuple.forall(2, 3)(np.zeros((2, 3)), out)
    assert (out == 2).all()


@kd.func
def at(x, place):
    return x[place]


@kd.kernel
def element_by_function(x, out):
    i = kd.grid(1)
    value = at(x, (i, 2))
    value += 2
    out[i] = value


def test_an_element_that_a_function_indexes_by_a_tuple_is_no_view():
    x, out = np.arange(64.0).reshape(8, 8), np.zeros(8)
    with kd.use("cpu"):
        element_by_function.forall(8)(x, out)
    assert (out == x[:, 2] + 2).all()


@kd.kernel
def doubled(x, out):
    i = kd.grid(1)
    if i < x.shape[0]:
        out[i] = 2 * x[i, 0]


@kd.kernel
def doubled_in_blocks(x, out):
    i = kd.grid(1)
    kd.syncthreads()
    if i < x.shape[0]:
        out[i] = 2 * x[i, 0]


@pytest.mark.parametrize("kernel", [doubled, doubled_in_blocks])
@pytest.mark.parametrize("rows", [100, 101])
@pytest.mark.parametrize("is_shipped", [False, True])
def test_code_for_one_element_a_thread_relies_on_lengths_that_it_tests(kernel, rows, is_shipped):
    """A block kernel tests no extent; code that is shipped has one form for all lengths."""
    shape = kernel.forall(100, block=32)._shape
    state = kernel._dispatcher.state()
    with recording() if is_shipped else nullcontext():
        request = kernel._dispatcher.request(
            shape, (np.zeros((rows, 3)), np.zeros(100)), None, "sm_90"
        )
        number = state.promises.number_of(request.binding, shape.extent, shape.threads)
        found = useful_promises(request.with_promises(number), ONE_EACH)
    is_tested = kernel is doubled and not is_shipped
    lengths = [found.array(number).is_extent for number in (0, 1)]
    assert lengths == [rows == 100 and is_tested, is_tested]
