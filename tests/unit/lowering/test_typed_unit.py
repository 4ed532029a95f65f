"""Types of the normal form are Numba's own, for every kernel that the other tests run."""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from numba import njit, types

import kerneldsl as kd
from kerneldsl.contract import Compiler
from kerneldsl.errors import ArgumentValueError, KernelTypingError
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.typed_unit import TypedOperation, TypedUnit
from kerneldsl.language.kinds import ArrayKind, ScalarKind
from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.language.signatures import parse_signature
from kerneldsl.language.types import (
    BOOL,
    NONE,
    OtherType,
    TupleType,
)
from kerneldsl.lowering.build import build_function
from kerneldsl.lowering.numba_internals.compiling import (
    InferenceOnly,
    global_compiler_lock,
    kernel_flags,
    target_override,
)
from kerneldsl.lowering.numba_internals.host_code import host_contexts
from kerneldsl.lowering.typed_unit import _Session
from kerneldsl.lowering.types import numba_type, tuple_type
from kerneldsl.lowering.value_types import value_type
from kerneldsl.placement.registry import get_target
from targets.cuda.compile.numba_device import TARGET_NAME, descriptor
from tests.support.drop_exceptions import DropExceptions
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


# --------------------------------------------------------------- held against Numba's inference


def plain_inference(
    session: _Session, unit: TypedUnit, contexts: Any
) -> tuple[dict[str, set[str]], set[int]]:
    """Numba's types of a function's variables as targets compile it, and the lines it keeps."""
    function = session._functions[unit.unit]
    tree = DropExceptions()(unit.unit.tree)
    plain = build_function(tree, unit.unit.name, _as_written(function), unit.unit.filename)
    arguments = tuple(map(_numba_type, unit.arguments))
    pipeline = InferenceOnly(
        contexts.typing_context, contexts.target_context, None, arguments, None, kernel_flags(), {}
    )
    pipeline.compile_extra(plain)
    found = defaultdict(set)
    for name, each in pipeline.state.typemap.items():
        if not name.startswith(("$", "arg.")):
            found[name.partition(".")[0]].add(str(value_type(each)))
    blocks = pipeline.state.func_ir.blocks.values()
    return found, {statement.loc.line for block in blocks for statement in block.body}


def _as_written(function: Any) -> dict[str, Any]:
    """A function's globals, by the user's names those that were renamed when it was built."""
    outside = f"{RESERVED_PREFIX}outside_"
    return {name.removeprefix(outside): each for name, each in function.__globals__.items()}


def _numba_type(found: Any) -> Any:
    if isinstance(found, TupleType):
        return tuple_type([_numba_type(element) for element in found.elements], found.names)
    return types.none if found == NONE else numba_type(found)


def without_value(unit: TypedUnit) -> set[ast.AST]:
    """The forms that the contract lists: operands of a chain, and the text of exceptions."""
    found: set[ast.AST] = set()
    for node in ast.walk(unit.unit.tree):
        if isinstance(node, ast.BoolOp):
            found.update(v for v in node.values if isinstance(v, ast.BoolOp))
        if isinstance(node, ast.Raise):
            found.update(ast.walk(node))
        if isinstance(node, ast.Assert) and node.msg is not None:
            found.update(ast.walk(node.msg))
    return found


def chosen_by_constants(unit: TypedUnit) -> set[ast.AST]:
    """Parts of ``and``, ``or`` and conditional expressions that a constant may drop."""
    found: set[ast.AST] = set()
    for node in ast.walk(unit.unit.tree):
        if isinstance(node, ast.BoolOp | ast.IfExp):
            parts = node.values if isinstance(node, ast.BoolOp) else [node.test]
            names = [{n.id for n in ast.walk(p) if isinstance(n, ast.Name)} for p in parts]
            if any(not each & set(unit.variables) for each in names):
                found.update(ast.walk(node))
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_types_are_numbas_own(target: str) -> None:
    """Of every expression there is a type; the types of variables are those of the plain tree.

    Those of the other target are the same.
    """
    (other,) = set(TARGETS) - {target}
    for name, unit, kinds in gathered_kernels(150, quick=3):
        kernel = compiler(target).typed_unit(unit, tuple(kinds))
        assert kernel.types == compiler(other).typed_unit(unit, tuple(kinds)).types, name
        with global_compiler_lock, target_override(TARGET_NAME if target == "cuda" else "cpu"):
            contexts = descriptor() if target == "cuda" else host_contexts()
            session = _Session(unit, contexts, is_by_line=False)
            for each in kernel.reachable():
                if any(isinstance(argument, OtherType) for argument in each.arguments):
                    continue  # of a type of Numba's alone, as packed numbers are, the text is known
                check_unit(name, each, *plain_inference(session, each, contexts))


def _has_no_word(found: Any) -> bool:
    """Whether a type is Numba's alone; but for ``...``, iterators of pairs and packed numbers."""
    if isinstance(found, OtherType):
        return not found.text.startswith(("enumerate(", "zip(", "packed(", "..."))
    return False


def check_unit(name: str, unit: TypedUnit, variables: dict[str, set[str]], lines: set[int]) -> None:
    place = f"{name}: {unit.unit.name}"
    without = without_value(unit) | chosen_by_constants(unit)
    for node in ast.walk(unit.unit.tree):
        if isinstance(node, ast.expr) and node not in without and unit.type_of(node) is None:
            # Never run: Numba has dropped its line.
            assert node.lineno not in lines, f"{place}: no type of {ast.unparse(node)}"
        assert not _has_no_word(unit.type_of(node)), f"{place}: {ast.unparse(node)}"
        if isinstance(node, ast.Call) and unit.unit.callee_of(node) and unit.type_of(node):
            called = unit.calls[node]
            assert called.result == unit.type_of(node), place
            assert called.unit is unit.unit.callee_of(node)
            assert called.arguments == unit.operations[node][0].operands
    for variable, found in unit.variables.items():
        # A variable whose name ends in a digit is renamed for Numba.
        known = {
            own
            for own in variables
            if own == variable
            or (
                variable[-1].isdigit() and own.rstrip("_") == variable and own not in unit.variables
            )
        }
        expected = set().union(*(variables[own] for own in known))
        assert set(map(str, found)) == expected, f"{place}: {variable}"


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
    assert unit.variables["v"] == (I64, F64)
    assert unit.operations[loop.body[0].value] == (TypedOperation((F64, F64), F64),)


def test_a_test_that_python_copies_has_one_type() -> None:
    """CPython writes a loop's test twice: before the loop and at its end."""

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
    assert unit.type_of(first.value.values[0]) is None, "its operands are those of the whole"
    assert unit.type_of(branch.test) == unit.type_of(branch.test.values[0]) == BOOL
    assert unit.type_of(branch.body[0].value) == F64
    assert unit.type_of(last.value) == BOOL
    comparisons = unit.operations[last.value]
    assert [each.operands for each in comparisons] == [(I64, I64), (I64, I64)]


def test_what_is_never_run_has_no_type() -> None:
    def kernel(a, out):
        if K_FLAG:
            out[0] = a.nothing
        out[1] = a if not K_FLAG else a.nothing

    unit = typed(kernel, "i4, f8[::1]")
    branch, store = unit.unit.tree.body
    assert unit.type_of(branch.body[0].value) is None
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
    assert unit.variables["a"] == (F32, F64)
    assert unit.operations[variable] == (TypedOperation((F64, F64), F64),)


def test_constants_and_what_python_computes_of_them() -> None:
    def kernel(out):
        pair = (1, 2.0 * 3)
        out[0] = pair[1] + -1
        print("text", None is None)

    types_of = written(typed(kernel, "f4[::1]"))
    assert types_of["(1, 2.0 * 3)"] == "(int64, float64)"
    assert types_of["-1"] == "int64"
    assert types_of["pair[1]"] == "float64"
    assert types_of["'text'"] == "str"


def test_a_name_of_a_variable_is_no_name_of_numbas() -> None:
    """Numba calls values of control flow ``phi`` and ``bool``; so may a kernel its variables."""

    def kernel(x, out):
        phi = x * 2
        pred = phi or x
        out[0] = phi if pred else x

    unit = typed(kernel, "f4, f4[::1]")
    assert unit.variables == {
        "x": (F32,),
        "out": (ArrayKind("float32", 1, "C"),),
        "phi": (F64,),
        "pred": (F64,),
    }


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
