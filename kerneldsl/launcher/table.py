"""The tables that the native launcher works through: one for each prepared launch.

One native function serves every launch; what is particular to a kernel, the types of its arguments,
a place and a shape stands in a :class:`LaunchTable`, in words of 64 bits:

* guards: what has to be at a place for the table to be current (:class:`Guard`);
* steps: for each argument its type, what else is checked, and where it goes
  (:class:`Step`);
* the parameter buffer as it is before the arguments are written into it;
* the entry: how the kernel is started (:mod:`kerneldsl.target.native`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kerneldsl.runtime.placement import Place
from kerneldsl.runtime.tally import Tally
from kerneldsl.target.native import CallEntry, DriverEntry, HostEntry, NativeEntry

__all__ = [
    "GUARD_WORDS",
    "STEP_WORDS",
    "EntryKind",
    "Guard",
    "GuardKind",
    "LaunchTable",
    "Step",
    "StepKind",
    "Word",
    "make_table",
]


class Word(IntEnum):
    """Where a field lies in a table."""

    GENERATION = 0
    ARGUMENT_COUNT = 1
    STEPS = 2
    GUARD_COUNT = 3
    GUARDS = 4
    PLACE_GUARD_COUNT = 5
    PLACE_GUARDS = 6
    PLACE = 7
    TALLY = 8
    BUFFER = 9
    BUFFER_WORDS = 10
    PARAMETERS = 11
    PARAMETER_BYTES = 12
    ENTRY = 13
    # Of a host entry.
    ADDRESS = 14
    RANGE = 15
    PARALLEL_FOR = 16
    THREADS = 17
    RUNNING = 18
    # Of a driver entry.
    LAUNCH = 14
    FUNCTION = 15
    GRID = 16
    BLOCK = 19
    SHARED_BYTES = 22
    STREAM = 23
    CONTEXT = 24
    GET_CONTEXT = 25
    SET_CONTEXT = 26
    MAY_STAY = 27
    NOTE = 28
    NOTED = 29
    # Of a call entry.
    START = 14


_TABLE_WORDS = 30


class EntryKind(IntEnum):
    """How a kernel is started."""

    HOST = 0
    DRIVER = 1
    CALL = 2


class GuardKind(IntEnum):
    """Where a guard looks."""

    DICT = 0
    CELL = 1


GUARD_WORDS = 4


@dataclass(frozen=True, slots=True)
class Guard:
    """An object that must be where it was when the table was made.

    Parameters
    ----------
    owner : dict or cell
        Where to look.
    key : object or None
        Under which key of a dictionary.
    value : object
        What must be there, compared by identity.
    is_missing : bool
        Instead of `value`: nothing must be there.
    """

    owner: Any
    key: Any
    value: Any
    is_missing: bool = False

    def words(self) -> tuple[int, ...]:
        """The guard as the native code reads it; whoever has the words keeps the guard."""
        kind = GuardKind.DICT if isinstance(self.owner, dict) else GuardKind.CELL
        expected = 0 if self.is_missing else id(self.value)
        return kind, id(self.owner), id(self.key), expected


class StepKind(IntEnum):
    """How an argument is read."""

    COPY_1 = 0
    COPY_2 = 1
    COPY_4 = 2
    COPY_8 = 3
    COPY_16 = 4
    BOOL = 5
    INT = 6
    INT_TO_FLOAT32 = 7
    INT_TO_FLOAT64 = 8
    FLOAT_TO_FLOAT32 = 9
    DEVICE_ARRAY = 10
    NDARRAY = 11


STEP_WORDS = 8


@dataclass(frozen=True, slots=True)
class Step:
    """One argument.

    Parameters
    ----------
    kind : StepKind
        How it is read.
    type : type
        What it must be, exactly.
    offset : int
        Where its first parameter lies, in bytes from the start of the buffer.
    a, b, c, d : int
        By kind. Integers: smallest and largest value, and bytes. Device arrays: code of the kind,
        flags that must not be set, words to copy. NumPy arrays: address of the dtype, flags that
        are looked at, what they must be, rank with 256 added where strides are passed.
    """

    kind: StepKind
    type: type
    offset: int
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0

    def words(self) -> tuple[int, ...]:
        """The step as the native code reads it."""
        return self.kind, id(self.type), self.offset, self.a, self.b, self.c, self.d, 0


class LaunchTable(ctypes.c_int64 * _TABLE_WORDS):  # type: ignore[misc]  # a class made at run time
    """One prepared launch; see the module.

    Attributes
    ----------
    key : object
        What the launch is found by when it is prepared again.
    tally : Tally
        Counts its launches.
    keep : tuple
        Everything whose address stands in the table.
    """

    key: Any
    tally: Tally
    keep: tuple[Any, ...]


def make_table(
    *,
    key: Any,
    generation: int,
    place: Place,
    guards: Sequence[Guard],
    place_guards: Sequence[Guard],
    steps: Sequence[Step],
    parameters: bytes,
    entry: NativeEntry,
    tally: Tally,
    keep: tuple[Any, ...],
) -> LaunchTable:
    """Write a table.

    Parameters
    ----------
    key : object
        What the launch is found by when it is prepared again.
    generation : int
        In which the table is good.
    place : Place
        Where the kernel runs; an active choice of another place sends launches to Python.
    guards : sequence of Guard
        Are always looked at.
    place_guards : sequence of Guard
        Are looked at where no choice of a place is active.
    steps : sequence of Step
        One for each argument; offsets are in `parameters`.
    parameters : bytes
        The parameter buffer, with what does not come from the arguments.
    entry : NativeEntry
        How the kernel is started.
    tally : Tally
        Counts the launches.
    keep : tuple
        What else must live as long as the table.

    Returns
    -------
    LaunchTable
    """
    table = LaunchTable()
    head = entry.header if isinstance(entry, HostEntry) else b""
    steps = [
        Step(s.kind, s.type, s.offset + len(head), s.a, s.b, s.c, s.d) for s in steps
    ]
    image = head + parameters
    padded = image.ljust(-(-max(len(image), 1) // 8) * 8, b"\0")
    buffer = (ctypes.c_char * len(padded)).from_buffer_copy(padded)
    step_words = _array(word for step in steps for word in step.words())
    guard_words = _array(word for guard in guards for word in guard.words())
    place_words = _array(word for guard in place_guards for word in guard.words())
    table[Word.GENERATION] = generation
    table[Word.ARGUMENT_COUNT] = len(steps)
    table[Word.STEPS] = ctypes.addressof(step_words)
    table[Word.GUARD_COUNT] = len(guards)
    table[Word.GUARDS] = ctypes.addressof(guard_words)
    table[Word.PLACE_GUARD_COUNT] = len(place_guards)
    table[Word.PLACE_GUARDS] = ctypes.addressof(place_words)
    table[Word.PLACE] = id(place)
    table[Word.TALLY] = ctypes.addressof(tally.words)
    table[Word.BUFFER] = ctypes.addressof(buffer)
    table[Word.BUFFER_WORDS] = len(padded) // 8
    table[Word.PARAMETERS] = len(head)
    table[Word.PARAMETER_BYTES] = len(parameters)
    _write_entry(table, entry)
    table.key = key
    table.tally = tally
    table.keep = (
        *(place, tuple(guards), tuple(place_guards), tuple(steps), entry, tally, keep),
        *(buffer, step_words, guard_words, place_words),
    )
    return table


def _array(words: Any) -> ctypes.Array[ctypes.c_int64]:
    found = tuple(words)
    return (ctypes.c_int64 * max(len(found), 1))(*found)


def _write_entry(table: LaunchTable, entry: NativeEntry) -> None:
    if isinstance(entry, HostEntry):
        table[Word.ENTRY] = EntryKind.HOST
        table[Word.ADDRESS] = entry.address
        table[Word.RANGE] = entry.steps
        table[Word.PARALLEL_FOR] = entry.parallel_for
        table[Word.THREADS] = entry.thread_count
        table[Word.RUNNING] = entry.running
    elif isinstance(entry, DriverEntry):
        table[Word.ENTRY] = EntryKind.DRIVER
        table[Word.LAUNCH] = entry.launch
        table[Word.FUNCTION] = entry.function
        table[Word.GRID : Word.GRID + 3] = entry.grid_dim
        table[Word.BLOCK : Word.BLOCK + 3] = entry.block_dim
        table[Word.SHARED_BYTES] = entry.shared_bytes
        table[Word.STREAM] = entry.stream
        table[Word.CONTEXT] = entry.context
        table[Word.GET_CONTEXT] = entry.get_context
        table[Word.SET_CONTEXT] = entry.set_context
        table[Word.MAY_STAY] = entry.may_stay
        table[Word.NOTE] = id(entry.note)
        table[Word.NOTED] = id(entry.noted)
    else:
        assert isinstance(entry, CallEntry)
        table[Word.ENTRY] = EntryKind.CALL
        table[Word.START] = id(entry.start)
