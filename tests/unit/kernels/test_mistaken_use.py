"""What is misspelled, or used where it means nothing, is told with what to write."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl import (
    ArgumentTypeError,
    ArgumentValueError,
    KernelTypingError,
    OutsideKernelError,
    UnsupportedConstructError,
)
from kerneldsl.launch.native import machine


@pytest.mark.parametrize(
    "compute",
    [
        lambda: kd.threadIdx.x + 1,
        lambda: 1 + kd.blockIdx.x,
        lambda: kd.laneid * 2 < 4,
        lambda: kd.threadIdx.y < 1,
        lambda: -kd.blockDim.x,
        lambda: list(range(kd.gridDim.x)),
        lambda: [1, 2][kd.threadIdx.x],
        lambda: int(kd.threadIdx.x),
        lambda: operator.and_(kd.laneid, 1),
    ],
)
def test_coordinates_have_no_value_on_the_host(compute) -> None:
    with pytest.raises(OutsideKernelError, match=r"was used outside a kernel.*Read it in a kernel"):
        compute()


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("debugg", "Write debug=…"), ("fast_math", "Write fastmath=…"), ("xyz", "Leave it out")],
)
def test_unknown_options_of_kernels(name: str, remedy: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        kd.kernel(**{name: True})
    message = str(caught.value)
    assert f"kd.kernel was given the option {name!r}" in message
    assert "The options are signature, fastmath, contract, debug, lineinfo," in message
    assert message.endswith(f"{remedy}.")


@kd.kernel
def fill(x):
    x[kd.grid(1)] = 1


@pytest.mark.parametrize("is_native", [False, True])
@pytest.mark.parametrize(
    ("name", "remedy"),
    [("blocks", "Write block=…"), ("shared_byte", "Write shared_bytes=…"), ("xyz", "Leave it out")],
)
def test_unknown_options_of_forall(name: str, remedy: str, is_native: bool) -> None:
    if is_native:
        machine.install()
    with pytest.raises(ArgumentTypeError) as caught:
        fill.forall(64, **{name: 1})
    message = str(caught.value)
    assert f"fill.forall was given the option {name!r}" in message
    assert "The options are block, stream, shared_bytes, plan, cluster, cooperative." in message
    assert message.endswith(f"{remedy}.")


@pytest.mark.parametrize("is_native", [False, True])
def test_a_prepared_launch_takes_no_arguments(is_native: bool) -> None:
    x = np.zeros(64)
    with kd.use("cpu"):
        bound = fill.forall(64).bind(x)
        for _ in range(40 if is_native else 0):
            bound()
        x[:] = 0
        for call, words in (
            (lambda: bound(1), r"was called with \(1\)"),
            (lambda: bound(x=x), r"was called with \(x=ndarray"),
            (lambda: bound(1, n=2), r"was called with \(1, n=2\)"),
        ):
            with pytest.raises(ArgumentTypeError, match=words) as caught:
                call()
            assert "<prepared launch of fill over (64,)>" in str(caught.value)
            assert "Write bound()" in str(caught.value)
    assert not x.any()


def test_a_space_without_blocks() -> None:
    with pytest.raises(ArgumentValueError, match=r"the space has no block.*kd\.Space\(block=\["):
        kd.Space(tile=[1, 2])


@pytest.mark.parametrize("target", ["cpu", "null"])
@pytest.mark.parametrize(("name", "remedy"), [("sumx", "Write t.sum"), ("foo", "Write one of")])
def test_unknown_methods_of_tiles(target: str, name: str, remedy: str) -> None:
    def misspelled(x, out):
        t = kd.tile.load(x, 0, 32)
        out[0] = t.sumx()

    def unlike(x, out):
        t = kd.tile.load(x, 0, 32)
        out[0] = t.foo()

    kernel = kd.kernel(misspelled if name == "sumx" else unlike)
    with kd.use(target), pytest.raises(UnsupportedConstructError) as caught:
        kernel[1, 32](np.zeros(32), np.zeros(1))
    message = str(caught.value)
    assert f"the tile t has no {name!r}" in message
    assert "A tile has T, all, any, argmax, argmin, argsort," in message
    assert remedy in message


@kd.kernel
def first(x, out):
    out[0] = x[0]


@kd.kernel
def scalar(x, out):
    out[()] = x[()] + 1


@pytest.mark.parametrize("target", ["cpu", "null"])
def test_an_array_without_an_axis(target: str) -> None:
    with kd.use(target), pytest.raises(KernelTypingError) as caught:
        first[1, 1](np.array(2.5), np.zeros(1))
    assert "an array without an axis is indexed by a number" in str(caught.value)
    assert "Read and write it as a[()], or pass it with an axis" in str(caught.value)
    assert str(caught.value).endswith("out[0] = x[0]\n               ^^^^")


def test_an_array_without_an_axis_is_read_and_written() -> None:
    out = np.array(0.0)
    with kd.use("cpu"):
        scalar[1, 1](np.array(2.5), out)
    assert out == 3.5
