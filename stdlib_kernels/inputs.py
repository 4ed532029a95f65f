"""Arguments other than NumPy arrays and device arrays, and the results that belong to them.

An array of another library is read without a copy. In host memory it becomes a NumPy array over
the same memory, else a device array. Numbers and lists become NumPy arrays, beside device arrays
device arrays. A result becomes an array of the first library that takes arrays over.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import a_type
from kerneldsl.repeating.foreign_calls import device_arrays, foreign_array, working_with
from kerneldsl.utilities.modules import is_masked_array

__all__ = ["OURS", "Call", "Parameters"]

#: Types that functions take directly in place of an array.
OURS = frozenset([np.ndarray, kd.DeviceArray, type(None)])
#: Attributes of types that share the memory of an array.
_PROTOCOLS = ("__cuda_array_interface__", "__dlpack__", "__array_interface__", "__array__")
#: Types of arrays in annotations, and origins of annotations with several types.
_ARRAYS, _UNIONS = {np.ndarray, kd.DeviceArray}, (Union, UnionType)
_NUMBERS = (int, float, complex, np.generic)
_OF_NUMPY = (np.ndarray, np.generic)
#: Types that are remembered.
_MAX_MET = 256


class _Parameter(NamedTuple):
    """Kinds of arguments that a parameter takes."""

    #: Lists, which become arrays, and numbers.
    is_loose: bool = False
    #: Numbers that are not converted: ``"any"`` with an array, ``"int"`` always.
    numbers: str = ""
    #: A tuple of values that may be arrays.
    is_tuple: bool = True


class Parameters:
    """The parameters of a function, as their annotations say which of them take arrays.

    Annotations are read by the first call. A program imports many functions, and calls a few.
    """

    _names: list[str]
    _arrays: dict[str, _Parameter]
    #: Places of arguments that are arrays, and the first of any number of them.
    _places: list[int]
    _rest: int | None

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __getattr__(self, name: str) -> Any:
        if name not in Parameters.__annotations__:
            raise AttributeError(name)
        names, arrays, places, rest = list[str](), dict[str, _Parameter](), list[int](), None
        types = get_type_hints(self._function)
        for place, (parameter, each) in enumerate(
            inspect.signature(self._function).parameters.items()
        ):
            found = _parameter_of(types.get(parameter))
            if found is not None and parameter != "out":
                arrays[parameter] = found
                if each.kind is each.VAR_POSITIONAL:
                    rest = place
                elif each.kind is not each.KEYWORD_ONLY:
                    places.append(place)
            if each.kind is not each.KEYWORD_ONLY:
                names.append(parameter)
        self._names, self._arrays, self._places, self._rest = names, arrays, places, rest
        return self.__dict__[name]

    def are_plain(self, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Return whether a function can be called with these arguments as they are."""
        for value in args:
            found = _met.get(type(value))
            if found or (found is None and not _is_plain(value)):
                return False
        for at in self._places:
            if at < len(args) and type(args[at]) not in OURS and not _are_native_arrays(args[at]):
                return False
        if self._rest is not None and not _are_operands(args[self._rest :]):
            return False
        for name, value in named.items():
            if not (_is_plain(value) and (name not in self._arrays or _are_native_arrays(value))):
                return False
        return True

    def named(self, args: tuple[Any, ...]) -> Iterable[tuple[str, Any]]:
        """Return positional arguments with the names of their parameters."""
        names = self._names
        return zip(names + names[-1:] * (len(args) - len(names)), args, strict=False)

    def of(self, name: str) -> _Parameter:
        """Return a parameter by its name; without an array in its annotation `_OTHER`."""
        return self._arrays.get(name, _OTHER)


def _parameter_of(annotation: Any) -> _Parameter | None:
    """Return the parameter with an annotation.

    It is ``None`` if the function accepts no arrays there, or reads lists itself.
    """
    choices = get_args(annotation) if get_origin(annotation) in _UNIONS else (annotation,)
    types = {get_origin(each) or each for each in choices}
    are_in_tuple = any(each is not None for each in map(_parameter_of, _elements_of(choices)))
    if Sequence in types or not (are_in_tuple or types.intersection(_ARRAYS)):
        return None
    numbers = "any" if complex in types else "int" if int in types else ""
    return _Parameter(True, numbers, are_in_tuple)


def _elements_of(choices: Iterable[Any]) -> Iterator[Any]:
    """Return the types of elements of tuples."""
    for each in choices:
        if get_origin(each) is tuple:
            yield from get_args(each)


#: `out`, and parameters that take no array: only arrays of other libraries are replaced.
_OTHER = _Parameter()


def _is_plain(value: Any) -> bool:
    """Return whether a value is no array of others, and has none."""
    if type(value) is tuple or type(value) is list:
        return all(map(_is_plain, value))
    return _met.get(type(value)) is False


def _are_native_arrays(value: Any) -> bool:
    return type(value) in OURS or (type(value) is tuple and all(map(_are_native_arrays, value)))


def _are_operands(values: tuple[Any, ...]) -> bool:
    """Return whether values are arrays and numbers, with an array among them."""
    arrays = [each for each in values if type(each) in OURS]
    numbers = [each for each in values if isinstance(each, _NUMBERS)]
    return len(arrays) + len(numbers) == len(values) and bool(arrays)


class Call:
    """The arguments of a call with NumPy arrays or device arrays in them, and its result.

    Attributes
    ----------
    args, named
        The arguments; see `Parameters`.
    is_changed : bool
        Whether one differs from what was given.
    """

    def __init__(
        self, parameters: Parameters, args: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        given = [*parameters.named(args), *named.items()]
        #: Arrays of others by their identity, with the names of their parameters.
        theirs = {
            id(each): (name, each)
            for name, value in given
            for each in (value if type(value) in (tuple, list) else (value,))
            if _is_foreign_array(each)
        }
        self._ours, self._give = _taken(theirs)
        self._theirs = {id(each): each for _, each in given if type(each) in _ARRAYS}
        self._theirs |= {id(self._ours[at]): each for at, (_, each) in theirs.items()}
        found = [self._exchanged(parameters.of(name), value) for name, value in given]
        self._make_arrays(given, found, parameters)
        self.is_changed = any(a is not b for a, (_, b) in zip(found, given, strict=True))
        self.args = tuple(found[: len(args)])
        self.named = dict(zip(named, found[len(args) :], strict=True))

    def returned(self, found: Any) -> Any:
        """Return a result as an array of the library of the call's arguments.

        A result that is an argument, such as `out`, is that argument itself.
        """
        return _as_foreign(found, self._theirs, self._give)

    def _exchanged(self, parameter: _Parameter, value: Any) -> Any:
        if parameter.is_tuple and type(value) in (tuple, list):
            if not self._ours and not parameter.is_loose:
                return value
            return _like(value, [self._exchanged(parameter, each) for each in value])
        return self._ours.get(id(value), value)

    def _make_arrays(
        self, given: list[tuple[str, Any]], found: list[Any], parameters: Parameters
    ) -> None:
        """Replace numbers and lists that are in the place of arrays."""
        takes = {at: parameters.of(name) for at, (name, _) in enumerate(given)}
        takes = {at: each for at, each in takes.items() if each.is_loose}
        arrays = [each for at in takes for each in _each_in(found[at])]
        device = next((each.device for each in arrays if isinstance(each, kd.DeviceArray)), None)
        for at, each in takes.items():
            name, value = given[at][0], found[at]
            if each.is_tuple and type(value) is tuple:
                found[at] = _like(value, [_as_loose(name, one, device) for one in value])
            elif not (each.numbers and isinstance(value, _NUMBERS)):
                found[at] = _as_loose(name, value, device)
        beside = [at for at, each in takes.items() if each.numbers == "any"]
        if beside and not any(isinstance(found[at], np.ndarray | kd.DeviceArray) for at in takes):
            # If all are numbers, NumPy's determine the dtype, and Python's if there are no others.
            scalars = [at for at in beside if isinstance(found[at], np.generic)]
            for at in scalars or beside:
                found[at] = _as_loose(given[at][0], found[at], device)


def _taken(theirs: dict[int, tuple[str, Any]]) -> tuple[dict[int, Any], Callable[[Any], Any]]:
    """Return an array over the memory of each, by the identity of the other one.

    All are NumPy arrays if that is possible, else all are device arrays. With them a function that
    makes arrays of the first library that takes them over. `theirs` has the names of parameters.
    """
    found: dict[int, Any] = {}
    give: Callable[[Any], Any] = _as_it_is
    for at, (name, each) in theirs.items():
        if _is_tensor(each):
            give, array = _give_tensor, _tensor_on_host(each)
        else:
            array = _without_copy(name, each) if _array_maker(each) is None else None
        if array is None:
            break
        found[at] = array
    else:
        return found, give
    arrays = device_arrays([each for _, each in theirs.values()])
    give = partial(_give_device_array, theirs)
    return dict(zip(theirs, arrays, strict=True)), give


def _give_device_array(theirs: dict[int, tuple[str, Any]], found: Any) -> Any:
    """Return a device array as one of another library, others as they are."""
    if not isinstance(found, kd.DeviceArray):
        return found
    made = foreign_array(found)
    if made is None:
        takers = (_array_maker(each) for _, each in theirs.values())
        made = next((each for each in takers if each is not None), _as_it_is)(found)
    return made


def _as_foreign(found: Any, theirs: dict[int, Any], give: Callable[[Any], Any]) -> Any:
    """Return a result as arrays of another library; arguments among it are in `theirs`."""
    if not isinstance(found, tuple):
        return theirs[id(found)] if id(found) in theirs else give(found)
    results = [theirs[id(each)] if id(each) in theirs else give(each) for each in found]
    make: Callable[[Any], Any] = getattr(found, "_make", tuple)
    return make(results)


def _as_it_is(found: Any) -> Any:
    return found


def _like(value: Any, found: list[Any]) -> Any:
    """Return a tuple of what was found for the elements of a value, itself if they are the same."""
    is_same = type(value) is tuple and all(a is b for a, b in zip(value, found, strict=True))
    return value if is_same else tuple(found)


def _each_in(value: Any) -> Iterator[Any]:
    yield from value if type(value) is tuple else (value,)


def _as_loose(name: str, value: Any, device: kd.Device | None) -> Any:
    """Return a number, or numbers in lists, as an array; other values as they are.

    It is read-only, as what a function writes there would be lost.
    """
    if not isinstance(value, (*_NUMBERS, list, tuple, range)):
        return value
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ArgumentTypeError(
            f"{name} is {a_type(value)} that NumPy makes no array of",
            value=value,
            limit="Lists in a list have one length",
            remedy="Make an array of numbers of it",
        ) from error
    except MemoryError as error:
        raise ArgumentValueError(
            f"{name} is {a_type(value)} of more numbers than memory holds",
            value=value,
            limit="Its numbers become an array",
            remedy="Pass fewer, or an array of a narrower dtype",
        ) from error
    if device is not None:
        return kd.to_device(array, device=device)
    array.flags.writeable = False
    return array


# --------------------------------------------------------------------------- arrays of others


#: Types that were met, and whether their objects are arrays of others; not of tuples and lists.
_met: dict[type, bool] = dict.fromkeys((*OURS, bool, int, float, complex, str, bytes, type), False)


def _is_foreign_array(value: Any) -> bool:
    """Return whether a value is an array of another library, or shares its memory as a buffer."""
    kind = type(value)
    found = _met.get(kind)
    if found is None and not issubclass(kind, tuple | list):
        found = _shares_memory(kind, value)
        if len(_met) < _MAX_MET:
            _met[kind] = found
    return bool(found)


def _shares_memory(kind: type, value: Any) -> bool:
    if issubclass(kind, np.generic | np.matrix) or is_masked_array(kind):
        return False
    if any(hasattr(kind, name) for name in _PROTOCOLS):
        return True
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def _without_copy(name: str, value: Any) -> np.ndarray[Any, Any] | None:
    """Return a NumPy array over the memory of another object.

    ``None`` is for what may be taken over by DLPack.
    """
    try:
        return np.asarray(value, copy=False)
    except Exception as error:  # what a foreign object raises
        if any(hasattr(type(value), each) for each in _PROTOCOLS[:2]):
            return None
        raise ArgumentTypeError(
            f"{name} is {a_type(value)}, and NumPy makes no array of it without a copy",
            value=value,
            limit="Library functions read arrays of other libraries without a copy",
            remedy=f"Pass np.asarray({name}), which copies",
        ) from error


def _array_maker(array: Any) -> Callable[[Any], Any] | None:
    """Return ``from_dlpack`` of an array's library, which waits for the stream."""
    if isinstance(array, np.ndarray | kd.DeviceArray):  # a subclass, such as numpy.memmap
        return None
    space = getattr(array, "__array_namespace__", None)
    library = space() if callable(space) else sys.modules.get(type(array).__module__.split(".")[0])
    return getattr(library, "from_dlpack", None)


# --------------------------------------------------------------------------- torch


def call_with_foreign(
    function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any] | None:
    """Call a function of arrays of torch or CuPy and of values that stay as they are.

    The function is given arrays over their memory, and the result becomes an array of the library.
    ``None`` is for calls with other values. This is the fast path of `Call`.
    """
    modules: Any = sys.modules
    tensor = modules["torch"].Tensor if "torch" in modules else None
    if len(args) == 1 and not named and type(args[0]) is tensor and args[0].is_cpu:
        array = _tensor_on_host(args[0])
        if array is not None:
            found = function(array)
            if type(found) is not tuple and found is not array:
                return (_give_tensor(found),)
            return (_as_foreign(found, {id(array): args[0]}, _give_tensor),)
    of_cupy = modules["cupy"].ndarray if "cupy" in modules else None
    theirs: dict[int, Any] = {}
    back: dict[int, Any] = {}
    for value in (*args, *named.values()) if named else args:
        kind = type(value)
        if _met.get(kind) is False:
            if kind in _ARRAYS:
                back[id(value)] = value
        elif kind is tensor or kind is of_cupy:
            theirs[id(value)] = value
        else:
            return None
    if not theirs:
        return None
    with working_with(theirs.values()):
        ours, give = _taken({at: ("", each) for at, each in theirs.items()})
        for at, array in ours.items():
            back[id(array)] = theirs[at]
        given = {name: ours.get(id(each), each) for name, each in named.items()}
        found = function(*[ours.get(id(each), each) for each in args], **given)
        return (_as_foreign(found, back, give),)


def _is_tensor(value: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def _tensor_on_host(tensor: Any) -> Any:
    """Return a NumPy array over a tensor's memory, or ``None``."""
    if not tensor.is_cpu:
        return None
    try:  # what DLPack would take some thirty times as long for
        return tensor.numpy()
    except (RuntimeError, TypeError):  # a gradient, a lazy conjugate; a dtype that NumPy has not
        return None


def _give_tensor(found: Any) -> Any:
    torch: Any = sys.modules["torch"]
    if isinstance(found, _OF_NUMPY):
        if found.dtype.isbuiltin == 1:
            return torch.from_numpy(np.asarray(found))
        found = kd.to_device(found, device="cpu")  # bfloat16, say, which NumPy itself has not
    return torch.from_dlpack(found) if isinstance(found, kd.DeviceArray) else found
