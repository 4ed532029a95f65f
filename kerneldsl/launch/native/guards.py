"""Guards of a prepared launch: constants, the device and the log must be unchanged.

Each condition becomes guards, which look up one name in one dictionary (or one closure cell, or an
object's type, or an array's flags) and compare by identity. A condition that cannot be said so
gives no guards, and its launches stay with Python.
"""

from __future__ import annotations

import builtins
import logging
import types
from typing import Any

from kerneldsl.contract import Device
from kerneldsl.frontend.captured import (
    AttributeReader,
    CellReader,
    GlobalReader,
    ItemReader,
    same_value,
)
from kerneldsl.frontend.frozen import FrozenArrays, WatchedArrays
from kerneldsl.frontend.unit import Captured
from kerneldsl.launch.native.launch_table import Guard, GuardKind
from kerneldsl.placement import devices as placement
from kerneldsl.utilities.environment import TARGET_KEY, logger, stored_variables

__all__ = ["capture_guards", "device_guards", "log_guards"]

#: Is never chosen.
_NOBODY = object()


def _held(names: dict[Any, Any], key: Any, value: Any) -> Guard:
    return Guard(GuardKind.DICT, names, key, value)


def capture_guards(captured: tuple[Captured, ...]) -> list[Guard] | None:
    """Return the guards for captured constants as they are now, which must be the kernel's.

    ``None`` says that one is read in another way than from globals, closures and attributes, has
    changed, or has arrays whose contents are compared.
    """
    found: list[Guard] = []
    for each in captured:
        guards = _reader_guards(each.source)
        if guards is None or same_value(each.value, guards[-1].value) is not each.value:
            return None
        if isinstance(each.arrays, WatchedArrays):
            return None  # what is in them is compared in Python
        if each.arrays is not None:
            guards += _frozen_guards(each.arrays)
        found += [guard for guard in guards if not _is_among(guard, found)]
    return found


def _frozen_guards(frozen: FrozenArrays) -> list[Guard]:
    """Return guards that arrays are read-only, and not found writable since the table was made."""
    cell = frozen.cell
    unchanged = Guard(GuardKind.CELL, cell, None, cell.cell_contents)
    return [unchanged, *(Guard(GuardKind.READ_ONLY, array, None, None) for array in frozen.arrays)]


def _is_among(guard: Guard, others: list[Guard]) -> bool:
    return any(
        guard.owner is other.owner and guard.key == other.key and guard.value is other.value
        for other in others
    )


def _reader_guards(reader: object) -> list[Guard] | None:
    """Return what a reader looks at, outermost first; the last guard's value is what it reads."""
    if isinstance(reader, GlobalReader):
        return _global_guards(reader)
    if isinstance(reader, CellReader):
        try:
            return [Guard(GuardKind.CELL, reader.cell, None, reader.cell.cell_contents)]
        except ValueError:
            return None
    if isinstance(reader, AttributeReader):
        outer = _reader_guards(reader.owner)
        if outer is None:
            return None
        owner, name = outer[-1].value, reader.attribute
        names = vars(owner) if type(owner) is types.ModuleType else {}
        if name in names and not hasattr(types.ModuleType, name):
            # Another class may be given to a module, and have a property of that name.
            plain = Guard(GuardKind.TYPE, owner, None, types.ModuleType)
            return [*outer, plain, _held(names, name, names[name])]
        # Attributes of other objects may be computed, inherited or hidden: they are read.
        return [*outer, Guard(GuardKind.ATTRIBUTE, owner, name, reader())]
    if isinstance(reader, ItemReader):
        outer = _reader_guards(reader.owner)
        try:
            item = types.CellType(reader())  # the tuple's own for as long as it is this tuple
        except NameError:
            return None
        return outer and [*outer, Guard(GuardKind.CELL, item, None, item.cell_contents)]
    return None


def _global_guards(reader: GlobalReader) -> list[Guard] | None:
    names, name = reader.namespace, reader.name
    if type(names) is not dict:
        return None
    if name in names:
        return [_held(names, name, names[name])]
    known = vars(builtins)
    if name not in known:
        return None
    hidden_by_none = Guard(GuardKind.DICT, names, name, None, is_missing=True)
    return [hidden_by_none, _held(known, name, known[name])]


def log_guards() -> list[Guard] | None:
    """Return the guards that launches are not logged.

    A logger remembers in a dictionary whether it is enabled for a level, and forgets that whenever
    a level changes anywhere.
    """
    known = getattr(logger, "_cache", None)
    if type(known) is not dict or logger.isEnabledFor(logging.DEBUG) or logging.DEBUG not in known:
        return None
    return [_held(known, logging.DEBUG, False)]


def device_guards(device: Device, *, is_named: bool) -> list[Guard] | None:
    """Return guards that a kernel runs on a device, with no choice of a device in the context.

    `is_named` says that an argument lives there. There are none where something else decides, such
    as the CPU that replaces a device.
    """
    if is_named and not device.is_host:
        return []  # what the argument says; nothing stands in for another device there
    choices = vars(placement._choices)
    guards = _unchosen_guards(choices, device, is_named=is_named)
    if guards is None and placement.context_device.get() is device:
        return [_held(choices, "process_wide", _NOBODY)]  # good inside of such a choice alone
    return guards


def _unchosen_guards(
    choices: dict[str, Any], device: Device, *, is_named: bool
) -> list[Guard] | None:
    chosen = choices["process_wide"]
    if isinstance(chosen, placement.FallbackDevice):
        return None
    if is_named:
        # Only a substitute for another device could take precedence over the argument's own.
        return [_held(choices, "process_wide", chosen)]
    if chosen is device:
        return [_held(choices, "process_wide", device)]
    if chosen is not None or not device.is_host:
        return None
    environment = _environment_guard()
    if environment is None:
        return None
    guards = [_held(choices, "process_wide", None), environment]
    if environment.is_missing:
        if placement._detected is not device:
            return None
        guards.append(_held(vars(placement), "_detected", device))
    elif placement.current_device() is not device:
        return None
    return guards


def _environment_guard() -> Guard | None:
    """Return the guard that ``KERNELDSL_TARGET`` is what it is."""
    values = stored_variables()
    if values is None:
        return None
    if TARGET_KEY in values:
        return _held(values, TARGET_KEY, values[TARGET_KEY])
    return Guard(GuardKind.DICT, values, TARGET_KEY, None, is_missing=True)
