"""Types of the normal form, for every kernel that the other tests run."""

from __future__ import annotations

import ast
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba import njit

import kerneldsl as kd
from kerneldsl.contract import Compiler
from kerneldsl.errors import ArgumentValueError, KernelTypingError
from kerneldsl.frontend.expressions import folded
from kerneldsl.frontend.names import local_names
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.language.kinds import ScalarKind
from kerneldsl.language.signatures import parse_signature
from kerneldsl.language.types import BOOL, OtherType
from kerneldsl.placement.registry import get_target
from tests.support.extent import full_beyond, sample
from tests.support.gathered import gathered_kernels
from tests.support.source import exec_source

TARGETS = ("cpu", "cuda")
F32, F64, I64 = ScalarKind("float32"), ScalarKind("float64"), ScalarKind("int64")


def compiler(target: str) -> Compiler:
    return get_target(target).compiler


def typed(function: Any, signature: str, target: str = "cpu") -> TypedUnit:
    return compiler(target).typed_unit(make_unit(function), parse_signature(signature))


def written(unit: TypedUnit) -> dict[str, str]:
    """Text of each node with a type to the type."""
    return {ast.unparse(node): str(found) for node, found in unit.types.items()}


def without_type(unit: TypedUnit) -> set[ast.AST]:
    """The forms that the contract lists: functions, modules, parts of literals, exceptions."""
    found: set[ast.AST] = set()
    for node in ast.walk(unit.unit.tree):
        match node:
            case ast.Call(func=function):
                found.update(ast.walk(function))
            case ast.BinOp() | ast.UnaryOp() if folded(node) is not None:
                found.update(child for child in ast.walk(node) if child is not node)
            case ast.Name(id=name) if name in unit.unit.callees:
                found.add(node)
            case ast.Name(id=name) if isinstance(unit.unit.namespace.get(name), ModuleType):
                found.add(node)
            case ast.Raise():
                found.update(ast.walk(node))
            case ast.Assert(msg=ast.AST() as message):
                found.update(ast.walk(message))
            case ast.For(iter=ast.Call(func=ast.Name(id="zip" | "enumerate")) as pairs):
                found.add(pairs)
            case ast.Subscript(slice=ast.Slice() as part):
                found.update(ast.walk(part))  # of a tuple
    return found


def chosen_by_constants(unit: TypedUnit) -> set[ast.AST]:
    """Parts of ``and``, ``or`` and conditional expressions that a constant may drop."""
    found: set[ast.AST] = set()
    for node in ast.walk(unit.unit.tree):
        if isinstance(node, ast.BoolOp | ast.IfExp):
            parts = node.values if isinstance(node, ast.BoolOp) else [node.test]
            names = [{n.id for n in ast.walk(p) if isinstance(n, ast.Name)} for p in parts]
            if any(not each & local_names(unit.unit.tree) for each in names):
                found.update(ast.walk(node))
    return found


def test_every_value_has_a_type() -> None:
    """Both targets' types are the same."""
    for name, unit, kinds in gathered_kernels(150, quick=3):
        kernel = compiler("cpu").typed_unit(unit, tuple(kinds))
        assert kernel.types == compiler("cuda").typed_unit(unit, tuple(kinds)).types, name
        for each in kernel.reachable():
            check_unit(name, each)


def _has_no_word(found: Any) -> bool:
    """Whether a type is Numba's alone; but for ``...``, iterators of pairs and packed numbers."""
    if isinstance(found, OtherType):
        return not found.text.startswith(("enumerate(", "zip(", "packed(", "..."))
    return False


def check_unit(name: str, unit: TypedUnit) -> None:
    place = f"{name}: {unit.unit.name}"
    without = without_type(unit) | chosen_by_constants(unit)
    for statement in ast.walk(unit.unit.tree):
        if not isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr | ast.Return):
            continue
        nodes = [n for n in ast.walk(statement) if isinstance(n, ast.expr) and n not in without]
        if any(unit.type_of(node) is not None for node in nodes):  # it is run
            missing = [ast.unparse(n) for n in nodes if unit.type_of(n) is None]
            assert not missing, f"{place}: no type of {missing} in {ast.unparse(statement)}"
    for node in ast.walk(unit.unit.tree):
        assert not _has_no_word(unit.type_of(node)), f"{place}: {ast.unparse(node)}"
        if isinstance(node, ast.Call) and unit.unit.callee_of(node) and unit.type_of(node):
            called = unit.calls[node]
            assert called.result == unit.type_of(node), place
            assert called.unit is unit.unit.callee_of(node)
            given = tuple(unit.type_of(each) for each in node.args)
            assert called.arguments == given


# ------------------------------------------------------------------------- single constructs

K_FLAG = False


@kd.func
def halve(value):
    return value / 2


def test_a_variable_has_a_type_at_each_place() -> None:
    def kernel(x, out):
        v = 1
        for _ in range(3):
            v = v * x
        out[0] = v

    unit = typed(kernel, "f4, f4[::1]")
    first, loop, store = unit.unit.tree.body
    assert unit.type_of(first.targets[0]) == I64
    assert unit.type_of(loop.body[0].targets[0]) == F64
    assert unit.type_of(loop.body[0].value.left) == F64, "an int64 at first, a float64 later"
    assert unit.type_of(store.value) == F64


def test_the_test_of_a_loop_has_the_type_of_all_iterations() -> None:

    def kernel(x, out):
        v = 1
        while v < 10:
            v = v * x
        out[0] = v

    unit = typed(kernel, "f4, f4[::1]")
    assert unit.type_of(unit.unit.tree.body[1].test.left) == F64


def test_values_of_branches() -> None:
    def kernel(a, b, c, out):
        out[0] = (a and b) or c
        if (a and not b) or c:
            out[1] = a if b else c
        out[2] = 0 < a < 3

    unit = typed(kernel, "i4, f4, f8, f8[::1]")
    first, branch, last = unit.unit.tree.body
    assert unit.type_of(first.value) == F64
    assert unit.type_of(first.value.values[0]) == F64, "of an int32 and a float32"
    assert unit.type_of(branch.test) == unit.type_of(branch.test.values[0]) == BOOL
    assert unit.type_of(branch.body[0].value) == F64
    assert unit.type_of(last.value) == BOOL


def test_what_is_never_run_has_no_type() -> None:
    def kernel(a, out):
        if K_FLAG:
            out[0] = a.nothing
        out[1] = a if not K_FLAG else a.nothing

    unit = typed(kernel, "i4, f8[::1]")
    skipped, store = unit.unit.tree.body
    assert isinstance(skipped, ast.Pass)
    assert unit.type_of(store.value) == ScalarKind("int32")
    assert unit.type_of(store.value.orelse) is None


def test_assignments_in_place() -> None:
    def kernel(a, out):
        out[0] += a
        a *= 0.5
        out[1] = a

    unit = typed(kernel, "f4, f4[::1]")
    element, variable, _ = unit.unit.tree.body
    assert (unit.type_of(element), unit.type_of(element.target)) == (F32, F32)
    assert (unit.type_of(variable), unit.type_of(variable.target)) == (F64, F64)


def test_constants_and_what_python_computes_of_them() -> None:
    def kernel(out):
        pair = (1, 2.0 * 3)
        out[0] = pair[1] + -1
        out[1] = -9223372036854775808
        out[2] = 2**-1
        print("text", None is None)

    types_of = written(typed(kernel, "f4[::1]"))
    assert types_of["(1, 2.0 * 3)"] == "(int64, float64)"
    assert types_of["-1"] == types_of["-9223372036854775808"] == "int64"
    assert types_of["2 ** (-1)"] == "float64"
    assert types_of["pair[1]"] == "float64"
    assert types_of["'text'"] == "str"


@pytest.mark.parametrize("target", TARGETS)
def test_a_device_function_for_each_of_its_types(target: str) -> None:
    def kernel(a, b, out):
        out[0] = halve(a) + halve(b) + halve(a)

    unit = typed(kernel, "f4, i4, f4[::1]", target)
    arguments = {each.arguments for each in unit.reachable() if each is not unit}
    assert arguments == {(ScalarKind("int32"),), (F32,)}
    assert len(set(unit.calls.values())) == 2


def test_an_error_is_told_at_the_users_line() -> None:
    def kernel(a, out):
        out[0] = a.nothing

    with pytest.raises(KernelTypingError, match="nothing") as raised:
        typed(kernel, "f4, f4[::1]")
    assert raised.value.where.lineno == kernel.__code__.co_firstlineno + 1


def test_a_target_without_inference_says_so() -> None:
    with pytest.raises(ArgumentValueError, match="infers no types"):
        Compiler.typed_unit(compiler("cpu"), make_unit(halve, is_device=True), ())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "right", full_beyond(["int8", "uint64", "float32", "complex64"], ["complex64"])
)
@pytest.mark.parametrize("left", full_beyond(["bool", "uint8", "int64", "float32"], ["float32"]))
def test_results_are_those_of_the_running_code(left: str, right: str, target: str) -> None:
    """What an expression is typed as is what Numba's compiled code returns."""
    expressions = ["a + b", "a * b", "a / b", "a == b", "b * 2", "a if b else b", "(a, b)[1]"]
    for expression in sample(expressions, 4):
        # In a function of its own, since bytecode of Python 3.13 has a return for each branch.
        text = f"import numba, numpy\n@numba.njit\ndef value(a, b):\n    return {expression}\n"
        function = exec_source(f"{text}def f(a, b):\n    return numpy.array([value(a, b)])")["f"]
        kernel = exec_source(
            f"import kerneldsl as kd\n@kd.func\ndef f(a, b):\n    return {expression}\n"
            "def kernel(a, b):\n    f(a, b)\n"
        )["kernel"]
        unit = typed(kernel, f"{left}, {right}", target)
        (called,) = unit.calls.values()
        values = np.dtype(left).type(1), np.dtype(right).type(1)
        assert str(called.result) == njit(function)(*values).dtype.name, expression


def test_what_is_stored_is_what_the_source_says() -> None:
    @kd.kernel
    def kernel(a, out):
        """Sum."""
        out[0] = a + 1

    text = kernel.typed_source("f4, f8[::1]", target="cpu")
    assert text == (
        "def kernel(a: float32, out: float64[::1]) -> none:\n"
        "    out[0] = a + 1\n"
        "    #   out[0]: float64\n"
        "    #   out: float64[::1]\n"
        "    #   a + 1: float64\n"
        "    #   a: float32\n"
    )
    assert kernel.typed_source("f4, f8[::1]", target="cuda") == text
