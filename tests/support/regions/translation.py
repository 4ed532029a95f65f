"""From a function of the region IR to a Python generator of one thread.

A value is a variable, an operation a call of its meaning (:mod:`.numbers`, :mod:`.arrays`,
:mod:`.words`), and what threads wait at is a ``yield`` that :class:`tests.support.simt.Launch`
answers. A :class:`Watch` sees each value that is assigned.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from kerneldsl.ir.operations import Function, Operation, Region, Value
from tests.support.regions.arrays import ARRAY_OPERATIONS
from tests.support.regions.numbers import constant, converter, dtype_of, numba_function, undefined
from tests.support.regions.tiles import TILE_OPERATIONS
from tests.support.regions.words import word
from tests.support.simt import MEETINGS, Body, Thread

__all__ = ["Watch", "translate"]


class Watch(Protocol):
    """Looks at the values of a run."""

    def begin(self) -> None:
        """Forget the values of other launches."""

    def check(self, value: Value, *, is_of_thread: bool) -> Callable[[Any, Thread], None] | None:
        """Return what is called with each number that a value is, or ``None``.

        What is no thread's is computed once for each element of a tile, or pair of values.
        """


def translate(function: Function, watch: Watch | None = None) -> Callable[..., Body]:
    """Return a generator function of a thread and the arguments.

    Raises :class:`~.numbers.NotInterpretedError` for an operation without a known meaning.
    """
    return _Translator(watch).function(function)


class _Translator:
    def __init__(self, watch: Watch | None) -> None:
        self.watch = watch
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[Value, str] = {}
        self.space: dict[str, Any] = {}
        self.numbers = itertools.count()
        #: Whether turns of loops are counted: lanes meet in the same turn.
        self.counts_turns = False
        #: Loops of the text around what is written: each with the labels that are left through it.
        self.loops: list[tuple[Any, set[str]]] = []
        self.labels: dict[Any, tuple[str, Operation]] = {}
        self.is_in_function = False

    def function(self, function: Function) -> Callable[..., Body]:
        self.counts_turns = self.watch is not None or any(
            operation.name in MEETINGS for operation in function.body.walk()
        )
        arguments = ", ".join(self.name(value) for value in function.body.arguments)
        self.lines.append(f"def run(thread, {arguments}):")
        self.line("turns = thread.turns")
        for value in function.body.arguments:
            self.seen(value)
        self.region(function.body)
        self.line("if False: yield")
        text = "\n".join(self.lines)
        exec(compile(text, f"<regions of {function.name}>", "exec"), self.space)
        run: Callable[..., Body] = self.space["run"]
        return run

    # -- text -------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append(" " * self.depth + text)

    def name(self, value: Value) -> str:
        return self.names.setdefault(value, f"v{len(self.names)}")

    def outside(self, thing: Any) -> str:
        """Return a name for an object that the text reads."""
        name = f"f{len(self.space)}"
        self.space[name] = thing
        return name

    def assign(self, targets: list[str], texts: list[str]) -> None:
        """Assign all at once."""
        if targets:
            self.line(f"{', '.join(targets)} = {', '.join(texts)}")

    def define(self, values: list[Value], texts: list[str]) -> None:
        """Assign values, and let the watch see them."""
        self.assign([*map(self.name, values)], texts)
        for value in values:
            self.seen(value)

    def seen(self, value: Value) -> None:
        if self.watch is None:
            return
        check = self.watch.check(value, is_of_thread=not self.is_in_function)
        if check is not None:
            self.line(f"{self.outside(check)}({self.name(value)}, thread)")

    # -- regions ----------------------------------------------------------------------------------

    def region(self, region: Region) -> list[str] | None:
        """Write a region; return the names of what it yields, ``None`` if control leaves it."""
        for operation in region.operations:
            if operation.name == "yield":
                return [self.name(value) for value in operation.operands]
            self.operation(operation)
        return None

    def operation(self, operation: Operation) -> None:
        write = getattr(self, f"write_{operation.name.replace('.', '_')}", None)
        if write is not None:
            write(operation)
            return
        of_tiles = TILE_OPERATIONS.get(operation.name)
        if of_tiles is not None:
            of_tiles(self, operation)
            return
        found = ARRAY_OPERATIONS.get(operation.name)
        if found is not None:
            self.call(operation, found(operation))
            return
        self.language(operation)

    def call(self, operation: Operation, function: Callable[..., Any], first: str = "") -> None:
        """Write an operation as a call with its operands."""
        given = ", ".join([*([first] if first else []), *map(self.name, operation.operands)])
        text = f"{self.outside(function)}({given})"
        if operation.results:
            self.define(operation.results, [text])
        else:
            self.line(text)

    def language(self, operation: Operation) -> None:
        found = word(operation, next(self.numbers))
        if not found.is_stop:
            self.call(operation, found.function, "thread")
            return
        functions = [self.closure(region) for region in operation.regions]
        given = ", ".join([*map(self.name, operation.operands), *(f"op={f}" for f in functions)])
        place = repr(found.place)
        if operation.name in MEETINGS:
            name, position = found.place
            place = f"({name!r}, (*turns, ({position}, 0)))"
        stop = f"(yield ({place}, {self.outside(found.arguments)}({given})))"
        if operation.results:
            self.define(operation.results, [f"{self.outside(found.function)}({stop})"])
        else:
            self.line(stop)

    def stop(self, word: str, given: list[str]) -> str:
        """Return the text of a stop of all threads of a block, whose value is the answer."""
        arguments = "".join(f"{each}, " for each in given)
        return f"(yield (({word!r}, {next(self.numbers)}), ({arguments})))"

    def closure(self, region: Region) -> str:
        """Write a region as a function; return its name."""
        name = f"r{next(self.numbers)}"
        outer = self.loops, self.is_in_function
        self.loops, self.is_in_function = [], True
        arguments = ", ".join(map(self.name, region.arguments))
        self.line(f"def {name}({arguments}):")
        self.depth += 1
        for value in region.arguments:
            self.seen(value)
        found = self.region(region)
        assert found is not None
        self.line(f"return {', '.join(found)}")
        self.depth -= 1
        self.loops, self.is_in_function = outer
        return name

    # -- operations of the IR itself --------------------------------------------------------------

    def write_const(self, operation: Operation) -> None:
        value = constant(operation.attributes["value"], operation.result.type)
        self.define(operation.results, [self.outside(value)])

    def write_undefined(self, operation: Operation) -> None:
        self.define(operation.results, [self.outside(undefined(operation.result.type))])

    def write_bound(self, operation: Operation) -> None:
        """Nothing: the call of a method has what the method is of as its first operand."""

    def write_cast(self, operation: Operation) -> None:
        (value,) = operation.operands
        self.call(operation, converter(value.type, operation.result.type))

    def write_numba(self, operation: Operation) -> None:
        attributes = operation.attributes
        kinds = [value.type for value in operation.operands]
        self.call(operation, numba_function(attributes["function"], attributes["signature"], kinds))

    def write_if(self, operation: Operation) -> None:
        for head, region in zip(
            (f"if {self.name(operation.operands[0])}:", "else:"), operation.regions, strict=True
        ):
            self.line(head)
            self.depth += 1
            found = self.region(region)
            if found is not None:
                self.assign([*map(self.name, operation.results)], found)
            self.line("pass")
            self.depth -= 1
        for value in operation.results:
            self.seen(value)

    # -- what control leaves ----------------------------------------------------------------------

    def loop(self, label: Any, head: str, body: Callable[[], None]) -> None:
        """Write a loop of the text."""
        left: set[str] = set()
        self.loops.append((label, left))
        self.line(head)
        self.depth += 1
        body()
        self.depth -= 1
        self.loops.pop()
        if label is None and self.counts_turns:
            self.line("turns.pop()")
        for flag in sorted(left):
            self.line(f"if {flag}: break")

    def write_labeled(self, operation: Operation) -> None:
        label = operation.attributes["label"]
        flag = f"left{len(self.labels)}"
        self.labels[label] = flag, operation
        (region,) = operation.regions
        self.line(f"{flag} = False")

        def body() -> None:
            found = self.region(region)
            if found is not None:
                self.assign([*map(self.name, operation.results)], found)
            self.line("break")

        self.loop(label, "while True:", body)
        for value in operation.results:
            self.seen(value)

    def write_leave(self, operation: Operation) -> None:
        label = operation.attributes["label"]
        flag, left = self.labels[label]
        self.assign([*map(self.name, left.results)], [*map(self.name, operation.operands)])
        inner = itertools.takewhile(lambda each: each[0] is not label, reversed(self.loops))
        for number, (_, flags) in enumerate(inner):
            if number == 0:
                self.line(f"{flag} = True")
            flags.add(flag)
        self.line("break")

    def write_unreachable(self, operation: Operation) -> None:
        self.line("raise AssertionError('control reaches what is marked as unreachable')")

    # -- loops ------------------------------------------------------------------------------------

    def turns(self, head: str, body: Callable[[], None]) -> None:
        """Write a loop with a count of its turns."""
        place = next(self.numbers)

        def turn() -> None:
            if self.counts_turns:
                self.line(f"turns[-1] = ({place}, turns[-1][1] + 1)")
            body()
            self.line("pass")

        if self.counts_turns:
            self.line(f"turns.append(({place}, -1))")
        self.loop(None, head, turn)

    def carry(self, given: list[str]) -> list[str]:
        """Return variables of the text with what the next turn of a loop begins with."""
        carried = [f"c{next(self.numbers)}" for _ in given]
        self.assign(carried, given)
        return carried

    def write_while(self, operation: Operation) -> None:
        before, body = operation.regions
        carried = self.carry([*map(self.name, operation.operands)])

        def turn() -> None:
            self.define(before.arguments, carried)
            condition = self.region(before)
            assert condition is not None
            self.line(f"if not {condition[0]}: break")
            self.define(body.arguments, [*map(self.name, before.arguments)])
            found = self.region(body)
            if found is not None:
                self.assign(carried, found)

        self.turns("while True:", turn)
        self.define(operation.results, carried)

    def write_for(self, operation: Operation) -> None:
        start, stop, step, *given = map(self.name, operation.operands)
        (body,) = operation.regions
        kind = dtype_of(body.arguments[0].type).type
        numbers = f"{self.outside(_numbers)}({start}, {stop}, {step}, {self.outside(kind)})"
        self.counted(operation, numbers, given, body.arguments[:1])

    def write_for_each(self, operation: Operation) -> None:
        (body,) = operation.regions
        operands = [*map(self.name, operation.operands)]
        values = operation.attributes.get("values")
        if values is not None:
            kind = body.arguments[0].type
            numbers = self.outside(tuple(constant(each, kind) for each in values))
            self.counted(operation, numbers, operands, body.arguments[:1])
            return
        width = operation.attributes["width"]
        count = operation.attributes["count"] * width
        rows = (operands[at : at + width] for at in range(0, count, width))
        text = ", ".join(f"({', '.join(row)},)" if width > 1 else row[0] for row in rows)
        self.counted(operation, f"({text},)", operands[count:], body.arguments[:width])

    def counted(
        self, operation: Operation, numbers: str, given: list[str], counters: list[Value]
    ) -> None:
        (body,) = operation.regions
        arguments = body.arguments[len(counters) :]
        carried = self.carry(given)

        def turn() -> None:
            for value in counters:
                self.seen(value)
            self.define(arguments, carried)
            found = self.region(body)
            if found is not None:
                self.assign(carried, found)

        self.turns(f"for {', '.join(map(self.name, counters))} in {numbers}:", turn)
        self.define(operation.results, carried)


def _numbers(start: Any, stop: Any, step: Any, kind: Any) -> Iterator[Any]:
    return map(kind, range(int(start), int(stop), int(step)) if step else ())
