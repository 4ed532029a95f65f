"""Calls that are repeated: their launches are recorded once, and made again without their planning.

What a function plans (axes, layouts, parts, blocks, constants) follows from shapes, strides,
dtypes, devices and options alone. So the first call with some of them is recorded: the arrays that
it made, its launches, and which part of which array each launch was given. The next such call
makes new arrays of the same forms, and these launches again, through which streams, tuning and
fallback are what they are at any launch.

A call whose work is not all in launches of arrays that are known, such as one that copies on the
host, is not recorded, and runs as it is each time.
"""

from __future__ import annotations

import itertools
import operator
import threading
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError
from stdlib_kernels.overlap import bounds_of, may_overlap, start_of

__all__ = ["Repeated", "launch", "launch_over", "note_made", "note_scalar", "refuse_to_repeat"]

#: Recorded calls of one function.
_MAX_CALLS = 256
#: Launches of one call.
_MAX_LAUNCHES = 64
#: Of ``numpy.ndarray.flags.num``: contiguous, aligned, writeable.
_FLAGS = 0x1 | 0x2 | 0x100 | 0x400


class _Current(threading.local):
    """The recording that is under way in a thread."""

    recording: _Recording | None = None


_current = _Current()


def launch(kernel: Any, grid: Any, block: Any, /, *args: Any, **constants: Any) -> None:
    """Launch ``kernel[grid, block]`` with arguments, and with values of compile-time parameters."""
    _start((kernel.member(**constants) if constants else kernel)[grid, block], args)


def launch_over(kernel: Any, extent: tuple[int, ...], /, *args: Any, **constants: Any) -> None:
    """Launch ``kernel.forall(*extent)``; see `launch`."""
    _start((kernel.member(**constants) if constants else kernel).forall(*extent), args)


def _start(started: Any, args: tuple[Any, ...]) -> None:
    started(*args)
    if _current.recording is not None:
        _current.recording.launches.append((started, args))


def note_made(array: Any, *, is_zero: bool) -> None:
    """Note an array that a function has made for its launches or as its result."""
    if _current.recording is not None:
        _current.recording.made.append((array, is_zero))


def note_scalar(array: Any) -> None:
    """Note the array whose only element is returned as a NumPy scalar."""
    if _current.recording is not None:
        _current.recording.scalar = array


def refuse_to_repeat() -> None:
    """Note that a call does what launches alone do not do again."""
    if _current.recording is not None:
        _current.recording.is_repeatable = False


class Repeated:
    """The recorded calls of one function.

    Parameters
    ----------
    function : callable
        Called where a call has not been recorded.
    out_place : int or None
        Which positional argument `out` is.
    """

    def __init__(self, function: Callable[..., Any], out_place: int | None) -> None:
        self._function = function
        self._out_place = out_place
        self._calls: dict[Any, _Recorded | None] = {}

    def find(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, list[Any]] | None:
        """Return a key of all that a call's launches depend on, and its arrays.

        ``None`` where a call cannot be told by a key, or is inside of one that is recorded.
        """
        if _current.recording is not None:
            return None
        arrays: list[Any] = []
        key = _key_of((*args, *named.values(), *named) if named else args, arrays)
        if key is None:
            return None
        if len(arrays) > 1:
            key += tuple([_place(each, arrays) for each in arrays])
            out = named.get("out")
            if out is None and self._out_place is not None and len(args) > self._out_place:
                out = args[self._out_place]
            if out is not None and not _is_apart(out, arrays):
                return None
        return key, arrays

    def call(
        self, key: Any, arrays: list[Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Repeat a call, or make and record it."""
        calls = self._calls
        found = calls.get(key, _unknown)
        if found is not _unknown:
            return self._function(*args, **named) if found is None else found.repeat(arrays)
        recording = _current.recording = _Recording(arrays)
        try:
            result = self._function(*args, **named)
        finally:
            _current.recording = None
        if recording.are_apart:
            for oldest in list(calls)[: max(0, len(calls) + 1 - _MAX_CALLS)]:
                calls.pop(oldest, None)
            calls[key] = recording.recorded(result)
        return result


_unknown: Any = object()


def _key_of(values: tuple[Any, ...], arrays: list[Any]) -> tuple[Any, ...] | None:
    """Return values that are equal for calls that are alike, and list the arrays."""
    key: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is kd.DeviceArray:
            if value.is_closed:
                return None
            arrays.append(value)
            key.append((value.shape, value.strides, value.dtype, value.device, value.is_read_only))
        elif kind is np.ndarray:
            arrays.append(value)
            flags, target = value.flags.num & _FLAGS, kd.current_target()
            key.append((value.shape, value.strides, value.dtype, flags, target))
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
            return None
    return tuple(key)


#: Types whose equal values are the same to a function; types and functions equal themselves alone.
_PLAIN = frozenset(
    [bool, int, str, type(None), type, FunctionType, BuiltinFunctionType, kd.DeviceFunction]
)


def _place(array: Any, arrays: list[Any]) -> int:
    """Return where the same array stands first."""
    return next(at for at, each in enumerate(arrays) if each is array)


def _is_apart(out: Any, arrays: list[Any]) -> bool:
    """Return whether `out` shares no memory with another array, unless it is that array."""
    outs = out if type(out) is tuple else (out,)
    return not any(
        may_overlap(given, each)
        for given in outs
        if given is not None
        for each in arrays
        if each is not given
    )


class _HostForm:
    """The place of a NumPy array in another one's memory, its shape, strides and dtype.

    It has the methods of `kd.ArrayForm`.
    """

    def __init__(self, array: np.ndarray[Any, Any], offset: int, *, is_zero: bool = False) -> None:
        self._shape, self._strides, self._dtype = array.shape, array.strides, array.dtype
        self._offset, self._make = offset, np.zeros if is_zero else np.empty

    def empty(self) -> np.ndarray[Any, Any]:
        """Return an array of this form in memory of its own."""
        return self._make(self._shape, self._dtype)

    def over(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return an array of this form in the memory of a contiguous one."""
        return np.ndarray(self._shape, self._dtype, array, self._offset, self._strides)


class _ZeroForm(kd.ArrayForm):
    """The form of a device array that begins as zeros."""

    __slots__ = ()

    def empty(self) -> kd.DeviceArray:
        made = super().empty()
        made.fill(0)
        return made


class _Recorded(NamedTuple):
    """A call as its launches.

    Values are numbered: arrays given, arrays made, views of both, and constants.
    """

    #: Which of the given arrays are taken: each once.
    given: tuple[int, ...]
    made: tuple[Any, ...]
    #: The number of an array, and the form of its view.
    views: tuple[tuple[int, Any], ...]
    constants: tuple[Any, ...]
    #: Launches, and what picks their arguments from the values.
    launches: tuple[tuple[Any, Callable[[list[Any]], tuple[Any, ...]]], ...]
    #: Number of what is returned, or numbers.
    result: int | tuple[int, ...]
    is_scalar: bool

    def repeat(self, arrays: list[Any]) -> Any:
        """Make the launches with arrays of the same forms, and return the result."""
        values = [arrays[place] for place in self.given]
        for form in self.made:
            values.append(form.empty())
        for place, form in self.views:
            values.append(form.over(values[place]))
        values += self.constants
        for start, pick in self.launches:
            start(*pick(values))
        result = self.result
        if isinstance(result, tuple):
            return tuple([values[place] for place in result])
        found = values[result]
        return found[()] if self.is_scalar else found


class _NotKnown(Exception):
    """Something in a call is no constant and lies in no array that is known."""


class _Recording:
    """A call of a function, as far as it shall be repeated."""

    def __init__(self, arrays: list[Any]) -> None:
        self.given = tuple(at for at, each in enumerate(arrays) if _place(each, arrays) == at)
        self._arrays = [arrays[at] for at in self.given]
        #: Arrays that were made, which are kept so that no other one gets their memory, and whether
        #: they began as zeros.
        self.made: list[tuple[Any, bool]] = []
        self.launches: list[tuple[Any, tuple[Any, ...]]] = []
        #: What a scalar that is returned is the only element of.
        self.scalar: Any = None
        self.is_repeatable = all(each.size for each in arrays)

    @property
    def are_apart(self) -> bool:
        """True where no array that was given shares memory with another one."""
        try:
            return not any(may_overlap(a, b) for a, b in itertools.combinations(self._arrays, 2))
        except ArgumentTypeError:  # their memory has no addresses
            return False

    def recorded(self, result: Any) -> _Recorded | None:
        """Return what repeats the call, ``None`` where nothing does."""
        if not self.is_repeatable or len(self.launches) > _MAX_LAUNCHES:
            return None
        is_scalar = isinstance(result, np.generic)
        found = self.scalar if is_scalar else result
        try:
            return _Numbering(self._arrays, self.made).recorded(self, found, is_scalar=is_scalar)
        except _NotKnown:
            return None


class _Numbering:
    """Numbers for the values of a recorded call, while it is looked through."""

    def __init__(self, given: list[Any], made: list[tuple[Any, bool]]) -> None:
        self._given_count = len(given)
        self._roots = [(each, False) for each in given] + made
        self._bounds = [bounds_of(each) for each, _ in self._roots]
        #: The forms in which arrays are made, by the root, and those of views, with their root.
        self._forms: dict[int, Any] = {}
        self._views: list[tuple[int, Any]] = []
        self._constants: list[Any] = []
        #: What each array that was met is called: a root or a view, and which one.
        self._names = {
            (at, 0, each.shape, each.strides, each.dtype): ("root", at)
            for at, each in enumerate(given)
        }

    def recorded(self, recording: _Recording, result: Any, *, is_scalar: bool) -> _Recorded:
        """Return a call as its launches.

        Raises
        ------
        _NotKnown
            Where one of its values is not known in another call.
        """
        is_tuple = type(result) is tuple
        # The result comes first, so that its memory is made in its form.
        results = [self._name_of_array(each) for each in (result if is_tuple else (result,))]
        launches = [
            (start, [self._name_of(each) for each in args]) for start, args in recording.launches
        ]
        names = [
            *(("root", root) for root in (*range(self._given_count), *self._forms)),
            *(("view", at) for at in range(len(self._views))),
            *(("constant", at) for at in range(len(self._constants))),
        ]
        numbers = {name: at for at, name in enumerate(names)}
        found = tuple([numbers[each] for each in results])
        return _Recorded(
            recording.given,
            tuple(self._forms.values()),
            tuple([(numbers["root", root], form) for root, form in self._views]),
            tuple(self._constants),
            tuple([(start, _picker([numbers[each] for each in args])) for start, args in launches]),
            found if is_tuple else found[0],
            is_scalar,
        )

    def _name_of(self, value: Any) -> tuple[str, int]:
        if isinstance(value, np.ndarray | kd.DeviceArray):
            return self._name_of_array(value)
        if not isinstance(value, bool | int | float | complex | np.generic):
            raise _NotKnown
        self._constants.append(value)
        return "constant", len(self._constants) - 1

    def _name_of_array(self, array: Any) -> tuple[str, int]:
        at = self._root_of(array)
        root, is_zero = self._roots[at]
        if at >= self._given_count and at not in self._forms:
            # Device memory is made in the first form that it is used in, if that is all of it.
            is_other = isinstance(array, kd.DeviceArray) and array.nbytes == root.nbytes
            if is_other and array.layout != "A" and not is_zero:
                root = array
                self._roots[at] = root, is_zero
            self._forms[at] = _form_of(root, root, is_zero=is_zero)
            self._names[_geometry(at, root, root)] = "root", at
        key = _geometry(at, array, root)
        if key not in self._names:
            if isinstance(root, np.ndarray) and not root.flags.c_contiguous:
                raise _NotKnown  # NumPy makes arrays of others' bytes alone
            self._views.append((at, _form_of(array, root)))
            self._names[key] = "view", len(self._views) - 1
        return self._names[key]

    def _root_of(self, array: Any) -> int:
        """Return the number of the array in whose memory another one lies."""
        if isinstance(array, np.ndarray | kd.DeviceArray):
            low, high = bounds_of(array)
            for at, (first, end) in enumerate(self._bounds):
                is_within = not low < first and not end < high
                if is_within and isinstance(array, kd.DeviceArray) is isinstance(
                    self._roots[at][0], kd.DeviceArray
                ):
                    return at
        raise _NotKnown


def _geometry(at: int, array: Any, root: Any) -> tuple[Any, ...]:
    offset = start_of(array) - start_of(root)
    return at, offset, array.shape, array.strides, array.dtype


def _form_of(array: Any, root: Any, *, is_zero: bool = False) -> Any:
    """Return the form of an array in the memory of another one."""
    if isinstance(array, np.ndarray):
        return _HostForm(array, start_of(array) - start_of(root), is_zero=is_zero)
    return (_ZeroForm if is_zero else kd.ArrayForm)(array, root)


def _picker(places: list[int]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Return what makes a tuple of the values at some places."""
    if len(places) == 1:
        return lambda values: (values[places[0]],)
    pick: Callable[[list[Any]], tuple[Any, ...]] = operator.itemgetter(*places)
    return pick
