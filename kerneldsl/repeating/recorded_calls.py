"""Calls that are repeated: their launches are recorded once, and made again without their planning.

The plan of a function (axes, layouts, parts, blocks, constants) depends only on shapes, strides,
dtypes, devices and options. Of elements smaller than a word, it also depends on whether they begin
at one. So the first call with some of them is recorded: the arrays that it made, its launches, and
the array and part of each argument. The next such call makes new arrays of the same forms and
repeats these launches. Streams, tuning and fallback work as in any launch.

A call is not recorded if not all of its work is in launches over known arrays, for example if it
copies on the host. Such a call runs normally each time.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, FunctionType
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from kerneldsl.contract import Device
from kerneldsl.contract.streams import is_recorded
from kerneldsl.errors import ArgumentTypeError, KernelError
from kerneldsl.kernels.kernel import DeviceFunction
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.placement.devices import current_device, host_device
from kerneldsl.repeating.recorded import (
    NotKnown,
    Recorded,
    bytes_after_word,
    may_overlap,
    number_values,
)
from kerneldsl.streams.current import ambient_stream, in_use_word
from kerneldsl.streams.order import refuse_recording
from kerneldsl.utilities.tracebacks import passes_on, shorten_raised

__all__ = [
    "Repeated",
    "end_by",
    "host_threads",
    "is_captured",
    "launch",
    "launch_over",
    "note_constant",
    "note_made",
    "note_scalar",
    "refuse_captured",
    "refuse_to_repeat",
    "repeat_calls",
    "run_on_host",
]

P = ParamSpec("P")
R = TypeVar("R")

#: Recorded calls of one function.
_MAX_CALLS = 256
#: Launches of one call.
_MAX_LAUNCHES = 64
_ARRAYS = np.ndarray, DeviceArray
#: Bytes of the words as which plans view smaller elements.
_WORD_BYTES = 4
#: Bits of ``numpy.ndarray.flags.num``: contiguous, aligned, writeable.
_IN_C_ORDER = 0x1
_FLAGS = _IN_C_ORDER | 0x2 | 0x100 | 0x400


class _Current(threading.local):
    """The recording that is under way in a thread."""

    recording: _Recording | None = None


_current = _Current()
#: Threads with an active recording; a look-up in this set is faster than reading the recording.
_recording_threads: set[int] = set()


def launch(kernel: Any, grid: Any, block: Any, /, *args: Any, **constants: Any) -> None:
    """Launch ``kernel[grid, block]`` with arguments, and with values of compile-time parameters."""
    _start((kernel.member(**constants) if constants else kernel)[grid, block], args)


def launch_over(
    kernel: Any, extent: tuple[int, ...], /, *args: Any, block: Any = None, **constants: Any
) -> None:
    """Launch ``kernel.forall(*extent, block=block)``; see `launch`."""
    _start((kernel.member(**constants) if constants else kernel).forall(*extent, block=block), args)


def _start(started: Any, args: tuple[Any, ...]) -> None:
    started(*args)
    if _current.recording is not None:
        _current.recording.launches.append((started, args))


def run_on_host(function: Callable[..., None], /, *args: Any) -> None:
    """Call a function of arrays and numbers, as each call like this one does in this place.

    It does what kernels cannot, such as refusing an index that one has found.
    """
    _start(function, args)


def host_threads() -> int:
    """Return the number of threads that share a launch on the host's cores."""
    return host_device().thread_count() or 1


def end_by(make: Callable[..., R], /, *args: Any) -> R:
    """Return ``make(*args)`` of arrays, numbers and None, as each call like this one does.

    It is planned again each time, so it may depend on elements, as the size of a part does.
    """
    recording = _current.recording
    if recording is None:
        return make(*args)
    recording.ending = make, args
    _current.recording = None
    try:
        return make(*args)
    finally:
        _current.recording = recording


def note_made(array: Any, *, is_zero: bool) -> None:
    """Note an array that a function has made for its launches or as its result."""
    if _current.recording is not None:
        _current.recording.made.append((array, is_zero))


def note_constant(array: Any) -> None:
    """Note an array that follows from the call's options, and that nothing writes.

    The contents of the arrays of the call are not part of it: calls are equal for all contents.
    """
    if _current.recording is not None:
        _current.recording.constants.append(array)


def note_scalar(array: Any) -> None:
    """Record the array with the only element that is returned as a NumPy scalar."""
    if _current.recording is not None:
        _current.recording.scalar = array


def refuse_to_repeat() -> None:
    """Note that a call does what launches alone do not do again."""
    if _current.recording is not None:
        _current.recording.is_repeatable = False


def is_captured(device: Device) -> bool:
    """Return whether launches on a device are recorded now instead of run."""
    return is_recorded(ambient_stream(device))


def refuse_captured(values: Iterable[Any]) -> None:
    """Refuse a call with NumPy arrays alone while the current stream is captured.

    It reads elements, such as a scalar result, before the recorded launches run.
    """
    if not in_use_word[0]:
        return
    kinds = [isinstance(each, DeviceArray) for each in values if isinstance(each, _ARRAYS)]
    if kinds and not any(kinds):
        refuse_recording(
            ambient_stream(current_device()),
            "call a function of the library with NumPy arrays",
            "Pass device arrays: make them with kd.to_device(x) before the capture",
        )


def repeat_calls(
    function: Callable[P, R], take: Callable[[Callable[P, R]], Callable[P, R]]
) -> Callable[P, R]:
    """Return a function that makes the launches of another one again, and shortens its errors.

    - `function`: the function that plans and launches; its parameter `out` is the array for the
      result.
    - `take`: makes, from the returned function, the one for calls without a key.
    """
    places = list(inspect.signature(function).parameters)

    @passes_on
    @functools.wraps(function)
    def repeating(first: Any = _missing, /, *rest: Any, **named: Any) -> R:
        found: R
        try:  # as `shorten_errors` does, whose call would cost as much as the rest here
            # This is `call` in half the time: the first argument is in no tuple.
            if type(first) is np.ndarray and not rest and not named:
                known = calls.get(_form_on_host(first))
                if known is not None and not (known.kept or _recording_threads or in_use_word[0]):
                    found = known.repeat(first)
                    return found
            elif type(first) in _without_key:
                found = otherwise(first, *rest, **named)
                return found
            found = call(rest if first is _missing else (first, *rest), named)
            return found
        except (KernelError, TypeError) as error:
            shorten_raised(error)
            raise

    out_place = places.index("out") if "out" in places else None
    as_given = cast("Callable[P, R]", repeating)
    otherwise: Callable[..., Any] = take(as_given)
    repeated = Repeated(function, out_place, otherwise)
    call, calls = repeated.call, repeated.calls
    return as_given


class _Missing:
    """Type of no other argument: of those without a key, types are noted."""


#: Key of a missing first argument.
_missing: Any = _Missing()


class Repeated:
    """The recorded calls of one function.

    - `function`: the function that plans and launches.
    - `out_place`: the position of the argument `out`.
    - `otherwise`: the function for calls without a key.
    """

    def __init__(
        self, function: Callable[..., Any], out_place: int | None, otherwise: Callable[..., Any]
    ) -> None:
        self._function = function
        self._out_place = out_place
        self._otherwise = otherwise
        #: Recorded calls by key; ``None`` if a call cannot be repeated.
        self.calls: dict[Any, Recorded | None] = {}

    @passes_on
    def call(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Repeat a call, or make and record it."""
        if _recording_threads and _current.recording is not None:
            return self._function(*args, **named)
        arrays: Any
        key: Any
        if len(args) == 1 and not named and type(args[0]) is np.ndarray:
            arrays, key = args, _form_on_host(args[0])
        else:
            arrays = []
            key = _key_of((*args, *named.values()) if named else args, arrays)
            if named and key is not None:
                key = key, (*named,)
            if key is not None and len(arrays) > 1:
                key, arrays = self._told_apart(key, arrays, args, named)
            if key is None or not arrays:
                return self._otherwise(*args, **named)
        if in_use_word[0]:
            refuse_captured(arrays)
        found = self.calls.get(key, _unknown)
        if found is None:
            return self._function(*args, **named)
        if found is not _unknown and (not found.kept or found.is_usable):
            return found.repeat(*arrays)
        return self._record(key, arrays, args, named)

    def _told_apart(
        self, key: Any, arrays: list[Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Any, list[Any]]:
        """Return a key that says which arrays are the same, and each once.

        The key is ``None`` where `out` may share memory with another one.
        """
        if len(set(map(id, arrays))) < len(arrays):
            places = {id(each): at for at, each in reversed([*enumerate(arrays)])}
            key = key, tuple([places[id(each)] for each in arrays])
            arrays = [each for at, each in enumerate(arrays) if places[id(each)] == at]
        out = named.get("out")
        if out is None and self._out_place is not None and len(args) > self._out_place:
            out = args[self._out_place]
        return (key if out is None or _is_apart(out, arrays) else None), arrays

    @passes_on
    def _record(
        self, key: Any, arrays: list[Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        calls = self.calls
        recording, thread = _Recording(arrays), threading.get_ident()
        try:
            _recording_threads.add(thread)
            _current.recording = recording
            result = self._function(*args, **named)
        finally:
            _current.recording = None
            _recording_threads.discard(thread)
        if recording.are_apart:
            for oldest in list(calls)[: max(0, len(calls) + 1 - _MAX_CALLS)]:
                calls.pop(oldest, None)
            calls[key] = recording.recorded(result)
        return result


_unknown: Any = object()


def _key_of(values: tuple[Any, ...], arrays: list[Any]) -> tuple[Any, ...] | None:
    """Return a key that is equal for equal calls, and list the arrays."""
    key: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is DeviceArray:
            if value.is_closed:
                return None
            arrays.append(value)
            key.append((value.shape, value.strides, value.dtype, value.device, value.is_read_only))
            if value.dtype.itemsize < _WORD_BYTES:
                key.append(bytes_after_word(value))
        elif kind is np.ndarray:
            arrays.append(value)
            key.append(_form_on_host(value))
        elif kind is tuple:
            inner = _key_of(value, arrays)
            if inner is None:
                return None
            key.append(inner)
        elif kind is float:
            key.append((kind, value.hex()))
        elif kind in _PLAIN:
            key.append((kind, value))
        elif issubclass(kind, np.generic):
            key.append((kind, value.tobytes()))
        elif isinstance(value, np.dtype):
            key.append(value)
        else:
            if len(_without_key) < _MAX_WITHOUT_KEY:
                _without_key.add(kind)
            return None
    return tuple(key)


#: Types of arguments that were met and have no key, such as another library's arrays.
_without_key: set[type] = set()
_MAX_WITHOUT_KEY = 256


def _form_on_host(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Return the part of a key for a NumPy array."""
    flags = array.flags.num & _FLAGS
    strides = None if flags & _IN_C_ORDER else array.strides
    dtype = array.dtype
    rest = bytes_after_word(array) if dtype.itemsize < _WORD_BYTES else 0
    return array.shape, strides, dtype, flags, rest, current_device()


#: Types with values that a function cannot distinguish if they are equal. Types and functions are
#: equal only to themselves.
_PLAIN = frozenset(
    [bool, int, str, type(None), type, FunctionType, BuiltinFunctionType, DeviceFunction]
)


def _is_apart(out: Any, arrays: list[Any]) -> bool:
    """Return whether `out` is arrays that share no memory with others, unless they are those."""
    for given in out if type(out) is tuple else (out,):
        if given is None:
            continue
        if not isinstance(given, _ARRAYS):
            return False
        for each in arrays:
            if each is not given and may_overlap(given, each):
                return False
    return True


class _Recording:
    """The repeatable part of a call of a function."""

    def __init__(self, arrays: list[Any]) -> None:
        self._arrays = arrays
        #: Arrays that were made, which are kept so that no other one gets their memory, and whether
        #: they began as zeros.
        self.made: list[tuple[Any, bool]] = []
        self.launches: list[tuple[Any, tuple[Any, ...]]] = []
        #: Arrays that later calls have in common with this one.
        self.constants: list[Any] = []
        #: The array with the only element that is returned as a scalar.
        self.scalar: Any = None
        #: The function that makes the result, with its arrays and numbers.
        self.ending: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
        self.is_repeatable = all(each.size for each in arrays)

    @property
    def are_apart(self) -> bool:
        """True where no array that was given shares memory with another one."""
        try:
            return not any(may_overlap(a, b) for a, b in itertools.combinations(self._arrays, 2))
        except ArgumentTypeError:  # their memory has no addresses
            return False

    def recorded(self, result: Any) -> Recorded | None:
        """Return what repeats the call, ``None`` where nothing does."""
        if not self.is_repeatable or len(self.launches) > _MAX_LAUNCHES:
            return None
        is_scalar = isinstance(result, np.generic)
        make, found = self.ending or (None, self.scalar if is_scalar else result)
        try:
            return number_values(
                self._arrays, self.made, self.launches, found,
                constants=self.constants, is_scalar=is_scalar, make=make,
            )  # fmt: skip
        except NotKnown:
            return None
