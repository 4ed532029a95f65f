"""Compile-time parameters that a launch gives."""

from __future__ import annotations

import enum
import pickle

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    LaunchConfigError,
    UnsupportedConstructError,
)
from kerneldsl.frontend.fingerprint import fingerprint
from kerneldsl.frontend.normalize import make_unit
from tests.support.native import is_native, require_native, warm_up


@kd.kernel
def scale(x, *, factor, shift=0):
    i = kd.grid(1)
    if i < x.size:
        x[i] = x[i] * factor + shift


class Level(enum.IntEnum):
    HIGH = 7


def run(kernel, start=1.0, **values) -> float:
    x = np.full(5, start)
    with kd.use("cpu"):
        kernel.forall(5)(x, **values)
    assert (x == x[0]).all()
    return float(x[0])


def _fresh():
    @kd.kernel
    def fresh(x, *, factor, shift=0):
        x[kd.grid(1)] = x[kd.grid(1)] * factor + shift

    return fresh


def test_each_value_is_a_specialization_once():
    kernel = _fresh()
    assert [run(kernel, factor=f) for f in (2, 3, 2, 3)] == [2, 3, 2, 3]
    assert len(kernel.specializations) == 2
    assert run(kernel, factor=2, shift=5) == 7
    assert len(kernel.specializations) == 3
    assert "compiled 3 times" in repr(kernel)


def test_packed_numbers_are_values():
    @kd.kernel
    def unpacked(words, out, *, numbers):
        i = kd.grid(1)
        if i < out.size:
            out[i] = kd.packed(words, numbers)[i]

    words, out = np.array([0x98], np.uint8), np.empty(2, np.int8)
    with kd.use("cpu"):
        for numbers in (kd.int4, kd.uint4, kd.int4):
            unpacked.forall(2)(words, out, numbers=numbers)
            assert np.array_equal(out, numbers.unpack(words))
    assert len(unpacked.specializations) == 2


@pytest.mark.parametrize(
    "values",
    [
        (1, 1.0, True, np.int8(1), np.float32(1), 1 + 0j),
        (0.0, -0.0, 0, False, np.float64(-0.0)),
        (float("nan"), np.frombuffer(b"\x01\0\0\0\0\0\xf8\x7f", np.float64)[0]),
    ],
)
def test_values_that_compare_equal_are_told_apart(values):
    kernel = _fresh()
    members = [kernel.member(factor=value) for value in values]
    assert len({id(member) for member in members}) == len(values)
    assert [kernel.member(factor=value) for value in values] == members


def test_signed_zeros_are_compiled_apart():
    @kd.kernel
    def store(x, *, value):
        x[kd.grid(1)] = value

    found = []
    for value in (0.0, -0.0):
        x = np.ones(1)
        with kd.use("cpu"):
            store.forall(1)(x, value=value)
        found.append(bool(np.signbit(x[0])))
    assert found == [False, True]


def test_grid_and_block_and_names_of_arguments():
    x = np.ones(5)
    with kd.use("cpu"):
        scale[1, 8](factor=4, x=x)
        scale[1, 8](x, shift=1, factor=Level.HIGH)
    assert x.tolist() == [29.0] * 5


def test_a_member_is_a_kernel():
    member = scale.member(factor=3)
    assert scale.member(factor=3) is member
    assert scale.member(factor=3, shift=0) is member
    assert run(member) == 3
    assert "mul" in member.ptx("float64[::1]", arch="sm_90")
    with pytest.raises(ArgumentTypeError, match="that it does not have"):
        run(member, factor=4)
    with pytest.raises(ArgumentTypeError, match=r"beforehand: \.member\(factor=…\)\.ptx\(…\)"):
        scale.ptx("float64[::1]", factor=3, arch="sm_90")


def test_a_launch_is_prepared_planned_and_timed():
    x = np.ones(5)
    with kd.use("cpu"):
        bound = scale.forall(5).bind(x, factor=2)
        bound()
        bound()
        assert scale.forall(5).time(x, factor=1, samples=1).median_ns > 0
    assert x.tolist() == [4.0] * 5
    plan = scale.forall(1000).plan("float64[::1]", arch="sm_90", factor=2)
    assert plan.extent == (1000,)
    best = scale.forall(1000).plans("float64[::1]", arch="sm_90", factor=2)[0]
    assert best.block_dim == plan.block_dim


def test_a_repeated_launch_is_native():
    require_native()
    x = np.ones(5)
    with kd.use("cpu"):
        member = scale.member(factor=1).forall(5)
        warm_up(member, x)
        with is_native(member):
            member(x)


def test_all_defaults_need_no_values():
    @kd.kernel
    def default(x, *, factor=6):
        x[kd.grid(1)] *= factor

    assert run(default) == 6
    assert "define" in default.llvm("float64[::1]")


def test_two_kernels_travel():
    sent = pickle.loads(pickle.dumps(_fresh()))  # noqa: S301 -- its own bytes
    assert run(sent, factor=3) == 3
    member = pickle.loads(pickle.dumps(_fresh().member(factor=9, shift=1)))  # noqa: S301
    assert run(member) == 10
    assert pickle.loads(pickle.dumps(scale)) is scale  # noqa: S301


def _identity(**constants) -> str:
    unit = make_unit(scale.function, constants={"factor": 1, "shift": 0} | constants)
    return fingerprint(unit)


def test_values_are_part_of_the_key_of_the_disk_cache():
    """Also of those that Python finds equal, and of dtypes and functions."""
    values = (1, 1.0, True, np.int8(1), 0.0, -0.0, (1,), (1.0,), "1", np.float32, kd.bfloat16)
    assert len({_identity(factor=value) for value in values}) == len(values)
    assert _identity(factor=3) == _identity(factor=3)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({}, ArgumentTypeError, "'factor' has no value"),
        ({"factor": [1]}, ArgumentTypeError, "was given a list"),
        ({"factor": np.ones(2)}, ArgumentTypeError, "was given an array"),
        ({"factor": {1: 2}}, ArgumentTypeError, "was given a dict"),
        ({"factor": (1, [2])}, ArgumentTypeError, "was given a list"),
        ({"factor": object()}, ArgumentTypeError, "of type object"),
        ({"factor": 2**64}, ArgumentValueError, "does not fit a 64-bit signed integer"),
        ({"factor": 1, "missing": 2}, ArgumentTypeError, "'missing' that it does not have"),
        ({"factor": 1, "missing": 2}, ArgumentTypeError, r"\(x\), and by name factor, shift"),
        ({"factor": 1, "shfit": 2}, ArgumentTypeError, "Write shift=…"),
        ({"facto": 1}, ArgumentTypeError, "'facto' that it does not have.* Write factor=…"),
    ],
)
def test_refusals(values, error, message: str):
    with pytest.raises(error, match=message) as caught:
        scale.forall(5)(np.ones(5), **values)
    assert caught.value.limit or caught.value.remedy


def test_what_needs_the_values_says_so():
    with pytest.raises(ArgumentTypeError, match=r"scale\.member\(factor=…\)"):
        scale.ptx("float64[::1]", arch="sm_90")
    with pytest.raises(ArgumentTypeError, match="member was given 'other'"):
        scale.member(other=2)
    with pytest.raises(ArgumentTypeError, match="Write factor=…"):
        scale.member(factr=2)
    with pytest.raises(LaunchConfigError):
        scale(np.ones(2), factor=2)


def test_assignment_and_shapes_are_checked_at_their_place():
    @kd.kernel
    def assigns(x, *, n):
        n += 1
        x[0] = n

    @kd.kernel
    def shaped(x, *, n):
        x[0] = kd.local.array(n, kd.float32)[0]

    with pytest.raises(UnsupportedConstructError, match="compile-time parameter") as caught:
        assigns.forall(1)(np.ones(1), n=1)
    assert caught.value.where.line.strip() == "n += 1"
    with pytest.raises(UnsupportedConstructError, match=r"shape is 2\.5") as caught:
        shaped.forall(1)(np.ones(1), n=2.5)
    assert "kd.local.array(n" in caught.value.where.line


class Other(enum.IntEnum):
    HIGH = 7


@kd.kernel
def identities(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] = 10 * (Level.HIGH is Other.HIGH) + (Level.HIGH is not Other.HIGH)
        if Level.HIGH is Level.HIGH and Level.HIGH == Other.HIGH:
            x[i] += 100


def test_members_of_two_enumerations_are_equal_and_not_the_same():
    assert run(identities) == 101
