"""Check that every block of a launch takes its part of a chain, and says what it has, once.

A block that does not is waited for by those that follow it, and permanently.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from typing import NoReturn

from kerneldsl.analysis.aliases import Root
from kerneldsl.analysis.effects import Accesses
from kerneldsl.analysis.expressions import assigned_names, written
from kerneldsl.analysis.inferred_types import InferredTypes
from kerneldsl.analysis.inline import inline_block_functions
from kerneldsl.analysis.uniformity import analyze_uniformity
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Scope, Typing
from kerneldsl.language.kinds import Kind

__all__ = ["chain_states", "check_chains", "check_published_values"]


def check_chains(unit: FunctionUnit, tuples: Collection[str]) -> None:
    """Refuse chains that not every block of a launch goes through once.

    Functions of the unit that have a barrier are inlined; `tuples` are the parameters that are
    tuples of arrays.

    Raises `UnsupportedConstructError` for an operation of a chain that is in a loop or under a
    condition, or that names a state a second time, where no part is taken before, and where a state
    is only counted: the last block that looks back begins the count of the next launch. So it does
    for a value that is published too late, or not given to ``chain.before`` then.
    """
    if not _has_chains(unit):
        return
    seen: set[tuple[str, str]] = set()
    for call, in_loop in _calls(unit, unit.tree, in_loop=False):
        use = unit.use_of(call)
        assert use is not None
        name, state = use.intrinsic.name, ast.unparse(call.args[0])
        if in_loop:
            _fail(unit, call, f"kd.{name} is in a loop", "Call it once, outside of the loop")
        if name != "chain.next" and not any(each == "chain.next" for each, _ in seen):
            what = f"kd.{name} is called in front of kd.chain.next"
            _fail(unit, call, what, "Give it the part that kd.chain.next(state) gave")
        if name == "chain.next" and any(each == "chain.publish" for each, _ in seen):
            what = "kd.chain.next is called behind kd.chain.publish"
            _fail(unit, call, what, "Take all parts before a value is published")
        if name == "chain.publish" and ("chain.before", state) in seen:
            what = "kd.chain.publish is called behind kd.chain.before"
            _fail(unit, call, what, "Publish the value before what is before it is asked for")
        if (name, state) in seen:
            what = f"kd.{name} is called a second time with the state {state}"
            _fail(unit, call, what, "Give it a state of its own, or combine both values by an op")
        seen.add((name, state))
    _check_ended(unit)
    for early, later in _published(unit):
        has_op = [ast.unparse(each.args[3]) != "None" for each in (early, later)]
        if has_op[0] != has_op[1]:
            what = "kd.chain.publish and kd.chain.before of one state differ in op"
            _fail(unit, early, what, "Give both the same op, or none")
    for problem in analyze_uniformity(unit, tuples=tuples, scope=Scope.GRID).problems:
        raise UnsupportedConstructError(
            "an operation of kd.chain may not be reached by every thread of the launch: "
            f"{problem.what}",
            where=problem.where,
            limit="Blocks wait for earlier blocks, permanently if one of these does not reach it",
            remedy="Let all of them reach it, a block that has nothing to add with a value that "
            "changes nothing; a condition may stand around it that arguments alone decide",
            chain=problem.chain,
        )


def check_published_values(unit: FunctionUnit, kinds: Sequence[Kind]) -> None:
    """Refuse values that are published as another dtype than ``chain.before`` is given.

    Later blocks would wait for words that are not written. `kinds` are those of the arguments; what
    is not known of types before Numba infers them is not refused.
    """
    if not any(use.intrinsic.typing is Typing.CHAIN_PUBLISH for use in unit.all_uses()):
        return
    flat = inline_block_functions(unit)
    types = InferredTypes(flat, kinds)
    for early, later in _published(flat):
        dtype, wanted = types.of(early.args[2]), types.of(later.args[2])
        if dtype is not None and wanted is not None and dtype != wanted:
            what = f"kd.chain.publish has a value of {dtype}, and kd.chain.before of {wanted}"
            _fail(flat, early, what, "Give both the same value, held in a variable")


def chain_states(unit: FunctionUnit) -> frozenset[int]:
    """Find the parameters that are, as they are, states of chains in every launch.

    Functions of the unit that have a barrier are inlined. What is under a condition, or after
    a ``return``, may not be reached, and of a part of an array the size is not known.
    """
    if not _has_chains(unit):
        return frozenset()
    bound = assigned_names(unit.tree.body)
    found = set[int]()
    for statement in unit.tree.body:
        if any(isinstance(node, _CONDITIONS) for node in walk_here(statement)):
            if any(isinstance(node, ast.Return) for node in walk_here(statement)):
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
    """Refuse a state that parts are taken from or published, and not given to ``chain.before``."""
    accesses = Accesses(unit)
    calls = [call for call, _ in _calls(unit, unit.tree, in_loop=False)]
    ended = frozenset[Root]()
    for call in calls:
        if _typing(unit, call) is Typing.CHAIN:
            ended |= accesses.roots(call.args[0])
    for call in calls:
        typing, state = _typing(unit, call), written(call.args[0], unit)
        if typing is Typing.CHAIN or accesses.roots(call.args[0]) & ended:
            continue
        if typing is Typing.CHAIN_NEXT:
            what = f"{state} is given to kd.chain.next and not to chain.before"
            remedy = "Take a number with kd.atomic.add, from a counter that is 0 before each launch"
        else:
            what = f"{state} is given to kd.chain.publish and not to chain.before"
            remedy = "Call kd.chain.before with the same state, part and value behind it"
        _fail(unit, call, what, remedy)


def _published(unit: FunctionUnit) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Yield what publishes a value with what needs the values before it, of the same state."""
    accesses = Accesses(unit)
    calls = [call for call, _ in _calls(unit, unit.tree, in_loop=False)]
    for early in calls:
        for later in calls:
            both = _typing(unit, early), _typing(unit, later)
            if both == (Typing.CHAIN_PUBLISH, Typing.CHAIN) and (
                accesses.roots(early.args[0]) & accesses.roots(later.args[0])
            ):
                yield early, later


def _typing(unit: FunctionUnit, call: ast.Call) -> Typing | None:
    use = unit.use_of(call)
    return None if use is None else use.intrinsic.typing


def _has_chains(unit: FunctionUnit) -> bool:
    return any(use.intrinsic.is_of_chain for use in unit.uses.values())


def _calls(unit: FunctionUnit, node: ast.AST, *, in_loop: bool) -> Iterator[tuple[ast.Call, bool]]:
    """Yield operations of chains in their order, and whether they are in a loop."""
    for child in ast.iter_child_nodes(node):
        repeats = in_loop or isinstance(child, ast.For | ast.While)
        yield from _calls(unit, child, in_loop=repeats)
        use = unit.use_of(child)
        if use is not None and use.intrinsic.is_of_chain:
            assert isinstance(child, ast.Call)
            yield child, in_loop


def _fail(unit: FunctionUnit, call: ast.Call, what: str, remedy: str) -> NoReturn:
    raise UnsupportedConstructError(
        what,
        where=unit.locate(call),
        limit="Each block of a launch takes one part of a chain, and says once what it has",
        remedy=remedy,
    )
