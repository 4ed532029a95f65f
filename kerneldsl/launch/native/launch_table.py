"""The tables that the native launcher works through: one for each prepared launch.

One native function makes every launch. A :class:`LaunchTable` has the data for a kernel, the types
of its arguments, a device and a shape, in words of 64 bits:

* guards: objects that must be unchanged for the table to be valid (:class:`Guard`);
* steps: for each argument its type, the checks, and its offset
  (:mod:`~kerneldsl.launch.native.step_kinds`);
* conditions on the packed arguments (:mod:`~kerneldsl.launch.native.conditions`);
* the initial parameter buffer, into which the arguments are written;
* the entry: the start of the kernel (:mod:`kerneldsl.contract.native`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import Device
from kerneldsl.contract.launch_counter import LaunchCounter
from kerneldsl.contract.native import HostEntry, NativeEntry
from kerneldsl.launch.native.conditions import PackedCondition
from kerneldsl.launch.native.layout import builtin_method, host_clock, signed_word
from kerneldsl.launch.native.step_kinds import ArgumentStep
from kerneldsl.utilities.dataclasses import dataclass

if TYPE_CHECKING:
    from kerneldsl.launch.native.map_records import MapRecord

__all__ = [
    "GUARD_WORDS",
    "WORDS_TOGETHER",
    "DriverWord",
    "EntryKind",
    "Guard",
    "GuardKind",
    "HostWord",
    "LaunchTable",
    "TableParts",
    "Word",
    "make_table",
]


class Word(IntEnum):
    """Offsets of fields in a table; those of the entry follow."""

    GENERATION = 0
    ARGUMENT_COUNT = 1
    STEPS = 2
    GUARD_COUNT = 3
    GUARDS = 4
    DEVICE_GUARD_COUNT = 5
    DEVICE_GUARDS = 6
    CONDITION_COUNT = 7
    CONDITIONS = 8
    #: Whether conditions are checked even if all arrays are known.
    ASKS_NUMBERS = 9
    DEVICE = 10
    COUNTER = 11
    BUFFER = 12
    BUFFER_WORDS = 13
    PARAMETERS = 14
    PARAMETER_BYTES = 15
    #: Another library's function for its current stream, or 0, and its argument, the device.
    CURRENT_STREAM = 16
    DEVICE_INDEX = 17
    #: A Python function that returns the current stream as an object, or 0, and the name of the
    #: object's attribute with the handle.
    STREAM_GETTER = 18
    STREAM_HANDLE = 19
    ENTRY = 20


class HostWord(IntEnum):
    """Offsets of fields in a host entry."""

    ADDRESS = 21
    RANGE = 22
    PARALLEL_FOR = 23
    THREADS = 24
    RUNNING = 25
    #: Offset of a failure in the buffer, and the Python function that raises it, or 0.
    FAILURE = 26
    FAIL = 27
    #: Address for the launch that the main thread waits for, or 0, and the main thread's id.
    CURRENT = 28
    MAIN_THREAD = 29


class DriverWord(IntEnum):
    """Offsets of fields in a driver entry."""

    LAUNCH = 21
    FUNCTION = 22
    #: Three words each.
    GRID = 23
    BLOCK = 26
    SHARED_BYTES = 29
    STREAM = 30
    CONTEXT = 31
    GET_CONTEXT = 32
    SET_CONTEXT = 33
    MAY_STAY = 34
    #: C function of a built-in method, its bound object, and its argument.
    NOTE = 35
    NOTE_OWNER = 36
    NOTED = 37
    #: Number and offsets of the parameters that are passed by address; 0 for the whole buffer.
    PARAMETER_COUNT = 38
    OFFSETS = 39
    #: The driver's function that encodes tensor maps, their number and records.
    ENCODE = 40
    MAP_COUNT = 41
    MAPS = 42
    #: Whether the kernel may begin before the preceding one ends.
    IS_EARLY = 43


_TABLE_WORDS = max(*HostWord, *DriverWord) + 1


class EntryKind(IntEnum):
    """Way to start a kernel."""

    HOST = 0
    DRIVER = 1


class GuardKind(IntEnum):
    """Memory that a guard compares."""

    DICT = 0
    CELL = 1
    ATTRIBUTE = 2
    TYPE = 3
    #: Whether a NumPy array is read-only.
    READ_ONLY = 4


#: Kind, where to look, under which key, what must be there; and the version of the dictionary in
#: which it was found there.
GUARD_WORDS = 5
#: Name of a stream's handle in CuPy.
_HANDLE = "ptr"


@dataclass(frozen=True, slots=True)
class Guard:
    """An object that must be unchanged since the table was made."""

    #: The kind of check.
    kind: GuardKind
    #: The object to check: a container, an object for its type, or an array for its flags.
    owner: Any
    #: The key of a dictionary, or the name of an attribute.
    key: Any
    #: The expected object, compared by identity.
    value: Any
    #: Instead of `value`: the dictionary must not have the key.
    is_missing: bool = False

    def words(self) -> tuple[int, ...]:
        """Return the words of the guard for native code; the owner of the words keeps the guard."""
        expected = 0 if self.is_missing else id(self.value)
        return self.kind, id(self.owner), id(self.key), expected, 0


#: Words of a buffer that are copied at once; it has a multiple of them.
WORDS_TOGETHER = 4


class _Memory:
    """Arrays of words, kept for the table that names their addresses."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def put(self, words: Iterable[int]) -> int:
        """Write words down, and return where."""
        found = tuple(words)
        block = (ctypes.c_int64 * max(len(found), 1))(*found)
        self.kept.append(block)
        return ctypes.addressof(block)

    def put_steps(self, steps: Sequence[ArgumentStep]) -> int:
        """Write steps down, those of tuples first."""
        words = [word for step in steps for word in step.words(self.put_steps)]
        # The steps own blocks of arrays, and the address of a freed block may be reused.
        self.kept.append(tuple(steps))
        return self.put(words)


class LaunchTable(ctypes.c_int64 * _TABLE_WORDS):  # type: ignore[misc]  # a class made at run time
    """One prepared launch; see the module."""

    #: Key of the launch when it is prepared again.
    key: Any
    #: Counts its launches.
    counter: LaunchCounter
    #: All objects with addresses in the table.
    keep: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class TableParts:
    """Contents of a table."""

    #: Key of the launch when it is prepared again.
    key: Any
    #: Generation in which the table is valid.
    generation: int
    #: Device of the kernel; launches go through Python while another device is chosen.
    device: Device
    #: Guards that are checked at each launch.
    guards: Sequence[Guard]
    #: Guards that are checked if no choice of a device is active.
    device_guards: Sequence[Guard]
    #: Steps of the arguments, one each; offsets are in `parameters`.
    steps: Sequence[ArgumentStep]
    #: Conditions on the packed arguments; offsets are in `parameters`.
    conditions: Sequence[PackedCondition]
    #: Whether a condition concerns anything other than arrays.
    asks_numbers: bool
    #: The parameter buffer, with the values that do not depend on arguments.
    parameters: bytes
    #: Address of another library's function for its current stream, which must be the default
    #: stream; 0 if no argument belongs to such a library.
    current_stream: int
    #: Python function that returns the current stream as an object with the handle as its ``ptr``.
    stream_getter: Any
    #: The start of the kernel.
    entry: NativeEntry
    #: Counts the launches.
    counter: LaunchCounter
    #: Tensor maps that the kernel takes.
    maps: tuple[MapRecord, ...]
    #: Other objects that must live as long as the table.
    keep: tuple[Any, ...]


def make_table(parts: TableParts) -> LaunchTable:
    table = LaunchTable()
    memory, entry = _Memory(), parts.entry
    head = entry.header if isinstance(entry, HostEntry) else b""
    # Maps are after the parameters of a driver's entry, which has no head.
    end = max((each.end for each in parts.maps), default=0)
    parameters = parts.parameters.ljust(end, b"\0")
    image = bytearray(head + parameters)
    steps = [step.moved(len(head)) for step in parts.steps]
    for step in steps:
        step.fill_in(image)
    padded = image.ljust(-(-max(len(image), 1) // (8 * WORDS_TOGETHER)) * 8 * WORDS_TOGETHER, b"\0")
    buffer = (ctypes.c_char * len(padded)).from_buffer_copy(padded)
    held = [Guard(GuardKind.DICT, h.mapping, h.key, h.value, h.is_missing) for h in entry.holds]
    guards = [*parts.guards, *held]
    table[Word.GENERATION] = parts.generation
    table[Word.ARGUMENT_COUNT] = len(steps)
    table[Word.STEPS] = memory.put_steps(steps)
    table[Word.GUARD_COUNT] = len(guards)
    table[Word.GUARDS] = memory.put(word for guard in guards for word in guard.words())
    table[Word.DEVICE_GUARD_COUNT] = len(parts.device_guards)
    table[Word.DEVICE_GUARDS] = memory.put(w for g in parts.device_guards for w in g.words())
    table[Word.CONDITION_COUNT] = len(parts.conditions)
    table[Word.CONDITIONS] = memory.put(w for c in parts.conditions for w in c.words(len(head)))
    table[Word.ASKS_NUMBERS] = parts.asks_numbers
    table[Word.DEVICE] = id(parts.device)
    table[Word.COUNTER] = ctypes.addressof(parts.counter.words)
    table[Word.BUFFER] = ctypes.addressof(buffer)
    table[Word.BUFFER_WORDS] = len(padded) // 8
    table[Word.PARAMETERS] = len(head)
    table[Word.PARAMETER_BYTES] = len(parameters)
    table[Word.CURRENT_STREAM] = parts.current_stream
    table[Word.DEVICE_INDEX] = parts.device.index
    if parts.stream_getter is not None:
        table[Word.STREAM_GETTER] = id(parts.stream_getter)
        table[Word.STREAM_HANDLE] = id(_HANDLE)
    _write_entry(table, entry, memory, parts.maps)
    table.key = parts.key
    table.counter = parts.counter
    parts.counter.is_timed_by_native = isinstance(entry, HostEntry) and host_clock() is not None
    table.keep = (parts, guards, buffer, memory.kept)
    return table


def _write_entry(
    table: LaunchTable, entry: NativeEntry, memory: _Memory, maps: Sequence[MapRecord]
) -> None:
    if isinstance(entry, HostEntry):
        table[Word.ENTRY] = EntryKind.HOST
        table[HostWord.ADDRESS] = entry.address
        table[HostWord.RANGE] = entry.steps
        table[HostWord.PARALLEL_FOR] = entry.parallel_for
        table[HostWord.THREADS] = entry.thread_count
        table[HostWord.RUNNING] = entry.running
        table[HostWord.CURRENT] = entry.current
        table[HostWord.MAIN_THREAD] = entry.main_thread
        if entry.fail is not None:
            table[HostWord.FAILURE] = 8 * entry.failure_word
            table[HostWord.FAIL] = id(entry.fail)
        return
    table[Word.ENTRY] = EntryKind.DRIVER
    table[DriverWord.LAUNCH] = signed_word(entry.launch)
    table[DriverWord.FUNCTION] = signed_word(entry.function)
    table[DriverWord.GRID : DriverWord.GRID + 3] = entry.grid_dim
    table[DriverWord.BLOCK : DriverWord.BLOCK + 3] = entry.block_dim
    table[DriverWord.SHARED_BYTES] = entry.shared_bytes
    table[DriverWord.STREAM] = signed_word(entry.stream)
    table[DriverWord.CONTEXT] = signed_word(entry.context)
    table[DriverWord.GET_CONTEXT] = signed_word(entry.get_context)
    table[DriverWord.SET_CONTEXT] = signed_word(entry.set_context)
    table[DriverWord.MAY_STAY] = entry.may_stay
    table[DriverWord.NOTE], table[DriverWord.NOTE_OWNER] = builtin_method(entry.note)
    table[DriverWord.NOTED] = id(entry.noted)
    table[DriverWord.PARAMETER_COUNT] = len(entry.offsets)
    table[DriverWord.OFFSETS] = memory.put(entry.offsets)
    table[DriverWord.IS_EARLY] = entry.is_early
    table[DriverWord.ENCODE] = signed_word(entry.encode)
    table[DriverWord.MAP_COUNT] = len(maps)
    records = [word for each in maps for word in each.words(memory.put, memory.kept)]
    table[DriverWord.MAPS] = memory.put(records)
