"""An augmented assignment of a row, which the analysis takes for an element, is refused."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd

PLACE = (1, 2)


@kd.func
def add_to(x, i):
    row = x[i]
    row += 1


@kd.func
def same(i):
    return i


@kd.kernel
def by_a_parameter(x, i):
    row = x[i]
    row += 1


@kd.kernel
def by_a_variable(x, i):
    j = i
    row = x[j]
    row += 1


@kd.kernel
def by_a_swap(x, i):
    j = 0
    i, j = j, i
    row = x[j]
    row += 1


@kd.kernel
def by_a_conversion(x, i):
    j = np.int32(int(i))
    row = x[j]
    row += 1


@kd.kernel
def by_a_size(x, i):
    row = x[x.ndim]
    row += 1


@kd.kernel
def in_a_function(x, i):
    add_to(x, i)


@kd.kernel
def by_a_result(x, i):
    row = x[same(i)]
    row += 1


@kd.kernel
def by_a_constant(x, i):
    value = x[PLACE]
    value += 1
    place = PLACE
    value = x[place]
    value += 1


@kd.kernel
def by_a_place(x, i):
    place = kd.grid(2)
    value = x[place]
    value += 1


@kd.kernel
def beside_an_element(x, i):
    place = kd.grid(2)
    value = x[place]
    row = x[i]
    row += value


@kd.kernel
def by_two_tuples(x, i):
    first = kd.grid(2)
    value = x[first][PLACE]
    value += i


_KERNELS = [
    by_a_parameter,
    by_a_variable,
    by_a_swap,
    by_a_conversion,
    by_a_size,
    in_a_function,
    by_a_result,
]
each_kernel = pytest.mark.parametrize("kernel", _KERNELS, ids=lambda k: k.__name__)


@each_kernel
def test_a_row_is_refused(kernel: kd.Kernel) -> None:
    """Else nobody would know that the array is written."""
    with pytest.raises(kd.UnsupportedConstructError, match="changes a view of x in place"):
        kernel.cpu_source("int64[:, ::1], int64", block=(1,))


@each_kernel
def test_an_element_is_accepted(kernel: kd.Kernel) -> None:
    assert kernel.__name__ in kernel.cpu_source("int64[::1], int64", block=(1,))


@pytest.mark.parametrize("kernel", [by_a_variable, in_a_function, by_a_result])
def test_an_element_by_a_tuple_is_accepted(kernel: kd.Kernel) -> None:
    """The kinds of the arguments tell how many indices a parameter stands for."""
    assert kernel.__name__ in kernel.cpu_source("int64[:, ::1], (int64, int64)", block=(1,))
    with pytest.raises(kd.UnsupportedConstructError, match="gets 2 indices"):
        kernel.cpu_source("int64[:, :, ::1], (int64, int64)", block=(1,))


@pytest.mark.parametrize(
    ("kernel", "axes"),
    [(by_a_constant, 2), (by_a_place, 2), (by_two_tuples, 4)],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_other_tuples_count_for_their_elements(kernel: kd.Kernel, axes: int) -> None:
    array = f"int64[{':, ' * (axes - 1)}::1]"
    assert kernel.__name__ in kernel.cpu_source(f"{array}, int64", block=(1,))
    with pytest.raises(kd.UnsupportedConstructError, match=f"gets {axes} indices"):
        kernel.cpu_source(f"{array.replace('[', '[:, ')}, int64", block=(1,))


def test_a_row_beside_an_element_is_refused() -> None:
    with pytest.raises(kd.UnsupportedConstructError, match="gets 1 index"):
        beside_an_element.cpu_source("int64[:, ::1], int64", block=(1,))
