"""Give each private variable that outlives an item storage, by the types that Numba infers.

Most variables have one type wherever they are stored; Numba infers it with the types of the code
that has the slots (:meth:`SlotPlacer.place_open`). If that fails, a function is typed
before in which one thread runs the items, with probes of its variables (:meth:`SlotPlacer.place`).

A slot is narrowed if its only use is a narrower store. Numba types
``value = sums[t] + sums[t - step]`` as int64. If a barrier follows, and the value is then stored in
an array of int32 alone, only its lower half counts. A slot of int32 takes half of the memory, and
vectors hold twice as many.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, NamedTuple

from kerneldsl.analysis.expressions import index_parts, loaded_names
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load
from kerneldsl.frontend.trees import walk_here
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.codegen.emit import ItemWriter
from targets.cpu.codegen.storage import SCRATCH, Storage
from targets.cpu.passes.interchange import peel
from targets.cpu.passes.items import Item, Threads, Vote, items_of_threads
from targets.cpu.passes.liveness import Liveness, Slot

__all__ = ["ProbeWriter", "SlotPlacer", "slot_statements", "stored_widths"]


@dataclass(frozen=True)
class SlotPlacer:
    """Places slots in the storage of a block."""

    #: What the slot of a variable has a value for: threads along z, y and x, or lanes of a strip.
    dims_of: Callable[[str], tuple[int, ...]]
    names: FreshNames
    storage: Storage
    #: Of the generated code, which is given the operations that make slots.
    namespace: dict[str, Any]
    #: Variables that hold integers of 32 bits alone, whatever their type.
    small: frozenset[str]
    #: Variables of which what such an element holds is all that counts, to its dtype.
    widths: Mapping[str, str]

    def place(
        self, probes: Mapping[Item, _Probe], found: Mapping[str, Any]
    ) -> tuple[dict[str, Slot], dict[Item, dict[str, int]]]:
        """Return the slots of variables, and of each item which type its variables have.

        `found` has Numba's types of the probes' variables.
        """
        from numba import types as numba_types

        from targets.cpu.intrinsics.typing_hints import UnknownType

        kinds: dict[str, list[Any]] = {}
        fetched: dict[Item, dict[str, int]] = {}
        for item, (probe, names) in probes.items():
            # Numba drops what a constant condition rules out: nothing is stored there, or fetched.
            elements = found.get(probe, (UnknownType(),) * len(names))
            fetched[item] = {}
            for name, element in zip(names, elements, strict=True):
                plain = numba_types.unliteral(element)
                known = kinds.setdefault(name, [])
                if isinstance(plain, UnknownType):
                    fetched[item][name] = 0  # any will do: nothing has been stored
                    continue
                if plain not in known:
                    known.append(plain)
                fetched[item][name] = known.index(plain)
        # Without a type a variable never has a value where an item begins.
        return {name: self._slot(name, each) for name, each in kinds.items() if each}, fetched

    def place_open(
        self, items: Sequence[Item], liveness: Liveness
    ) -> tuple[dict[str, Slot], dict[Item, dict[str, int]]]:
        """Return the same for slots with open types, which Numba infers while it types the code.

        The code is compiled, or fails with :class:`~targets.cpu.intrinsics.slots.OpenSlotError`.
        """
        from targets.cpu.intrinsics.slots import open_slot_maker

        slots: dict[str, Slot] = {}
        fetched: dict[Item, dict[str, int]] = {}
        for item in items_of_threads(items):
            names = sorted(liveness.loads(item))
            fetched[item] = dict.fromkeys(names, 0)
            for name in names:
                if name not in slots:
                    slot = slots[name] = self._names_of_slots(name, 1)
                    (maker,) = slot.makers
                    self.namespace[maker] = open_slot_maker(
                        maker, self.dims_of(name), self.storage, partial(self._kept, name)
                    )
        return slots, fetched

    def _narrowed(self, name: str, element: Any) -> Any:
        """Return the type in which a variable is kept."""
        from numba import types as numba_types

        from kerneldsl.lowering.types import element_type

        if name not in self.widths or not isinstance(element, numba_types.Integer):
            return element
        stored = element_type(self.widths[name])
        return stored if stored.bitwidth < element.bitwidth else element

    def _kept(self, name: str, element: Any) -> tuple[Any, bool]:
        """Return the type in which values are kept, and whether they are narrow integers."""
        from numba import types as numba_types

        kept = self._narrowed(name, element)
        return kept, name in self.small and kept == numba_types.int64

    def _slot(self, name: str, elements: list[Any]) -> Slot:
        from targets.cpu.intrinsics.slots import slot_bytes, slot_maker

        dims = self.dims_of(name)
        slot = self._names_of_slots(name, len(elements))
        for maker, element in zip(slot.makers, elements, strict=True):
            kept, is_narrow = self._kept(name, element)
            offset = self.storage.place(slot_bytes(kept, dims, is_narrow=is_narrow))
            self.namespace[maker] = slot_maker(kept, dims, offset, is_narrow=is_narrow)
        return slot

    def _names_of_slots(self, name: str, count: int) -> Slot:
        made = [
            (self.names.make(f"slot_{name}"), self.names.make(f"make_slot_{name}"))
            for _ in range(count)
        ]
        return Slot(tuple(slot for slot, _ in made), tuple(maker for _, maker in made))


def slot_statements(slots: Mapping[str, Slot]) -> list[ast.stmt]:
    """Return the statements that make slots."""
    return [
        assign(name, call(maker, load(SCRATCH)))
        for slot in slots.values()
        for name, maker in zip(slot.names, slot.makers, strict=True)
    ]


def stored_widths(
    items: Sequence[Item], liveness: Liveness, arrays: Mapping[str, tuple[str, int]]
) -> dict[str, str]:
    """Return the dtype of the elements that each such variable is stored in.

    `arrays` are variables that hold one array, with its dtype and rank.
    """
    found: dict[str, set[str | None]] = {}
    for item in items_of_threads(items):
        for name in liveness.loads(item):
            found.setdefault(name, set()).update(_uses(name, item, arrays))
    return {
        name: dtype
        for name, dtypes in found.items()
        if len(dtypes) == 1
        for dtype in dtypes
        if dtype is not None and ELEMENT_TYPES[dtype].is_integer
    }


def _uses(
    name: str, item: Threads | Vote, arrays: Mapping[str, tuple[str, int]]
) -> Iterable[str | None]:
    """Yield the dtypes of elements that a variable is stored in, and ``None`` for another use."""
    if isinstance(item, Vote):
        yield None
        return
    stored: set[ast.expr] = set()
    nodes = list(walk_here((*item.body, *item.guards)))
    for node in nodes:
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id=array)) as target],
                value=ast.Name(id=used) as value,
            ) if used == name and array in arrays:
                dtype, rank = arrays[array]
                parts = index_parts(target)
                if len(parts) == rank and not any(isinstance(p, ast.Slice) for p in parts):
                    stored.add(value)
                    yield dtype
    if any(isinstance(n, ast.Name) and n.id == name and n not in stored for n in nodes):
        yield None


class _Probe(NamedTuple):
    """Point at which Numba is asked for the types of variables: the beginning of an item."""

    #: A variable of the generated code that is assigned a tuple of them.
    variable: str
    #: The variables, in order.
    names: list[str]


@dataclass(frozen=True)
class ProbeWriter(ItemWriter):
    """Writes the items as one thread runs them, with probes for the types of what is fetched.

    Each probe is ``types = (x, y, …)`` at the place where an item begins; Numba's type of that
    variable gives the types at that place.
    """

    names: FreshNames
    #: The probe of each item that fetches anything; filled by writing.
    probes: dict[Item, _Probe] = field(default_factory=dict)

    def threads(self, item: Threads) -> list[ast.stmt]:
        if item.rows is None:
            return [*self._probe(item), *self._guarded(item.body, item.guards)]
        conditions, _ = peel(item, self.variables.pure)
        return [*self._probe(item), *self._guarded(self.items(item.rows), conditions, ())]

    def vote(self, item: Vote) -> list[ast.stmt]:
        is_truth = item.form in ("all", "any")
        value = ast.Constant(True) if is_truth else call("kd_int32", ast.Constant(1))
        result = assign(item.target, value)
        body: list[ast.stmt] = [ast.Expr(item.predicate)]
        return [*self._probe(item), *self._guarded(body, item.guards), result]

    def _probe(self, item: Threads | Vote) -> list[ast.stmt]:
        fetched = sorted(self.variables.liveness.loads(item))
        if not fetched:
            return []
        probe = self.probes[item] = _Probe(self.names.make("types"), fetched)
        return [assign(probe.variable, ast.Tuple([load(n) for n in fetched], ast.Load()))]

    def _guarded(
        self,
        body: list[ast.stmt],
        guards: Sequence[ast.expr],
        reading: Sequence[ast.stmt] | None = None,
    ) -> list[ast.stmt]:
        """Put guards around statements, after the pure variables that both read."""
        names = loaded_names(body if reading is None else reading) | loaded_names(guards)
        for guard in reversed(guards):
            body = [ast.If(guard, body, [])]
        return [*self.definitions(self.variables.pure.needed(names)), *body]
