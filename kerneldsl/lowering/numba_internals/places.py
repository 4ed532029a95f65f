"""Numba's types of a function by the line of its source, for a function with a line a node.

Numba's IR says of each instruction which line it comes of. Where every expression has a line of its
own, that is which expression; so inference is read without changing what is inferred.
"""

from __future__ import annotations

import enum
import operator
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from numba import types
from numba.core import interpreter, ir
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.untyped_passes import TranslateByteCode

from kerneldsl.lowering.numba_internals.compiling import InferenceOnly, kernel_flags
from kerneldsl.lowering.numba_internals.moved import overriding

__all__ = ["Inferred", "Instruction", "Role", "infer_by_line"]


class Role(enum.Enum):
    """Role of an instruction at its place."""

    VALUE = "value"
    """Computes a value on the stack."""
    STORE = "store"
    """Assigns to a variable."""
    ELEMENT = "element"
    """Stores to an element; the type is that of the element."""


class Instruction(NamedTuple):
    """One instruction with a type.

    Parameters
    ----------
    role : Role
        What it does.
    type : numba.types.Type
        Of the value, the variable or the element.
    operation : str
        Of a value the operation of Numba's IR, such as ``"call"`` or ``"binop"``.
    signature : numba Signature or None
        To which types an operation converts its operands.
    """

    role: Role
    type: Any
    operation: str = ""
    signature: Any = None


class Inferred(NamedTuple):
    """Types that were inferred of a function.

    Parameters
    ----------
    result : numba.types.Type
        What it returns.
    lines : dict
        Line to its instructions, in the order of the code. A line without any is never run.
    """

    result: Any
    lines: dict[int, list[Instruction]]


@overriding("phis")
class _Interpreter(interpreter.Interpreter):
    """Leaves each load and store of a variable an instruction of its own."""

    def __init__(self, func_id: Any) -> None:
        super().__init__(func_id)
        #: Names of values on the stack that go on to another block.
        self.phis: set[str] = set()

    def _remove_unused_temporaries(self) -> None:
        """Keep them: they are the places where variables are read and written."""

    def _insert_outgoing_phis(self) -> None:
        self.phis.update(self.dfainfo.outgoing_phis)
        super()._insert_outgoing_phis()


@register_pass(mutates_CFG=True, analysis_only=False)
class _TranslateAll(TranslateByteCode):
    """Bytecode to IR, with every load and store."""

    _name = "kerneldsl_translate_all"

    def run_pass(self, state: Any) -> bool:
        """Translate."""
        reader = _Interpreter(state.func_id)
        state.func_ir = reader.interpret(state.bc)
        state.metadata["kerneldsl_phis"] = reader.phis
        return True


@overriding()
class _ByLine(InferenceOnly):
    """Inference of IR with every load and store."""

    def define_pipelines(self) -> list[Any]:
        """Return the same passes after another first one."""
        (manager,) = super().define_pipelines()
        (_, name), *others = manager.passes
        return [_manager([(_TranslateAll, name), *others])]


def _manager(passes: list[Any]) -> PassManager:
    manager = PassManager("kerneldsl_inference_by_line")
    manager.passes.extend(passes)
    manager.finalize()
    return manager


def infer_by_line(
    contexts: Any, function: Callable[..., Any], argument_types: tuple[Any, ...]
) -> Inferred:
    """Infer the types of a function. The caller holds Numba's compiler lock.

    Parameters
    ----------
    contexts : TargetDescriptor
        Has the target's typing and target contexts.
    function : function
        A function of whose expressions each has a line of its own.
    argument_types : tuple of numba.types.Type
        Types of its arguments.

    Raises
    ------
    numba.core.errors.NumbaError
        Where it cannot be typed.
    """
    typing_context = contexts.typing_context
    pipeline: CompilerBase = _ByLine(
        typing_context, contexts.target_context, None, argument_types, None, kernel_flags(), {}
    )
    pipeline.compile_extra(function)
    state = pipeline.state
    lines: dict[int, list[Instruction]] = defaultdict(list)
    for _, block in sorted(state.func_ir.blocks.items()):
        for statement in block.body:
            if _is_flow(statement, state.metadata["kerneldsl_phis"]):
                continue
            found = _instruction(typing_context, state.typemap, state.calltypes, statement)
            if found is not None:
                lines[statement.loc.line].append(found)
    return Inferred(state.return_type, dict(lines))


#: What Numba calls the truth of a value that a branch tests.
_TESTED = re.compile(r"\$\d+pred")


def _is_flow(at: Any, phis: set[str]) -> bool:
    """Return whether a statement is control flow or an argument's arrival, of no place."""
    if not isinstance(at, ir.Assign):
        return False
    name, value = at.target.name, at.value
    return (
        isinstance(value, ir.Arg)
        or (isinstance(value, ir.Expr) and value.op == "phi")
        or name in phis
        or name.rpartition(".")[0] in phis
        or _TESTED.match(name) is not None
        or (isinstance(value, ir.Global) and value.value is bool and name.startswith("$bool"))
    )


def _instruction(typing_context: Any, typemap: Any, calltypes: Any, at: Any) -> Instruction | None:
    if isinstance(at, ir.Assign):
        value, found = at.value, typemap[at.target.name]
        if not at.target.is_temp:
            return Instruction(Role.STORE, found)
        if isinstance(value, ir.Expr):
            return Instruction(Role.VALUE, found, value.op, calltypes.get(value))
        return Instruction(Role.VALUE, found, type(value).__name__.lower())
    if isinstance(at, ir.SetItem | ir.StaticSetItem):
        array, index = calltypes[at].args[:2]
        read = typing_context.resolve_function_type(operator.getitem, (array, index), {})
        return Instruction(Role.ELEMENT, read.return_type, "setitem", calltypes[at])
    if isinstance(at, ir.Print):
        return Instruction(Role.VALUE, types.none, "call", calltypes[at])
    return None
