"""Masks: which threads of a block run what is between two barriers; and exits beside barriers.

If all threads that are inside an operation leave it together, by ``return``, ``break`` or
``continue``, the block leaves it. Otherwise a mask keeps those that have left from what remains.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from numba import types

from kerneldsl.ir.operations import Effect, Label, Operation, Region, Value
from kerneldsl.ir.rewriter import if_then
from kerneldsl.utilities.dataclasses import dataclass

if TYPE_CHECKING:
    from targets.cpu.regions.fission import Fission

__all__ = [
    "Code",
    "Frame",
    "Mask",
    "closed",
    "constant",
    "contain",
    "diverges",
    "exits_together",
    "frames_left",
    "is_left_together",
    "leave",
    "leave_if_empty",
    "mask_inside",
    "store",
    "under",
]


@dataclass(eq=False)
class Code:
    """The code of a block that is being written: loops over threads, and what the block does."""

    out: list[Operation] = field(default_factory=list)
    #: Operations of the threads since the last barrier.
    group: list[Operation] = field(default_factory=list)


@dataclass(eq=False)
class Frame:
    """A ``labeled`` operation that is being split."""

    label: Label
    #: Number of those around it.
    depth: int
    #: Number of masks outside of it.
    base: int
    #: The code of its region.
    code: Code
    #: Slots of its results.
    slots: list[Value]
    #: Slot that is true for a thread that has not left, if this must be known.
    inside: Value | None = None
    #: Whether the block leaves the operation.
    is_left: bool = False


@dataclass(eq=False)
class Mask:
    """A condition of each thread: a value, or what is in a slot."""

    condition: Value
    is_slot: bool = False
    is_negated: bool = False
    #: The frame that threads have left if they fail the mask.
    frame: Frame | None = None
    #: Whether the mask implies all masks before it.
    is_of_loop: bool = False


def constant(value: bool) -> Operation:
    """Return an operation that gives a truth value."""
    return Operation("const", [], (types.boolean,), {"value": value})


def store(slot: Value, value: Value) -> Operation:
    """Return an operation that writes the value of a thread."""
    return Operation("slot.store", [slot, value], effect=Effect.WRITE)


def under(masks: list[Mask], operations: list[Operation]) -> list[Operation]:
    """Return operations that run if a thread passes all masks."""
    first = max((n for n, mask in enumerate(masks) if mask.is_of_loop), default=0)
    for mask in reversed(masks[first:]):
        condition = mask.condition
        before = []
        if mask.is_slot:
            kinds = (types.boolean,)
            before = [Operation("slot.load", [condition], kinds, effect=Effect.READ)]
            condition = before[0].result
        branch = if_then(condition, *(((), operations) if mask.is_negated else (operations,)))
        operations = [*before, branch]
    return operations


def closed(operations: list[Operation], yielded: list[Value]) -> Region:
    """Return a region of what a block does; values are not yielded if it never gets to its end."""
    last = operations[-1] if operations else None
    if last is not None and last.name == "leave":
        return Region((), operations)
    if last is not None and _never_ends(last):
        return Region((), [*operations, Operation("unreachable", [], effect=Effect.LEAVE)])
    return Region.of(operations, *yielded)


def _never_ends(operation: Operation) -> bool:
    """Return whether control never gets to what follows an operation."""
    if operation.name == "if":
        return all(region.is_left for region in operation.regions)
    return (
        operation.name == "labeled" and operation.regions[0].is_left and not any(operation.leaves())
    )


# -- exits -----------------------------------------------------------------------------------------


def frames_left(fission: Fission, operation: Operation) -> list[Frame]:
    """Return the operations around an operation that control leaves from inside it."""
    labels = dict.fromkeys(
        each.attributes["label"] for each in operation.walk() if each.name == "leave"
    )
    return [fission.frames[label] for label in labels if label in fission.frames]


def is_left_together(fission: Fission, frame: Frame) -> bool:
    """Return whether all threads that are in a frame are also here."""
    return all(
        mask.frame is not None and mask.frame.depth <= frame.depth
        for mask in fission.masks[frame.base :]
    )


def exits_together(fission: Fission, operation: Operation) -> bool:
    """Return whether the block takes a branch that leaves an operation around it."""
    return (
        operation.name == "if"
        and fission.is_uniform(operation.operands[0])
        and all(is_left_together(fission, frame) for frame in frames_left(fission, operation))
        and not diverges(fission, operation)
    )


def diverges(fission: Fission, operation: Operation) -> bool:
    """Return whether threads go different ways inside an operation, and may leave others there."""
    for region in operation.regions:
        for each in region.operations:
            if not any(inner.name == "leave" for inner in each.walk()):
                continue
            if not all(map(fission.is_uniform, _decisive(each))) or diverges(fission, each):
                return True
    return False


def _decisive(operation: Operation) -> list[Value]:
    """Return the values by which control goes one way or another."""
    if operation.name == "while":
        return operation.regions[0].yielded
    return operation.operands[: {"if": 1, "for": 3}.get(operation.name, 0)]


def leave(fission: Fission, operation: Operation, code: Code) -> None:
    """Leave an operation around this one, with all threads that are here."""
    frame = fission.frames[operation.attributes["label"]]
    code.group += map(store, frame.slots, operation.operands)
    if is_left_together(fission, frame):
        fission.flush(code)
        frame.is_left = True
        code.out.append(_leave(frame.label))
        return
    code.group += _left(fission, frame)
    fission.flush(code)
    fission.checked = []
    mask_inside(fission, frame)


def contain(fission: Fission, operation: Operation, code: Code) -> None:
    """Let threads leave operations from inside one that has no barrier."""
    frames = frames_left(fission, operation)
    fission.checked = []
    mask = _plain_exit(fission, operation, code)
    if mask is not None:
        fission.flush(code)
        fission.masks.append(mask)
    else:
        code.group.append(_contained(fission, operation))
        fission.flush(code)
        for frame in frames:
            mask_inside(fission, frame)
    leave_if_empty(fission, code)


def leave_if_empty(fission: Fission, code: Code) -> None:
    """Leave the innermost operation if no thread remains in it."""
    frame = fission.innermost
    if frame is None or not is_left_together(fission, frame):
        return
    is_any = fission.any_thread(code)
    regions = [Region.of([]), Region((), [_leave(frame.label)])]
    frame.is_left = True
    code.out.append(Operation("if", [is_any], (), None, regions))
    fission.checked = list(fission.masks)


def mask_inside(fission: Fission, frame: Frame) -> None:
    """Keep threads that have left an operation from what remains of it."""
    if all(mask.frame is not frame or not mask.is_slot for mask in fission.masks):
        fission.masks.append(Mask(_inside(fission, frame), is_slot=True, frame=frame))


def _inside(fission: Fission, frame: Frame) -> Value:
    """Return the slot that says whether a thread has not left a frame."""
    if frame.inside is None:
        frame.inside = fission.flag("inside")
    return frame.inside


def _left(fission: Fission, frame: Frame) -> list[Operation]:
    """Return what a thread does that leaves a frame, and the loops in it, by itself."""
    no = constant(False)
    flags = [_inside(fission, frame)]
    flags += [mask.condition for mask in fission.masks[frame.base :] if mask.is_of_loop]
    return [no, *(store(flag, no.result) for flag in flags)]


def _leave(label: Label) -> Operation:
    return Operation("leave", [], (), {"label": label}, effect=Effect.LEAVE)


def _plain_exit(fission: Fission, operation: Operation, code: Code) -> Mask | None:
    """Return the mask of ``if condition: return``, which needs no flag; store what it gives."""
    if operation.name != "if" or operation.results:
        return None
    ends = [region.operations for region in operation.regions]
    number = next((n for n, each in enumerate(ends) if each[0].name == "leave"), None)
    if number is None or len(ends[1 - number]) > 1 or ends[1 - number][0].name == "leave":
        return None
    frame = fission.frames.get(ends[number][0].attributes["label"])
    if frame is None or frame.code is not code:
        return None
    given = ends[number][0].operands
    if given:
        operation.regions[number] = Region.of(map(store, frame.slots, given))
        code.group.append(operation)
    return Mask(operation.operands[0], is_negated=number == 0, frame=frame)


def _contained(fission: Fission, operation: Operation) -> Operation:
    """Return a separate labeled operation around one, which is all that is left."""
    label = Label("left")
    results = operation.results
    operation.results = [Value(each.type, operation, each.name) for each in results]
    _redirect(fission, operation, label, [each.type for each in results])
    region = closed([operation], operation.results)
    made = Operation("labeled", [], (), {"label": label}, [region], place=operation.place)
    return made.take_results(results)


def _redirect(fission: Fission, operation: Operation, label: Label, kinds: list[object]) -> None:
    """Store what leaving gives, and leave an operation inside instead, in place."""
    for region in operation.regions:
        for each in region.operations[:-1]:
            _redirect(fission, each, label, kinds)
        last = region.operations[-1]
        frame = fission.frames.get(last.attributes["label"]) if last.name == "leave" else None
        if frame is None:
            if last.name not in ("leave", "yield", "unreachable"):
                _redirect(fission, last, label, kinds)
            continue
        undefined = [Operation("undefined", [], (kind,)) for kind in kinds]
        end = _leave(label)
        end.operands = [each.result for each in undefined]
        region.operations[-1:] = [
            *map(store, frame.slots, last.operands),
            *_left(fission, frame),
            *undefined,
            end,
        ]
