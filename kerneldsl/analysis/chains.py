"""Check that every block of a launch takes its part of a chain, and says what it has, once.

A block that does not is waited for by those that follow it, and for ever.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import NoReturn

from kerneldsl.analysis.aliases import Root
from kerneldsl.analysis.effects import Accesses
from kerneldsl.analysis.expressions import assigned_names, written
from kerneldsl.analysis.uniformity import analyze_uniformity
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Scope, Typing

__all__ = ["chain_states", "check_chains"]


def check_chains(unit: FunctionUnit, tuples: Collection[str]) -> None:
    """Refuse chains that not every block of a launch goes through once.

    Functions of the unit that have a barrier are inlined; `tuples` are the parameters that are
    tuples of arrays.

    Raises `UnsupportedConstructError` for an operation of a chain that stands in a loop or under a
    condition, or that names a state a second time, where no part is taken before, and where a state
    is only counted: the last block that looks back begins the count of the next launch.
    """
    if not any(_is_chain(unit, name) for name in unit.uses):
        return
    seen: set[tuple[str, str]] = set()
    for call, in_loop in _calls(unit, unit.tree, in_loop=False):
        use = unit.use_of(call)
        assert use is not None
        name, state = use.intrinsic.name, ast.unparse(call.args[0])
        if in_loop:
            _fail(unit, call, f"kd.{name} is in a loop", "Call it once, outside of the loop")
        if name == "chain.before" and not any(each == "chain.next" for each, _ in seen):
            what = "kd.chain.before is called in front of kd.chain.next"
            _fail(unit, call, what, "Give it the part that kd.chain.next(state) gave")
        if (name, state) in seen:
            what = f"kd.{name} is called a second time with the state {state}"
            _fail(unit, call, what, "Give it a state of its own, or combine both values by an op")
        seen.add((name, state))
    _check_ended(unit)
    for problem in analyze_uniformity(unit, tuples=tuples, scope=Scope.GRID).problems:
        raise UnsupportedConstructError(
            "an operation of kd.chain may not be reached by every thread of the launch: "
            f"{problem.what}",
            where=problem.where,
            limit="Blocks wait for those before them, for ever if one of these does not reach it",
            remedy="Let all of them reach it, a block that has nothing to add with a value that "
            "changes nothing; a condition may stand around it that arguments alone decide",
            chain=problem.chain,
        )


def chain_states(unit: FunctionUnit) -> frozenset[int]:
    """Find the parameters that are, as they are, states of chains in every launch.

    Functions of the unit that have a barrier are inlined. What stands under a condition, or behind
    a ``return``, may not be reached, and of a part of an array the size is not known.
    """
    if not any(_is_chain(unit, name) for name in unit.uses):
        return frozenset()
    bound = assigned_names(unit.tree.body)
    found = set[int]()
    for statement in unit.tree.body:
        if any(isinstance(node, _CONDITIONS) for node in ast.walk(statement)):
            if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
                break
            continue
        for call, _ in _calls(unit, statement, in_loop=False):
            match call.args[0]:
                case ast.Name(name) if name in unit.parameters and name not in bound:
                    found.add(unit.parameters.index(name))
    return frozenset(found)


#: What may leave out some of its parts.
_CONDITIONS = (ast.If, ast.IfExp, ast.BoolOp, ast.For, ast.While, ast.Try, ast.Match)


def _check_ended(unit: FunctionUnit) -> None:
    """Refuse a state that parts are taken from and that is not given to ``chain.before``."""
    accesses = Accesses(unit)
    calls = [call for call, _ in _calls(unit, unit.tree, in_loop=False)]
    ended = frozenset[Root]()
    for call in calls:
        if _typing(unit, call) is Typing.CHAIN:
            ended |= accesses.roots(call.args[0])
    for call in calls:
        if _typing(unit, call) is Typing.CHAIN_NEXT and not accesses.roots(call.args[0]) & ended:
            what = (
                f"{written(call.args[0], unit)} is given to kd.chain.next and not to chain.before"
            )
            remedy = "Take a number with kd.atomic.add, from a counter that is 0 before each launch"
            _fail(unit, call, what, remedy)


def _typing(unit: FunctionUnit, call: ast.Call) -> Typing | None:
    use = unit.use_of(call)
    return None if use is None else use.intrinsic.typing


def _is_chain(unit: FunctionUnit, name: str) -> bool:
    return unit.uses[name].intrinsic.typing in (Typing.CHAIN_NEXT, Typing.CHAIN)


def _calls(unit: FunctionUnit, node: ast.AST, *, in_loop: bool) -> Iterator[tuple[ast.Call, bool]]:
    """Yield operations of chains in their order, and whether they stand in a loop."""
    for child in ast.iter_child_nodes(node):
        repeats = in_loop or isinstance(child, ast.For | ast.While)
        yield from _calls(unit, child, in_loop=repeats)
        if (
            isinstance(child, ast.Call)
            and isinstance(child.func, ast.Name)
            and child.func.id in unit.uses
            and _is_chain(unit, child.func.id)
        ):
            yield child, in_loop


def _fail(unit: FunctionUnit, call: ast.Call, what: str, remedy: str) -> NoReturn:
    raise UnsupportedConstructError(
        what,
        where=unit.locate(call),
        limit="Each block of a launch takes one part of a chain, and says once what it has",
        remedy=remedy,
    )
