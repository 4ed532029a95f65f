"""Find the branches before which the lanes of a warp have to wait for each other.

The lanes that reach an operation of a warp together take part in it. Operations of blocks find the
lanes that have not returned in the same way. So all lanes on one side of a branch have to be
together there. One branch instruction does that. Several do not: those of the parts of ``a and b``,
or of an earlier condition, where LLVM threads jumps. Then compilers choose the groups.

References
----------
CUDA C++ Programming Guide, section "Warp Vote Functions" (``__activemask``); PTX ISA, section
"bar.warp.sync"; LLVM, "Convergent Operation Semantics".
"""

from __future__ import annotations

from collections.abc import Mapping

from llvmlite import ir

from kerneldsl.ir.operations import Effect, Function, Label, Operation, Region, Value
from kerneldsl.ir.recognize import sources_of
from targets.cuda.intrinsics.by_architecture import call_by_architecture
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["join_lanes", "lane_joins"]

_TESTS = ("if", "while")


def lane_joins(function: Function) -> frozenset[Operation]:
    """Return the branches and the ``while`` loops with lanes that wait at the test."""
    if not function.body.effects() & Effect.EXCHANGE:
        return frozenset()
    operations = list(function.body.walk())
    exchanging = {
        each.attributes["label"]: bool(each.effects() & Effect.EXCHANGE)
        for each in operations
        if each.name == "labeled"
    }
    return frozenset(
        each
        for each in operations
        if each.name in _TESTS
        and _parts_lanes(each, exchanging)
        and _is_chosen(_test_of(each), function.body)
    )


def _parts_lanes(operation: Operation, exchanging: Mapping[Label, bool]) -> bool:
    """Return whether lanes on one side of a branch exchange something, there or after it.

    If the other side is left, the lanes are together again at the end of what it leaves. Labels
    that are not known end the kernel.
    """
    return any(
        each.effect & Effect.EXCHANGE
        or (each.name == "leave" and exchanging.get(each.attributes["label"], True))
        for each in operation.walk()
    )


def join_lanes(builder: ir.IRBuilder) -> None:
    """Let the lanes that are here wait for each other; nothing is duplicated across this place."""
    present = call_by_architecture(builder, "activemask", ir.IntType(32), [])
    call_nvvm(builder, "bar.warp.sync", ir.VoidType(), [present])


def _test_of(operation: Operation) -> Value:
    return operation.operands[0] if operation.name == "if" else operation.regions[0].yielded[0]


def _is_chosen(value: Value, parameters: Region) -> bool:
    """Return whether a value depends on one that a branch or a loop gives."""
    return any(
        each.owner is not parameters
        and (isinstance(each.owner, Region) or (each.owner is not None and each.owner.regions))
        for each in sources_of([value])
    )
