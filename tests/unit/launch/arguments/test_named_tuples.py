"""Named tuples as arguments: kinds, signatures, messages, and launches that are repeated."""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.language.kinds import ScalarKind, TupleKind, format_signature
from kerneldsl.language.signatures import parse_signature
from kerneldsl.launch.arguments.arguments import READERS, find_reader
from kerneldsl.launch.arguments.binding import Binding, kinds_of

Params = namedtuple("Params", ["scale", "n"])


class Other(NamedTuple):
    """Members of the same types in another order."""

    n: int
    scale: float


def _kind(value):
    reader = READERS.get(type(value)) or find_reader(value)
    return kinds_of((reader(value, Binding()),))[0]


def test_names_are_part_of_the_kind() -> None:
    found = _kind(Params(2.0, 3))
    assert found == TupleKind((ScalarKind("float64"), ScalarKind("int64")), ("scale", "n"))
    assert found != _kind((2.0, 3))
    assert _kind(Other(3, 2.0)).names == ("n", "scale")
    assert str(found) == "{scale: float64, n: int64}"


@pytest.mark.parametrize(
    "text",
    ["{scale: float64, n: int64}", "{inner: {x: float32[::1]}, pair: (int8, bool)}, uint8"],
)
def test_kinds_are_written_and_read(text: str) -> None:
    assert format_signature(parse_signature(text)) == text


@kd.kernel
def scaled(params, out):
    i = kd.grid(1)
    if i < params.n:
        out[i] = params.scale * i


def test_classes_with_other_names_are_other_code() -> None:
    with kd.use("cpu"):
        for params in (Params(2.0, 3), Other(3, 2.0), Params(4.0, 2), Other(2, 4.0)):
            for _ in range(3):  # the later ones by native code
                out = np.full(4, -1.0)
                scaled[1, 4](params, out)
                expected = [params.scale * i if i < params.n else -1 for i in range(4)]
                assert out.tolist() == expected


def test_a_member_that_no_kernel_takes_is_named() -> None:
    with kd.use("cpu"), pytest.raises(kd.ArgumentTypeError, match=r"params.*\.n"):
        scaled[1, 4](Params(1.0, "three"), np.zeros(4))


def test_a_member_that_there_is_not() -> None:
    @kd.kernel
    def kernel(params, out):
        out[0] = params.missing

    with kd.use("cpu"), pytest.raises(kd.KernelTypingError, match="has no attribute 'missing'"):
        kernel[1, 1](Params(1.0, 2), np.zeros(4))
