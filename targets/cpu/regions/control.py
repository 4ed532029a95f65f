"""Branches, labeled operations and loops with a barrier inside.

The block runs them. If threads leave a loop at different times, the block runs it as long as any
thread is in it. Those that have left are masked.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from kerneldsl.ir.operations import LOOPS, Effect, Operation, Region, Value, handed_on
from kerneldsl.ir.recognize import constant_number
from kerneldsl.ir.rewriter import Builder, clone_region, replace_values
from kerneldsl.language.intrinsics.barriers import grid_group
from targets.cpu.regions.masks import (
    Code,
    Frame,
    Mask,
    closed,
    constant,
    diverges,
    frames_left,
    is_left_together,
    leave_if_empty,
    mask_inside,
    store,
)

if TYPE_CHECKING:
    from targets.cpu.regions.fission import Fission

__all__ = ["GRID_BARRIER", "split_branch", "split_labeled", "split_loop"]

#: Name of the barrier of the grid.
GRID_BARRIER = grid_group.sync.name


def split_branch(fission: Fission, operation: Operation, code: Code) -> None:
    """Split a branch of the block, or one that some threads take."""
    if fission.is_uniform(operation.operands[0]):
        _branch_of_block(fission, operation, code)
    else:
        _branch_of_threads(fission, operation, code)


def _branch_of_block(fission: Fission, operation: Operation, code: Code) -> None:
    condition = fission.of_block(operation.operands[0], code)
    fission.flush(code)
    kept = [n for n, value in enumerate(operation.results) if fission.keeps(value)]
    slots = _slots_of_results(fission, operation, kept)
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


def _branch_of_threads(fission: Fission, operation: Operation, code: Code) -> None:
    (condition,) = operation.operands
    fission.flush(code)
    slots = _slots_of_results(fission, operation, [])
    for number, region in enumerate(operation.regions):
        if len(region.operations) == 1 and not region.is_left and not slots:
            continue
        mask = Mask(condition, is_negated=number == 1)
        fission.masks.append(mask)
        inner = Code()
        is_skipped = any(map(_acts_as_block, region.operations))
        is_any = fission.any_thread(code) if is_skipped else None
        fission.split(region.operations, inner)
        _store_results(fission, region, slots, [], inner)
        fission.masks.remove(mask)
        if is_any is None:
            code.out += inner.out
            continue
        regions = [closed(inner.out, []), Region.of([])]
        code.out.append(Operation("if", [is_any], (), None, regions))


def _acts_as_block(operation: Operation) -> bool:
    """Return whether the block does what it must not, or need not, if no thread is here."""
    effects = operation.effects()
    return bool(effects & Effect.BLOCK) or any(
        each.name == "syncthreads" or each.name in LOOPS for each in operation.walk()
    )


def _slots_of_results(fission: Fission, operation: Operation, kept: list[int]) -> dict[int, Value]:
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
    slots = _slots_of_results(fission, operation, [])
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


# -- loops ----------------------------------------------------------------------------------------


#: Operands before those that a loop carries, and arguments of its body.
_FIRST = {"while": 0, "for": 3, "for_each": 0}
_HEAD = {"while": 0, "for": 1, "for_each": 1}


def split_loop(fission: Fission, operation: Operation, code: Code) -> list[Operation]:
    """Split a loop; return operations to split in its place, if there are any."""
    crosses = any(each.name == GRID_BARRIER for each in operation.walk())
    if operation.name == "for_each" and (crosses or "values" not in operation.attributes):
        return _unrolled(fission, operation)
    left = [] if _is_left_together(fission, operation) else frames_left(fission, operation)
    for frame in left:
        fission.checked = []  # in later iterations all threads may have left
        mask_inside(fission, frame)
    if not crosses and _is_of_block(fission, operation, left):
        if operation.name != "while" or fission.has_values:
            _of_block(fission, operation, code, is_left=bool(left))
            return []
        crosses = True  # its test reads values that only threads have
    if operation.name == "for":
        operation = _as_while(fission, operation)
    _by_its_test(fission, operation, code, is_together=crosses, is_left=bool(left))
    return []


def _is_of_block(fission: Fission, operation: Operation, left: list[Frame]) -> bool:
    """Return whether all threads run a loop as often."""
    if operation.name == "for_each":
        return True
    if operation.name == "for":
        return all(map(fission.is_uniform, operation.operands[:3])) or fission.waits(operation)
    if left and not (fission.innermost and is_left_together(fission, fission.innermost)):
        return False
    before = operation.regions[0]
    return not before.effects() and all(
        fission.is_uniform(value) for each in before.walk() for value in each.results
    )


def _is_left_together(fission: Fission, operation: Operation) -> bool:
    """Return whether threads leave what is around a loop together, if they leave it."""
    frames = frames_left(fission, operation)
    return all(is_left_together(fission, frame) for frame in frames) and not diverges(
        fission, operation
    )


def _of_block(fission: Fission, operation: Operation, code: Code, *, is_left: bool) -> None:
    """Split a loop that all threads run as often."""
    first, head = _FIRST[operation.name], _HEAD[operation.name]
    body = operation.regions[-1]
    arguments = body.arguments[head:]
    kept = [n for n, value in enumerate(arguments) if fission.keeps(value)]
    slots = {}
    for number, argument in enumerate(arguments):
        if number in kept:
            continue
        slots[number] = slot = fission.slot(argument.type, argument.name or "carried")
        fission.slot_of[argument] = fission.slot_of[operation.results[number]] = slot
        code.group.append(store(slot, operation.operands[first + number]))
    carried = [operation.operands[first + number] for number in kept]
    operands = [fission.of_block(each, code) for each in operation.operands[:first] + carried]
    fission.flush(code)
    inner, made = Code(), Region()
    made.arguments = [*body.arguments[:head], *(arguments[n] for n in kept)]
    regions = [made]
    if operation.name == "while":
        before = operation.regions[0]
        before.arguments = [before.arguments[n] for n in kept]
        inner_values = {*before.arguments, *(v for each in before.walk() for v in each.results)}
        outside = {v for each in before.walk() for v in each.operands} - inner_values
        replace_values(before, {value: fission.of_block(value, code) for value in outside})
        fission.available.update(before.arguments)
        regions.insert(0, before)
    fission.available.update(made.arguments)
    fission.scopes.update(dict.fromkeys(body.arguments[:head], fission.uniform))
    fission.split(body.operations, inner)
    if body.is_left:
        undefined = [Operation("undefined", [], (arguments[n].type,)) for n in kept]
        given = [each.result for each in undefined]
        fission.flush(inner)
    else:
        undefined = []
        given = [fission.of_block(body.yielded[number], inner) for number in kept]
        inner.group += [store(slot, body.yielded[number]) for number, slot in slots.items()]
        fission.flush(inner)
    if is_left:
        leave_if_empty(fission, inner)
    made.operations = closed([*inner.out, *undefined], given).operations
    for value in made.arguments:
        value.owner = made
    again = Operation(
        *(operation.name, operands, (), operation.attributes, regions),
        place=operation.place,
    )
    fission.take_results(again, operation, kept)
    code.out.append(again)


def _by_its_test(
    fission: Fission, operation: Operation, code: Code, *, is_together: bool, is_left: bool
) -> None:
    """Split a loop with a test that threads compute.

    Threads leave it at different times, unless they leave it together. In a kernel with barriers of
    the grid they then give the block the test.
    """
    before, body = operation.regions
    mask = None if is_together else Mask(fission.flag("inside"), is_slot=True, is_of_loop=True)
    slots = _slots(fission, operation)
    code.group += map(store, slots, operation.operands)
    fission.flush(code)
    if mask is not None:
        no, yes = constant(False), constant(True)
        code.out.append(fission.loop([no, store(mask.condition, no.result)], []))
        code.group += [yes, store(mask.condition, yes.result)]
        fission.flush(code)
        fission.masks.append(mask)
    head, inner = Code(), Code()
    fission.split(before.operations, head)
    if mask is None:
        goes_on = fission.of_block(before.yielded[0], head)
    else:
        head.group.append(store(mask.condition, before.yielded[0]))
        fission.flush(head)
        goes_on = fission.any_thread(head)
    fission.split(body.operations, inner)
    if not body.is_left:
        inner.group += map(store, slots, body.yielded)
    fission.flush(inner)
    if mask is not None:
        fission.masks.remove(mask)
    elif is_left:
        leave_if_empty(fission, inner)
    regions = [closed(head.out, [goes_on]), closed(inner.out, [])]
    made = Operation("while", [], (), operation.attributes, regions, place=operation.place)
    code.out.append(made)


def _slots(fission: Fission, operation: Operation) -> list[Value]:
    """Return slots of what a loop with a test carries."""
    slots = []
    for values, _ in handed_on(operation):
        slots.append(fission.slot(values[0].type, values[0].name or "carried"))
        fission.slot_of.update(dict.fromkeys(values, slots[-1]))
    return slots


def _as_while(fission: Fission, operation: Operation) -> Operation:
    """Return a loop over a range as one that tests its counter."""
    start, stop, step, *given = operation.operands
    (body,) = operation.regions
    build = Builder(fission.typing)
    before = Region(tuple(value.type for value in body.arguments))
    counter = before.arguments[0]

    def runs(compare: Any, sign: Any) -> Value:
        test = build.numba(compare, counter, stop)
        if constant_number(step) is not None:
            return test
        is_so = build.numba(sign, step, build.constant(0, step.type))
        return build.numba(operator.and_, test, is_so)

    known = constant_number(step)
    if known is None:
        up, down = runs(operator.lt, operator.gt), runs(operator.gt, operator.lt)
        test = build.numba(operator.or_, up, down)
    else:
        test = runs(operator.lt if known > 0 else operator.gt, None)
    before.operations = [*build.operations, Operation("yield", [test])]
    if not body.is_left:
        *operations, end = body.operations
        add = Builder(fission.typing, operations)
        following = add.cast(add.numba(operator.add, body.arguments[0], step), counter.type)
        body.operations = [*operations, Operation("yield", [following, *end.operands])]
    made = Operation("while", [start, *given], (), operation.attributes, [before, body])
    return made.take_results([Value(counter.type, made, counter.name), *operation.results])


def _unrolled(fission: Fission, operation: Operation) -> list[Operation]:
    """Return the body of a loop over values once for each of them."""
    (body,) = operation.regions
    out: list[Operation] = []
    if "values" in operation.attributes:
        build = Builder(fission.typing, out)
        every = [[build.constant(each)] for each in operation.attributes["values"]]
        carried = operation.operands
    else:
        count, width = operation.attributes["count"], operation.attributes["width"]
        starts = range(0, count * width, width)
        every = [operation.operands[start : start + width] for start in starts]
        carried = operation.operands[count * width :]
    for items in every:
        values: dict[Value, Value] = {}
        copy = clone_region(body, values)
        fission.scopes.update(
            (new, fission.scopes[old]) for old, new in values.items() if old in fission.scopes
        )
        replace_values(copy, dict(zip(copy.arguments, [*items, *carried], strict=True)))
        if copy.is_left:
            return out + copy.operations
        out += copy.operations[:-1]
        carried = copy.yielded
    # Casts to the same types give the results their values.
    pairs = zip(operation.results, carried, strict=True)
    return out + [Operation("cast", [value]).take_results([result]) for result, value in pairs]
