"""Steps that take the place of Numba's: the same IR, by Numba's own as the oracle."""

from __future__ import annotations

import gc
import io
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types
from numba.core import (
    analysis,
    base,
    byteflow,
    compiler_machinery,
    interpreter,
    ir,
    postproc,
    ssa,
    typeinfer,
)
from numba.core.types.functions import BaseFunction

from kerneldsl.lowering.numba_internals.compiling import (
    InferenceOnly,
    compile_function,
    global_compiler_lock,
    kernel_flags,
)
from kerneldsl.lowering.numba_internals.host_code import host_contexts
from kerneldsl.lowering.numba_internals.linear_passes import linear_passes
from tests.support.extent import examples

_REPLACED = [
    (ssa, "_run_ssa"),
    (analysis, "compute_live_map"),
    (byteflow.Flow, "_is_implicit_new_block"),
    (byteflow.Flow, "_prune_phis"),
    (interpreter.Interpreter, "post_process"),
    (ir.Inst, "_rec_list_vars"),
    (postproc.PostProcessor, "run"),
    (BaseFunction, "get_call_type"),
    (typeinfer.ConstraintNetwork, "propagate"),
    (typeinfer.TypeInferer, "unify"),
    (base, "_has_loc"),
    (compiler_machinery, "enforce_no_dels"),
]

Body = list[str]
_NAMES = "abc"
_VALUES = st.sampled_from(["a", "b", "c", "n", "a + b", "b * 3", "c - n", "min(a, n)"])
_TESTS = st.sampled_from(["a > b", "c % 2 == 0", "n", "a < 5 and b"])


@st.composite
def bodies(draw: Any, depth: int = 3, *, in_loop: bool = False) -> Body:
    """Statements of three variables, with branches and loops that are left in any way."""
    lines: Body = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.integers(0, 6 if depth else 1))
        if kind <= 1:
            lines.append(f"{draw(st.sampled_from(_NAMES))} = {draw(_VALUES)}")
        elif kind <= 3:
            lines.append(f"if {draw(_TESTS)}:")
            lines += indented(draw(bodies(depth - 1, in_loop=in_loop)))
            if draw(st.booleans()):
                lines.append("else:")
                lines += indented(draw(bodies(depth - 1, in_loop=in_loop)))
        elif kind == 4 and in_loop:
            lines += [f"if {draw(_TESTS)}:", f"    {draw(st.sampled_from(['break', 'continue']))}"]
        else:
            head = draw(
                st.sampled_from(["for i in range(n):", "for a in range(3):", "while a < b:"])
            )
            lines.append(head)
            lines += indented(["a += 1", *draw(bodies(depth - 1, in_loop=True))])
    return lines


def indented(lines: Body) -> Body:
    return [f"    {line}" for line in lines]


def function_of(lines: Body) -> Callable[..., Any]:
    text = "\n".join(["def f(n, out):", *indented(["a = n", "b = 2", "c = a", *lines])])
    space: dict[str, Any] = {}
    exec(f"{text}\n    out[0] = a + b + c\n", space)
    return space["f"]


def typed(function: Callable[..., Any], scope: Any) -> tuple[str, dict[str, str], str]:
    """Return Numba's IR of a function as text, its types, and what lives where blocks begin."""
    with global_compiler_lock, scope:
        contexts = host_contexts()
        arguments = (types.int64, types.Array(types.int64, 1, "C"))
        pipeline = InferenceOnly(
            *(contexts.typing_context, contexts.target_context, None, arguments, None),
            *(kernel_flags(), {}),
        )
        pipeline.compile_extra(function)
        state = pipeline.state
        text = io.StringIO()
        with redirect_stdout(text):
            state.func_ir.dump()
        live = {at: sorted(names) for at, names in state.func_ir.variable_lifetime.livemap.items()}
        return text.getvalue(), {n: str(t) for n, t in state.typemap.items()}, str(live)


@given(bodies())
@settings(max_examples=examples(150), deadline=None)
def test_ir_is_numbas(lines: Body) -> None:
    function = function_of(lines)
    assert typed(function, linear_passes()) == typed(function, nullcontext())


def _alive() -> int:
    kinds = (ir.Var, ir.Assign, typeinfer.TypeVar)
    return sum(isinstance(each, kinds) for each in gc.get_objects())


def test_a_compilation_leaves_nothing_to_the_garbage_collector() -> None:
    lines = ["for i in range(n):", "    a += b if a > i else c", "    b = a * c"]
    contexts = host_contexts()
    arguments = (types.int64, types.Array(types.int64, 1, "C"))
    gc.collect()
    gc.disable()
    try:
        counts = [_alive()]
        for _ in range(2):
            with global_compiler_lock:
                compile_function(contexts, function_of(lines), arguments, None, kernel_flags())
            counts.append(_alive())
    finally:
        gc.enable()
    # The first one reads the functions that Numba has in Python.
    assert counts[2] == counts[1]


def test_numbas_steps_come_back() -> None:
    before = [getattr(owner, name) for owner, name in _REPLACED]
    inside = []

    def fail() -> None:
        with linear_passes():
            inside.extend(getattr(owner, name) for owner, name in _REPLACED)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not any(one is two for one, two in zip(inside, before, strict=True))
    assert [getattr(owner, name) for owner, name in _REPLACED] == before
