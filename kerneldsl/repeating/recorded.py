"""A recorded call: its launches, with numbers for the arrays that differ in each call."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from kerneldsl.contract.locations import alignment_number
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.device_memory import PooledBuffer
from kerneldsl.memory.forms import ArrayForm
from kerneldsl.memory.strided import byte_bounds
from kerneldsl.utilities.written_functions import written_function

__all__ = ["NotKnown", "Recorded", "bytes_after_word", "may_overlap", "number_values"]


class _HostForm:
    """The place of a NumPy array in another one's memory, its shape, strides and dtype."""

    def __init__(
        self, array: np.ndarray[Any, Any], root: np.ndarray[Any, Any], *, is_zero: bool = False
    ) -> None:
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.offset, self.is_zero = _start_of(array) - _start_of(root), is_zero
        self.is_whole = _is_whole(array, root)


class _ZeroForm(ArrayForm):
    """The form of a device array that begins as zeros."""

    __slots__ = ()

    def empty(self) -> DeviceArray:
        made = super().empty()
        made.fill(0)
        return made


def _written_empty(form: Any, name_of: Callable[[Any], str]) -> str:
    """Return an expression of an array of a form in new memory."""
    if not isinstance(form, _HostForm):
        return f"{name_of(form)}.empty()"
    make = name_of(np.zeros if form.is_zero else np.empty)
    return f"{make}({name_of(form.shape)}, {name_of(form.dtype)})"


def _written_view(form: Any, array: str, name_of: Callable[[Any], str]) -> str:
    """Return an expression of an array of a form in the memory of a contiguous one."""
    if not isinstance(form, _HostForm):
        return f"{name_of(form)}.view({array})"
    if form.is_whole:  # three times as fast as a view of any other form
        return f"{array}.reshape({name_of(form.shape)})"
    known = np.ndarray, form.shape, form.dtype, form.offset, form.strides
    make, shape, dtype, offset, strides = map(name_of, known)
    return f"{make}({shape}, {dtype}, {array}, {offset}, {strides})"


class _Plan(NamedTuple):
    """A call as its launches.

    Values are numbered: arrays given, arrays made, views of both, and constants.
    """

    given_count: int
    made: tuple[Any, ...]
    #: The number of an array, and the form of its view.
    views: tuple[tuple[int, Any], ...]
    constants: tuple[Any, ...]
    #: Launches, and the numbers of their arguments.
    launches: tuple[tuple[Any, tuple[int, ...]], ...]
    #: Number of the returned value, or numbers of several.
    result: int | tuple[int, ...]
    #: The index of the element that is returned of it, if it is a scalar.
    element: tuple[int, ...] | None
    #: Makes the returned object of these values, if they are not it.
    make: Callable[..., Any] | None

    @property
    def _scalar(self) -> int | None:
        """Number of the NumPy array of one element that is read, which a later call can use."""
        at = self.result
        if self.element is None or not isinstance(at, int):
            return None
        made = dict(enumerate(self.made, self.given_count)).get(at)
        return at if isinstance(made, _HostForm) and not made.is_zero else None

    def write(self) -> Callable[..., Any]:
        """Return a function of the arrays that makes the launches and returns the result.

        Calls that differ in their values alone have the same text, which is compiled once.
        """
        known: list[Any] = []
        values = [f"v{at}" for at in range(self.given_count + len(self.made) + len(self.views))]
        lines = [f"def repeat({', '.join(values[: self.given_count])}):"]
        names = iter(values[self.given_count :])

        def name_of(value: Any) -> str:
            known.append(value)
            return f"k{len(known) - 1}"

        spare: list[Any] = []
        for at, form in enumerate(self.made, self.given_count):
            made = f"{next(names)} = {_written_empty(form, name_of)}"
            if at == self._scalar:
                known_pop = name_of(spare.pop)
                lines += [f"try: {values[at]} = {known_pop}()", f"except IndexError: {made}"]
            else:
                lines.append(made)
        for place, form in self.views:
            lines.append(f"{next(names)} = {_written_view(form, values[place], name_of)}")
        values += map(name_of, self.constants)
        for start, numbers in self.launches:
            lines.append(f"{name_of(start)}({', '.join(values[at] for at in numbers)})")
        if self.make is not None and isinstance(self.result, tuple):
            given = ", ".join(values[at] for at in self.result)
            lines.append(f"return {name_of(self.make)}({given})")
        elif isinstance(self.result, tuple):
            lines.append(f"return ({''.join(f'{values[at]}, ' for at in self.result)})")
        else:
            found = values[self.result]
            if self.element is not None:
                lines.append(f"found = {found}[{name_of(self.element)}]")
            if self._scalar is not None:
                lines.append(f"{name_of(spare.append)}({found})")
            lines.append("return found" if self.element is not None else f"return {found}")
        head = f"def with_known({', '.join(f'k{at}' for at in range(len(known)))}):"
        body = "\n        ".join(lines)
        repeat: Callable[..., Any] = _compiled(f"{head}\n    {body}\n    return repeat\n")(*known)
        return repeat


@lru_cache(256)
def _compiled(text: str) -> Callable[..., Callable[..., Any]]:
    """Compile what makes a function of the values that its text leaves open."""
    made: Callable[..., Callable[..., Any]] = written_function("with_known", text, {}, __name__)
    return made


class Recorded:
    """A call that can be made again with arrays of the same forms."""

    __slots__ = ("_plan", "_written", "kept", "repeat")

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._written: Callable[..., Any] | None = None
        #: Arrays among the constants that a device holds.
        self.kept = tuple([each for each in plan.constants if isinstance(each, DeviceArray)])
        #: Takes the arrays, each once, makes the launches and returns the result.
        self.repeat: Callable[..., Any] = self._repeat_first

    @property
    def is_usable(self) -> bool:
        """True while its constants are there: a device that is reset takes them away."""
        return not any(each.is_closed for each in self.kept)

    def _repeat_first(self, *arrays: Any) -> Any:
        """Record the call for repetition; many calls are made only once.

        Once launches are native, what they are given is made by native code, too.
        """
        from kerneldsl.launch.native import machine  # a first call does without it

        if self._written is None:
            self._written = self._plan.write()
        if machine.is_installed() or machine.is_refused():
            machine.install_forms()
            self.repeat = self._written
        return self._written(*arrays)


class NotKnown(Exception):
    """Something in a call is no constant and is in no array that is known."""


def number_values(
    given: list[Any],
    made: list[tuple[Any, bool]],
    launches: list[tuple[Any, tuple[Any, ...]]],
    result: Any,
    *,
    constants: list[Any],
    is_scalar: bool,
    make: Callable[..., Any] | None = None,
) -> Recorded:
    """Return a call as its launches.

    `given` are the call's arrays, each once and without common memory. `made` are those that it
    made, and whether they began as zeros. `constants` are those that no launch writes. `result` is
    an array, a tuple of arrays, or the array that contains a returned scalar. With `make` it is a
    tuple of the arrays and numbers that the result is made of. `NotKnown` is raised if an array is
    not among these, or another value is not a number.
    """
    return _Numbering(given, made, constants).recorded(
        launches, result, is_scalar=is_scalar, make=make
    )


class _Numbering:
    """Numbers for the values of a recorded call, while it is looked through."""

    def __init__(
        self, given: list[Any], made: list[tuple[Any, bool]], constants: list[Any]
    ) -> None:
        self._kept = {id(each): each for each in constants}
        self._given_count = len(given)
        self._roots = [(each, False) for each in given] + made
        self._bounds = [_bounds_of(each) for each, _ in self._roots]
        #: The forms in which arrays are made, by the root, and those of views, with their root.
        self._forms: dict[int, Any] = {}
        self._views: list[tuple[int, Any]] = []
        self._constants: list[Any] = []
        self._launched: dict[Any, Any] = {}
        #: Names of the arrays so far: a root or a view, and its number.
        self._names = {
            (at, 0, each.shape, each.strides, each.dtype): ("root", at)
            for at, each in enumerate(given)
        }

    def recorded(
        self,
        calls: list[tuple[Any, tuple[Any, ...]]],
        result: Any,
        *,
        is_scalar: bool,
        make: Callable[..., Any] | None,
    ) -> Recorded:
        """Return a call with its values numbered."""
        every = [value for _, args in calls for value in args]
        self._launched |= {_placed(each): each for each in every if _is_array(each)}
        is_tuple = type(result) is tuple
        if is_scalar:  # of memory in the form that launches use
            launches = self._names_of_launches(calls)
            at, element = self._place_of_element(result)
            results = [("root", at)]
        else:  # whose memory is made in the result's form
            name = self._name_of_array if make is None else self._name_of
            results = [name(each) for each in (result if is_tuple else (result,))]
            launches, element = self._names_of_launches(calls), None
        names = [
            *(("root", root) for root in (*range(self._given_count), *self._forms)),
            *(("view", at) for at in range(len(self._views))),
            *(("constant", at) for at in range(len(self._constants))),
        ]
        numbers = {name: at for at, name in enumerate(names)}
        found = tuple([numbers[each] for each in results])
        return Recorded(
            _Plan(
                self._given_count,
                tuple(self._forms.values()),
                tuple([(numbers["root", root], form) for root, form in self._views]),
                tuple(self._constants),
                tuple([(start, tuple([numbers[each] for each in a])) for start, a in launches]),
                found if is_tuple else found[0],
                element,
                make,
            )
        )

    def _names_of_launches(
        self, calls: list[tuple[Any, tuple[Any, ...]]]
    ) -> list[tuple[Any, list[tuple[str, int]]]]:
        return [(start, [self._name_of(each) for each in args]) for start, args in calls]

    def _place_of_element(self, array: Any) -> tuple[int, tuple[int, ...]]:
        """Return the root that an array of one element is, and the element's index there."""
        at = self._root_of(array)
        if at >= self._given_count and at not in self._forms:
            self._name_of_array(array)
        root, _ = self._roots[at]
        if root.size != 1:
            raise NotKnown
        return at, (0,) * root.ndim

    def _name_of(self, value: Any) -> tuple[str, int]:
        if _is_array(value) and id(value) not in self._kept:
            return self._name_of_array(value)
        if not (id(value) in self._kept or _is_number(value)):
            raise NotKnown
        self._constants.append(value)
        return "constant", len(self._constants) - 1

    def _name_of_array(self, array: Any) -> tuple[str, int]:
        # If an equal array was launched, its form shows how launches pass it.
        array = self._launched.get(_placed(array), array) if _is_array(array) else array
        at = self._root_of(array)
        root, is_zero = self._roots[at]
        if at >= self._given_count and at not in self._forms:
            # Memory is made in the first form that it is used in, if that is all of it.
            if _is_whole(array, root) and not is_zero:
                root = array
                self._roots[at] = root, is_zero
            self._forms[at] = _form_of(root, root, is_zero=is_zero)
            self._names[_geometry(at, root, root)] = "root", at
        key = _geometry(at, array, root)
        if key not in self._names:
            if isinstance(root, np.ndarray) and not root.flags.c_contiguous:
                raise NotKnown  # NumPy makes arrays of others' bytes alone
            self._views.append((at, _form_of(array, root)))
            self._names[key] = "view", len(self._views) - 1
        return self._names[key]

    def _root_of(self, array: Any) -> int:
        """Return the number of the array that contains the memory of another one."""
        if _is_array(array):
            low, high = _bounds_of(array)
            for at, (first, end) in enumerate(self._bounds):
                is_within = not low < first and not end < high
                if is_within and isinstance(array, DeviceArray) is isinstance(
                    self._roots[at][0], DeviceArray
                ):
                    return at
        raise NotKnown


def _is_number(value: Any) -> bool:
    """Return whether a value is a number or None, or a tuple of such."""
    if isinstance(value, tuple):
        return all(map(_is_number, value))
    return value is None or isinstance(value, bool | int | float | complex | np.generic)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | DeviceArray)


def _is_whole(array: Any, root: Any) -> bool:
    """Return whether an array is all of another one, and could have been made as it is."""
    if isinstance(array, DeviceArray):
        return array.nbytes == root.nbytes and array.layout != "A"
    is_in_order = array.flags.c_contiguous and root.flags.c_contiguous
    return bool(is_in_order and array.nbytes == root.nbytes and array.dtype == root.dtype)


def _placed(array: Any) -> tuple[Any, ...]:
    return type(array), _start_of(array), array.shape, array.strides, array.dtype


def _geometry(at: int, array: Any, root: Any) -> tuple[Any, ...]:
    offset = _start_of(array) - _start_of(root)
    return at, offset, array.shape, array.strides, array.dtype


def _form_of(array: Any, root: Any, *, is_zero: bool = False) -> Any:
    """Return the form of an array in the memory of another one."""
    if isinstance(array, np.ndarray):
        return _HostForm(array, root, is_zero=is_zero)
    return (_ZeroForm if is_zero else ArrayForm)(array, root)


# The memory that an array is in, which two arrays may share.


def _start_of(array: Any) -> int:
    """Return the address of an array's first element."""
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.pointer)


def bytes_after_word(array: Any) -> int:
    """Return how many bytes after a multiple of 4 the first element of an array begins."""
    if isinstance(array, DeviceArray):
        return alignment_number(array.location) % 4
    return int(array.ctypes.data % 4)


def _bounds_of(array: Any) -> tuple[int, int]:
    """Return the addresses between which an array's elements lie; see `_start_of`."""
    low, high = byte_bounds(_start_of(array), array.shape, array.strides, array.dtype.itemsize)
    return int(low), int(high)


def may_overlap(left: Any, right: Any) -> bool:
    """Return whether two arrays may share memory, by their bounds."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return np.may_share_memory(left, right)  # a tenth of the time of what follows
    if isinstance(left, DeviceArray) != isinstance(right, DeviceArray):
        return False
    if isinstance(left, DeviceArray) and _are_of_two_buffers(left._owner, right._owner):
        return False
    low_left, high_left = _bounds_of(left)
    low_right, high_right = _bounds_of(right)
    return low_left < high_right and low_right < high_left


def _are_of_two_buffers(left: Any, right: Any) -> bool:
    """Return whether pools gave two owners their memory, each by itself."""
    return left is not right and type(left) is PooledBuffer and type(right) is PooledBuffer
