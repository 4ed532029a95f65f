"""Branches and labeled operations with a barrier inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from targets.cpu.regions.masks import Code, Frame, Mask, closed, constant, store

if TYPE_CHECKING:
    from targets.cpu.regions.fission import Fission

__all__ = ["split_branch", "split_labeled"]

_LOOPS = ("for", "for_each", "while")


def split_branch(fission: Fission, operation: Operation, code: Code) -> None:
    """Split a branch of the block, or one that some threads take."""
    if fission.is_uniform(operation.operands[0]):
        _of_block(fission, operation, code)
    else:
        _of_threads(fission, operation, code)


def _of_block(fission: Fission, operation: Operation, code: Code) -> None:
    condition = fission.of_block(operation.operands[0], code)
    fission.flush(code)
    kept = [n for n, value in enumerate(operation.results) if fission.keeps(value)]
    slots = _slots(fission, operation, kept)
    regions = []
    for region in operation.regions:
        inner = Code()
        fission.split(region.operations, inner)
        given = _store_results(fission, region, slots, kept, inner)
        regions.append(closed(inner.out, given))
    made = Operation("if", [condition], (), None, regions, place=operation.place)
    fission.take_results(made, operation, kept)
    code.out.append(made)


def _store_results(
    fission: Fission,
    region: Region,
    slots: dict[int, Value],
    kept: list[int],
    code: Code,
) -> list[Value]:
    """Store what a region yields for threads, and return what it yields for the block."""
    if region.is_left:
        fission.flush(code)
        return []
    code.group += [store(slot, region.yielded[number]) for number, slot in slots.items()]
    given = [fission.of_block(region.yielded[number], code) for number in kept]
    fission.flush(code)
    return given


def _of_threads(fission: Fission, operation: Operation, code: Code) -> None:
    (condition,) = operation.operands
    fission.flush(code)
    slots = _slots(fission, operation, [])
    for number, region in enumerate(operation.regions):
        if len(region.operations) == 1 and not region.is_left and not slots:
            continue
        mask = Mask(condition, is_negated=number == 1)
        fission.masks.append(mask)
        inner = Code()
        is_skipped = any(map(_is_of_block, region.operations))
        is_any = fission.any_thread(code) if is_skipped else None
        fission.split(region.operations, inner)
        _store_results(fission, region, slots, [], inner)
        fission.masks.remove(mask)
        if is_any is None:
            code.out += inner.out
            continue
        nothing = Region()
        nothing.operations = [Operation("yield", [])]
        regions = [closed(inner.out, []), nothing]
        code.out.append(Operation("if", [is_any], (), None, regions))


def _is_of_block(operation: Operation) -> bool:
    """Return whether the block does what it must not, or need not, if no thread is here."""
    effects = operation.effects()
    return bool(effects & Effect.BLOCK) or any(
        each.name == "syncthreads" or each.name in _LOOPS for each in operation.walk()
    )


def _slots(fission: Fission, operation: Operation, kept: list[int]) -> dict[int, Value]:
    """Return slots of the results that are not kept for the block, by their numbers."""
    found = {}
    for number, value in enumerate(operation.results):
        if number not in kept:
            found[number] = fission.slot(value.type, value.name or "result")
            fission.slot_of[value] = found[number]
    return found


def split_labeled(fission: Fission, operation: Operation, code: Code) -> None:
    """Split an operation that threads leave from its inside."""
    (region,) = operation.regions
    label = operation.attributes["label"]
    fission.flush(code)
    slots = _slots(fission, operation, [])
    inner = Code()
    outer = fission.innermost
    depth = 0 if outer is None else outer.depth + 1
    frame = Frame(label, depth, len(fission.masks), inner, list(slots.values()))
    fission.frames[label] = fission.innermost = frame
    fission.split(region.operations, inner)
    _store_results(fission, region, slots, [], inner)
    fission.innermost = outer
    del fission.frames[label]
    fission.masks = [mask for mask in fission.masks if mask.frame is not frame]
    if frame.inside is not None:
        yes = constant(True)
        code.out.append(fission.loop([yes, store(frame.inside, yes.result)], []))
    if frame.is_left:
        made = Operation("labeled", [], (), {"label": label}, [closed(inner.out, [])])
        code.out.append(made)
    else:
        code.out += inner.out
