"""What ``copy.copy``, ``copy.deepcopy`` and ``pickle`` make of arrays, streams, pools, launches."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.launched import null_in_use

COPIERS = [
    kd.DeviceArray.copy,
    copy.copy,
    copy.deepcopy,
    lambda value: pickle.loads(pickle.dumps(value)),  # noqa: S301
]
IDS = ["method", "copy", "deepcopy", "pickle"]


@kd.kernel
def double(x):
    i = kd.grid(1)
    x[i] = x[i] * 2


@pytest.fixture(params=["cpu", "null"])
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "null":
        with null_in_use():
            yield "null"
    else:
        with kd.use("cpu"):
            yield "cpu"


# -- arrays -----------------------------------------------------------------------------------


def whole() -> kd.DeviceArray:
    return kd.to_device(np.arange(24.0).reshape(4, 6))


def arrays() -> list[kd.DeviceArray]:
    return [
        whole(),
        whole()[::2, 1:5],
        whole().T,
        whole().as_read_only(),
        kd.to_device(np.float32(3)),
        kd.empty((0, 3)),
        kd.managed_empty(5),
    ]


@pytest.mark.parametrize("copier", COPIERS, ids=IDS)
def test_arrays_are_copied_with_their_elements(copier: Callable[[Any], Any], place: str) -> None:
    for array in arrays():
        expected = array.copy_to_host()
        made = copier(array)
        assert (made.shape, made.dtype, made.device) == (array.shape, array.dtype, array.device)
        assert not made.is_read_only
        array.close()
        noise = [kd.full(array.shape, 9, array.dtype) for _ in range(5)]
        np.testing.assert_array_equal(made.copy_to_host(), expected)  # memory may hold a NaN
        made.fill(1)
        del noise


@pytest.mark.parametrize("copier", COPIERS, ids=IDS)
def test_closed_arrays_are_not_copied(copier: Callable[[Any], Any], place: str) -> None:
    array = kd.to_device(np.arange(3.0))
    array.close()
    with pytest.raises(kd.ClosedResourceError):
        copier(array)


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
def test_copies_have_the_layouts_of_numpy(order: str, place: str) -> None:
    for array in (whole(), whole().T, whole()[::2, 1:5]):
        theirs = array.copy_to_host().copy(order)
        made = array.copy(order)
        assert made.strides == theirs.strides
        np.testing.assert_array_equal(made.copy_to_host(), theirs)
    with pytest.raises(kd.ArgumentValueError, match="order is 'X'"):
        whole().copy("X")


@pytest.mark.parametrize("copier", COPIERS[1:], ids=IDS[1:])
def test_page_locked_arrays_are_copied_as_those_of_numpy(
    copier: Callable[[Any], Any], place: str
) -> None:
    array = kd.pinned_empty(8)
    array[:] = np.arange(8.0)
    made = copier(array)
    del array
    gc.collect()
    noise = [kd.pinned_empty(8) for _ in range(5)]
    for each in noise:
        each[:] = 9
    assert np.array_equal(made, np.arange(8.0))


def test_arrays_that_are_one_stay_one_in_a_deep_copy(place: str) -> None:
    array = kd.to_device(np.arange(3.0))
    first, second = copy.deepcopy([array, array])
    assert first is second
    assert first is not array


# -- what is one of a kind ---------------------------------------------------------------------


def recorded() -> kd.Graph:
    array, stream = kd.zeros(3), kd.Stream()
    with stream.capture() as graph:
        array.fill(2)
    return graph


RESOURCES: dict[str, Callable[[], Any]] = {
    "stream": kd.Stream,
    "default stream": kd.default_stream,
    "event": kd.Event,
    "stream pool": lambda: kd.StreamPool(2),
    "memory pool": kd.MemoryPool,
    "default pool": kd.MemoryPool.default,
    "graph": recorded,
    "launch": lambda: double[1, 1],
    "launch over an extent": lambda: double.forall(3),
    "bound launch": lambda: double.forall(3).bind(kd.zeros(3)),
}


@pytest.mark.parametrize("name", RESOURCES)
def test_copies_are_the_object_itself(name: str, place: str) -> None:
    resource = RESOURCES[name]()
    assert copy.copy(resource) is resource
    if name not in ("graph", "bound launch"):
        assert copy.deepcopy([resource])[0] is resource
    if hasattr(resource, "close") and "default" not in name:
        resource.close()
        assert copy.copy(resource) is resource  # as closed as it is


@pytest.mark.parametrize("name", RESOURCES)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_they_do_not_travel(name: str, protocol: int, place: str) -> None:
    with pytest.raises(
        TypeError, match=r"cannot be pickled\. It belongs to this process\. .* there\."
    ):
        pickle.dumps(RESOURCES[name](), protocol)


def test_a_graph_is_not_copied_deeply(place: str) -> None:
    with pytest.raises(kd.ArgumentTypeError, match="arrays that were captured"):
        copy.deepcopy(recorded())


def test_a_bound_launch_is_copied_deeply_with_its_arrays() -> None:
    with kd.use("cpu"):
        array = kd.to_device(np.arange(3.0))
        bound = double.forall(3).bind(array)
        others, other = copy.deepcopy((array, bound))
        other()
        assert array.copy_to_host().tolist() == [0, 1, 2]
        assert others.copy_to_host().tolist() == [0, 2, 4]


def test_kernels_and_device_functions_are_copied_as_functions_are() -> None:
    secret = object()  # which cannot be pickled with its meaning

    @kd.func
    def same(x):
        return x

    @kd.kernel
    def local(x):
        x[0] = same(x[1])

    @kd.kernel(space=kd.Space(block=[32, 64]))
    def spaced(x):
        x[kd.grid(1)] = 1

    for function in (same, local, spaced, double):
        assert copy.copy(function) is function
        assert copy.deepcopy([function, secret])[0] is function
