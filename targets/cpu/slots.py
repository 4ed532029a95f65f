"""Give each private variable that outlives an item storage, by the types that Numba infers."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load
from targets.cpu.items import Item
from targets.cpu.storage import SCRATCH, Storage
from targets.cpu.typing_probes import Probe
from targets.cpu.variables import Slot

__all__ = ["SlotPlacer", "slot_statements"]


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
        self, probes: Mapping[Item, Probe], found: Mapping[str, Any]
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
        for name, known in kinds.items():
            known[:] = [self._narrowed(name, each) for each in known]
        return {name: self._slot(name, each) for name, each in kinds.items() if each}, fetched

    def _narrowed(self, name: str, element: Any) -> Any:
        """Return the type in which a variable is kept."""
        from numba import types as numba_types

        from kerneldsl.lowering.types import element_type

        if name not in self.widths or not isinstance(element, numba_types.Integer):
            return element
        stored = element_type(self.widths[name])
        return stored if stored.bitwidth < element.bitwidth else element

    def _slot(self, name: str, elements: list[Any]) -> Slot:
        from numba import types as numba_types

        from kerneldsl.lowering.numba_internals.host_code import size_of
        from targets.cpu.intrinsics.memory import slot_maker

        dims = self.dims_of(name)
        slot_names, makers = [], []
        for element in elements:
            variable = self.names.make(f"slot_{name}")
            is_narrow = name in self.small and element == numba_types.int64
            nbytes = 4 if is_narrow else size_of(element)
            offset = self.storage.place(nbytes * math.prod(dims))
            maker = self.names.make(f"make_slot_{name}")
            self.namespace[maker] = slot_maker(element, dims, offset, is_narrow=is_narrow)
            slot_names.append(variable)
            makers.append(maker)
        return Slot(tuple(slot_names), tuple(makers))


def slot_statements(slots: Mapping[str, Slot]) -> list[ast.stmt]:
    """Return the statements that make slots."""
    return [
        assign(name, call(maker, load(SCRATCH)))
        for slot in slots.values()
        for name, maker in zip(slot.names, slot.makers, strict=True)
    ]
