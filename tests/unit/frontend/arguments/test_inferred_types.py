"""Types that are inferred without Numba are Numba's, or are not known."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import kerneldsl as kd
from kerneldsl.frontend.arguments.inferred_types import types_of_values
from kerneldsl.frontend.arguments.known_values import value_of_kind
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind, TupleKind
from kerneldsl.language.signatures import parse_signature
from kerneldsl.placement.registry import get_target
from tests.support.extent import IS_QUICK
from tests.support.gathered import gathered_kernels


def inferred_types(unit: FunctionUnit, kinds: Sequence[Kind]) -> dict[ast.expr, str]:
    """Return the element types of expressions that are known scalars."""
    found = types_of_values(unit, tuple(map(value_of_kind, kinds)))
    return {node: value for node, value in found.items() if isinstance(value, str)}


def check(name: str, typed: TypedUnit) -> tuple[int, int]:
    """Hold what is inferred of one function; return how many types are known, and how many not."""
    arguments = [a for a in typed.arguments if isinstance(a, ScalarKind | ArrayKind | TupleKind)]
    if len(arguments) < len(typed.arguments):
        return 0, 0  # a tuple or a literal that is passed to a device function is no kind
    inferred = inferred_types(typed.unit, arguments)
    known = unknown = 0
    for node in ast.walk(typed.unit.tree):
        expected = typed.type_of(node)
        if not isinstance(node, ast.expr) or expected is None:
            continue
        found = inferred.get(node)
        if found is not None:
            place = f"{name}: {typed.unit.name}, line {node.lineno}: {ast.unparse(node)}"
            assert found == str(expected), place
            known += 1
        elif isinstance(expected, ScalarKind):
            unknown += 1
    return known, unknown


def test_what_is_inferred_is_numbas_type() -> None:
    """Of the conformance kernels, generated programs and all that they call."""
    infer = get_target("cpu").compiler.typed_unit
    known = unknown = 0
    for name, gathered, kinds in gathered_kernels(150, quick=56):
        for unit in infer(gathered, tuple(kinds)).reachable():
            some, others = check(name, unit)
            known, unknown = known + some, unknown + others
    # 1.2 % of all; a few kernels of a quick run's sample may have most of its unknown types.
    assert unknown < known / (25 if IS_QUICK else 50), "most types are known"


def types_in(function: Callable[..., Any], signature: str) -> dict[str, str | None]:
    """Text of each expression that is assigned or stored to its inferred type."""
    unit, kinds = make_unit(function), parse_signature(signature)
    check(function.__name__, get_target("cpu").compiler.typed_unit(unit, kinds))
    inferred = inferred_types(unit, kinds)
    assigned = [n for n in ast.walk(unit.tree) if isinstance(n, ast.Assign)]
    return {ast.unparse(n.value): inferred.get(n.value) for n in assigned}


def test_a_variable_has_the_type_of_its_place() -> None:
    def kernel(x, out):
        v = 1
        out[0] = v
        v = x[0]
        for i in range(3):
            out[i] = v + 0
            v = v * 2.0
        out[1] = v

    assert types_in(kernel, "f4[::1], f8[::1]") == {
        "1": "int64",
        "v": "float64",  # the later of the two stores: joined with what the loop leaves
        "x[0]": "float32",
        "v + 0": "float64",
        "v * 2.0": "float64",
    }


FLAG = True


@pytest.mark.parametrize("other", ["float32", "float64"])
def test_what_numba_may_rule_out_is_not_known(other: str) -> None:
    """A captured constant rules a branch out, whose types no variable has."""

    def kernel(x, y, out):
        v = x[0]
        if not FLAG:
            v = y[0]
        out[0] = v
        out[1] = x[0] if FLAG else y[0]
        out[2] = x[1] if x[1] > 0 else y[0]

    found = types_in(kernel, f"f4[::1], {other}[::1], f8[::1]")
    expected = "float32" if other == "float32" else None
    assert found["v"] == expected
    assert found["x[0] if FLAG else y[0]"] == expected
    assert found["x[1] if x[1] > 0 else y[0]"] == other


def test_what_a_literal_rules_out_is_left_out() -> None:
    """Python compiles one way alone, so that variables of two types in it have a known one."""

    def kernel(x, y, out):
        v = x[0]
        if True:
            if x[1] > 0:
                v = y[0]
        else:
            v = 1j
        out[0] = v
        w = x[2]
        while True:
            w = y[1]
            if y[1] > 0:
                break
            w = y[2]
        out[1] = w + 0

    found = types_in(kernel, "u1[::1], i4[::1], i8[::1]")
    assert (found["v"], found["w + 0"]) == ("int32", "int64")


def test_a_rank_may_be_decided_too() -> None:
    def kernel(x, out):
        n = len(x.shape)
        v = 1
        if n == 2:
            v = 2.5
        out[0] = v

    assert types_in(kernel, "f4[::1], f8[::1]")["v"] is None


def test_literals_are_what_python_makes_of_them() -> None:
    def kernel(out):
        a = -9223372036854775808
        b = 2**-1
        c = 9223372036854775808
        d = (1, 2.0)[1]
        out[0] = a + b + c + d

    found = types_in(kernel, "f8[::1]")
    assert list(found.values()) == ["int64", "float64", "uint64", "float64", "float64"]


@kd.func
def twice(value, flag):
    if flag > 0:
        return value
    return value * 2


@kd.func
def sometimes(value):
    if value > 0:
        return value


def test_device_functions() -> None:
    def kernel(x, i, out):
        a = twice(x, i)
        b = twice(i, 1.0)
        out[0] = a + b

    found = types_in(kernel, "f4, i4, f8[::1]")
    assert found["twice(x, i)"] == "float64"
    assert found["twice(i, 1.0)"] == "int64"
    assert inferred_types(make_unit(sometimes, is_device=True), parse_signature("f4"))


def test_tuples_arrays_and_slices() -> None:
    def kernel(pair, x, out):
        a, b = pair
        row = x[1]
        c = row[0]
        d = x[1, 1:][0]
        e = pair[1]
        h, w = x.shape
        shared = kd.shared.array((2, 3), kd.int16)
        f = shared[1, 2]
        for v in row:
            out[1] = v
        out[0] = a + b + c + d + e + f + h + w

    found = types_in(kernel, "(i4, f8), f4[:, ::1], f8[::1]")
    assert found["row[0]"] == found["x[1, 1:][0]"] == found["v"] == "float32"
    assert (found["pair[1]"], found["shared[1, 2]"]) == ("float64", "int16")
    assert found["x[1]"] is None, "an array"


def test_what_is_looped_over_together() -> None:
    def kernel(x, n, out):
        for k, v in enumerate(x[0], 2):
            out[0] = k
            out[1] = v
        for w, (i, j), m in zip(x[1], ((1, n), (2, n)), range(n)):  # noqa: B905
            out[2] = w
            out[3] = i
            out[4] = j
            out[5] = m
        a, b = x[2]
        out[6] = a + b

    found = types_in(kernel, "f4[:, ::1], i4, f8[::1]")
    assert (found["k"], found["v"], found["w"]) == ("int64", "float32", "float32")
    assert (found["i"], found["j"], found["m"]) == ("int64", "int32", "int32")
    assert found["a + b"] == "float32"


def test_vectors() -> None:
    def kernel(x, y, n, out):
        xs = kd.view(x, kd.int16x4)
        v = xs[0] * n
        v -= kd.int16x4(1, n, 2, 3)
        w = -v + v // v
        out[0] = w.x
        out[1] = v[n]
        u = kd.view(y, kd.float32x2)[0] / 2
        out[2] = u.y

    found = types_in(kernel, "i2[::1], f4[::1], i8, f8[::1]")
    assert found["xs[0] * n"] == found["-v + v // v"] == "int16x4"
    assert found["w.x"] == found["v[n]"] == "int16"
    assert found["u.y"] == "float32"


def test_every_type_of_argument() -> None:
    def kernel(a, x, out):
        out[0] = a
        out[1] = x[0]

    for name in ELEMENT_TYPES:
        to = "c16" if ELEMENT_TYPES[name].is_complex else "f8"
        assert types_in(kernel, f"{name}, {name}[::1], {to}[::1]") == {"a": name, "x[0]": name}
