"""Find the barriers of a kernel that not every thread is known to reach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NoReturn

from kerneldsl.contract import Specialization
from kerneldsl.contract.findings import NO_BARRIERS, BarrierFacts, BarrierProblem
from kerneldsl.contract.promises import Promises
from kerneldsl.errors import BarrierDivergenceError, UnsupportedConstructError
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.accesses import Accesses
from kerneldsl.ir.divergence import Divergence, Level, level_of
from kerneldsl.ir.intervals import CHANGING
from kerneldsl.ir.operations import LOOPS, Function, Operation, Region, Value
from kerneldsl.ir.uniformity import Meeting, Uniformity, uniformity_of
from kerneldsl.language.intrinsics.barriers import grid_group
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Scope, Typing

__all__ = ["analyze_barriers", "barrier_problems"]

#: Remedies for operations of a block that some threads skip, or reach with different arguments.
_OUT_OF_CONDITION = "Move the operation out of the condition, and guard only the work around it"
_STAY = (
    "Let every thread reach it: put what some threads leave out under a condition, in place of "
    "returning. What a tile has beyond the edge of an array is neither read nor written"
)
_ADD_BARRIER = (
    ". Load it into a variable, and add kd.grid_group().sync() between that load and each write"
)
_GIVE_THE_SAME = (
    "Give what all threads of a block agree on, such as an argument or kd.blockIdx; of numbers "
    "that differ, kd.tile.of(…) makes a tile"
)


def analyze_barriers(function: Function, spec: Specialization) -> BarrierFacts:
    """Return what is known of the barriers of a kernel that was just read.

    - raises `BarrierDivergenceError` if a thread may not reach a barrier of the grid.
    - raises `UnsupportedConstructError` if a block may not do its part of a chain once.
    """
    if not spec.traits.has_barrier:
        return NO_BARRIERS
    has_chains = any(use.intrinsic.is_of_chain for use in spec.unit.all_uses())
    is_of_grid = has_chains or spec.traits.syncs_grid
    groups = (Scope.BLOCK, Scope.GRID) if is_of_grid else (Scope.BLOCK,)
    # numba.cuda's programs let threads beyond the edge of an array return before such a barrier.
    analyze = partial(uniformity_of, function, spec.kinds, groups)
    analyze = partial(analyze, awaits_returned=not spec.unit.follows_numba)
    overlapping = analyze(arguments_may_overlap=True)
    # Values vary no more where arrays are known not to overlap, so this is the upper bound.
    found = tuple(barrier_problems(overlapping, Scope.BLOCK))
    of_grid = tuple(_grid_problems(overlapping)) if spec.traits.syncs_grid else ()
    apart = overlapping
    if found or of_grid or has_chains:
        apart = analyze()
    for problem in _grid_problems(apart) if spec.traits.syncs_grid else ():
        after = _ADD_BARRIER if any(CHANGING in text for text, _ in problem.links) else ""
        raise BarrierDivergenceError(
            "a barrier of the grid may not be reached by every thread of the launch: "
            f"{problem.what}",
            where=problem.where,
            limit="The whole grid waits for each of its threads, those that have returned included",
            remedy="Let all of them reach it: guard the code before and after it instead. A "
            "condition around the barrier may depend on arguments, and on memory that no thread "
            f"writes between two barriers of the grid{after}",
            chain=problem.chain,
        )
    if has_chains:
        _check_chains(function, spec, barrier_problems(apart, Scope.GRID))
    problems = tuple(barrier_problems(apart, Scope.BLOCK)) if found else ()
    states = _chain_states(function) if has_chains else frozenset[int]()
    return BarrierFacts(problems, (*found, *of_grid), states)


def _grid_problems(uniformity: Uniformity) -> Iterator[BarrierProblem]:
    return barrier_problems(uniformity, Scope.GRID, grid_group.sync)


def barrier_problems(
    uniformity: Uniformity, group: Scope, intrinsic: Intrinsic | None = None
) -> Iterator[BarrierProblem]:
    """Return the barriers that not all threads of a group reach, of one operation or of all."""
    for operation, meeting in uniformity.meetings.items():
        if not meeting.intrinsic.synchronizes(group):
            continue
        if intrinsic is not None and meeting.intrinsic is not intrinsic:
            continue
        found = _divergence(operation, meeting, group)
        if found is not None:
            fact, remedy = found
            yield BarrierProblem(
                operation.source.where,
                fact.text(group),
                tuple(fact.links(group)),
                fact.level(group) is Level.VARYING,
                remedy,
            )


def _divergence(
    operation: Operation, meeting: Meeting, group: Scope
) -> tuple[Divergence, str | None] | None:
    """Return why threads do not perform an operation together, and what helps."""
    intrinsic, control, left, arguments = meeting
    source, is_of_block = operation.source, intrinsic.is_of_block
    name = "a tile operation" if intrinsic.typing is Typing.TILE else repr(intrinsic)
    if control is not None and control.level(group) is not Level.UNIFORM:
        if not is_of_block or control.level(group) is not Level.VARYING:
            return control, None
        what = f"{name} is not reached by every thread: {control.text(group)}"
        return control.because(_quoted(what), source), _OUT_OF_CONDITION
    if not is_of_block or group is not Scope.BLOCK:
        return None
    # Threads would work on different tiles, or parts.
    if left is not None and left.level(group) is Level.VARYING:
        what = f"threads have returned before {name}: {left.text(group)}"
        return left.because(_quoted(what), source), _STAY
    for position, fact in enumerate(arguments):
        if fact is not None and level_of(fact, group) is Level.VARYING:
            argument = _argument(intrinsic, position, len(arguments))
            if argument is not None:
                name = f"kd.{intrinsic.name}, for {argument},"
            what = f"{name} needs the same in every thread of the block: {fact.text(group)}"
            return fact.because(_quoted(what), source), _GIVE_THE_SAME
    return None


def _quoted(text: str) -> str:
    """Return a sentence as the form of a divergence."""
    return text.replace("{", "{{").replace("}", "}}")


def _argument(intrinsic: Intrinsic, position: int, count: int) -> str | None:
    """Return the user's name of an argument of a load or store of a tile."""
    if intrinsic.name == "tile.load":  # then come the indices
        return ("array", "other", "at")[min(position, 2)]
    if intrinsic.name == "tile.store":
        return "array" if position == 0 else "at" if position < count - 1 else "tile"
    return None


# Check that every block of a launch takes its part of a chain, and says what it has, once.
#
# A block that does not is waited for by those that follow it, and permanently.


def _check_chains(
    function: Function, spec: Specialization, problems: Iterable[BarrierProblem]
) -> None:
    """Refuse chains that not every block of a launch goes through once.

    - `function`: a kernel with chains.
    - `spec`: specialization for which it was read.
    - `problems`: barriers that threads of the grid may not reach.
    - raises `UnsupportedConstructError` for an operation in a loop or under a condition, and for a
      state that is named twice. For operations before a part is taken. For a state that is only
      counted: the last block that looks back begins the count of the next launch. For a value that
      is published too late, or otherwise than it is given to ``chain.before``.
    """
    seen: set[tuple[Typing | None, Any]] = set()
    for operation, in_loop in _operations(function.body, in_loop=False):
        name, state = _typing(operation), _key(operation.operands[0])
        called = f"kd.{operation.name}"
        names = {each for each, _ in seen}
        if in_loop:
            _fail(operation, f"{called} is in a loop", "Call it once, outside of the loop")
        if name is not Typing.CHAIN_NEXT and Typing.CHAIN_NEXT not in names:
            what = f"{called} is called in front of kd.chain.next"
            _fail(operation, what, "Give it the part that kd.chain.next(state) gave")
        if name is Typing.CHAIN_NEXT and Typing.CHAIN_PUBLISH in names:
            what = "kd.chain.next is called behind kd.chain.publish"
            _fail(operation, what, "Take all parts before a value is published")
        if name is Typing.CHAIN_PUBLISH and (Typing.CHAIN, state) in seen:
            what = "kd.chain.publish is called behind kd.chain.before"
            _fail(operation, what, "Publish the value before what is before it is asked for")
        if (name, state) in seen:
            what = f"{called} is called a second time with the state {_state(operation)}"
            _fail(operation, what, "Give it a state of its own, or combine both values by an op")
        seen.add((name, state))
    accesses = Accesses(function, spec.kinds, Promises(is_disjoint=True))
    operations = [each for each, _ in _operations(function.body, in_loop=False)]
    _check_ended(operations, accesses)
    _check_published(operations, accesses)
    for problem in problems:
        raise UnsupportedConstructError(
            "an operation of kd.chain may not be reached by every thread of the launch: "
            f"{problem.what}",
            where=problem.where,
            limit="A block waits for earlier blocks, forever if one of them does not reach it",
            remedy="Let every thread reach it: a block with nothing to add passes the identity, "
            "such as 0. Conditions around it may depend on arguments only",
            chain=problem.chain,
        )


def _chain_states(function: Function) -> frozenset[int]:
    """Find the parameters that are, as they are, states of chains in every launch.

    What is under a condition may not be reached, and of a part of an array the size is not known.
    """
    parameters = function.body.arguments
    return frozenset(
        parameters.index(operation.operands[0])
        for operation in function.body.operations
        if _typing(operation) is not None and operation.operands[0] in parameters
    )


def _check_ended(operations: list[Operation], accesses: Accesses) -> None:
    """Refuse a state that parts are taken from or published, and not given to ``chain.before``."""
    ended = {
        owner
        for each in operations
        if _typing(each) is Typing.CHAIN
        for owner in accesses.owners(each.operands[0])
    }
    for each in operations:
        typing = _typing(each)
        if typing is Typing.CHAIN or accesses.owners(each.operands[0]) & ended:
            continue
        if typing is Typing.CHAIN_NEXT:
            what = f"{_state(each)} is given to kd.chain.next and not to chain.before"
            remedy = "Take a number with kd.atomic.add, from a counter that is 0 before each launch"
        else:
            what = f"{_state(each)} is given to kd.chain.publish and not to chain.before"
            remedy = "Call kd.chain.before with the same state, part and value behind it"
        _fail(each, what, remedy)


def _check_published(operations: list[Operation], accesses: Accesses) -> None:
    """Refuse a value that is published otherwise than it is given to ``chain.before``.

    Later blocks would wait for words that are not written.
    """
    pairs = [
        (early, later)
        for early in operations
        for later in operations
        if (_typing(early), _typing(later)) == (Typing.CHAIN_PUBLISH, Typing.CHAIN)
        and accesses.owners(early.operands[0]) & accesses.owners(later.operands[0])
    ]
    for early, later in pairs:
        if bool(early.regions) != bool(later.regions):
            what = "kd.chain.publish and kd.chain.before of one state differ in op"
            _fail(early, what, "Give both the same op, or none")
    for early, later in pairs:
        dtype, wanted = early.operands[2].type, later.operands[2].type
        if dtype != wanted:
            what = f"kd.chain.publish has a value of {dtype}, and kd.chain.before of {wanted}"
            _fail(early, what, "Give both the same value, held in a variable")


def _operations(region: Region, *, in_loop: bool) -> Iterator[tuple[Operation, bool]]:
    """Yield operations of chains in their order, and whether they are in a loop."""
    for operation in region.operations:
        for inner in operation.regions:
            yield from _operations(inner, in_loop=in_loop or operation.name in LOOPS)
        if _typing(operation) is not None:
            yield operation, in_loop


def _typing(operation: Operation) -> Typing | None:
    use = operation.attributes.get("use")
    if not isinstance(use, IntrinsicUse) or not use.intrinsic.is_of_chain:
        return None
    return use.intrinsic.typing


def _key(state: Value) -> Any:
    """Return what is equal for values with the same computation."""
    made = state.owner
    if not isinstance(made, Operation) or made.regions or made.effect:
        return state
    constant = made.attributes.get("value") if made.name == "const" else None
    return made.name, state.type, constant, *map(_key, made.operands)


def _state(operation: Operation) -> str:
    """Return the state of a chain as the user wrote it."""
    state: str = operation.source.argument(0).text
    return state


def _fail(operation: Operation, what: str, remedy: str) -> NoReturn:
    raise UnsupportedConstructError(
        what,
        where=operation.source.where,
        limit="Each block of a launch takes one part of a chain, and says once what it has",
        remedy=remedy,
    )
