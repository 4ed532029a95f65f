"""Public functions of the library: the arrays, the words and the errors that all have in common."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

import kerneldsl as kd
from kerneldsl.utilities.tracebacks import OWN_FOLDERS, passes_on, shorten_errors
from stdlib_kernels.repeating import Repeated, refuse_to_repeat

__all__ = ["library_function", "repeated_function", "warn"]

P = ParamSpec("P")
R = TypeVar("R")

#: Of a type, what shares the memory of its objects.
_PROTOCOLS = ("__cuda_array_interface__", "__dlpack__")

#: Types of most arguments, which are no arrays of others.
_PLAIN = frozenset([np.ndarray, kd.DeviceArray, bool, int, float, tuple, type(None)])

#: What stands in docstrings for a parameter, or a sentence, that many functions share.
_WORDS = {
    "array": """x : array
    NumPy's, a device array, or one of another library, such as torch or CuPy, that shares its
    memory by DLPack or ``__cuda_array_interface__``; of any rank and layout. bool, integer, float
    or complex.""",
    "real array": """x : array
    NumPy's, a device array, or one of another library, such as torch or CuPy, that shares its
    memory by DLPack or ``__cuda_array_interface__``; of any rank and layout. bool, integer or
    float.""",
    "axes": """axis : int or tuple of int, optional
    What is reduced; all axes by default.""",
    "axis": """axis : int, optional
    What is reduced; by default the array is taken as flattened in C order.""",
    "scanned axis": """axis : int, optional
    Along which elements follow each other; by default the array is taken as flattened in C
    order.""",
    "sorted axis": """axis : int, optional
    Along which; ``None`` takes the array as flattened in C order.""",
    "descending": """descending : bool
    Whether the largest come first.""",
    "mode": """mode : str
    What an index out of range means: ``"raise"`` refuses it, for which the host waits for the
    device; ``"wrap"`` counts from the other end again; ``"clip"`` takes the first or the last one,
    and none counts from the end.""",
    "out": """out : array, optional
    Where the result goes, of the result's shape and dtype and of `x`'s kind.""",
    "keepdims": """keepdims : bool
    Whether the result keeps the axes that are reduced, with an extent of 1.""",
    "accumulating dtype": """dtype : dtype, optional
    In which it is computed, and of the result; by default int64 for booleans and signed integers,
    uint64 for unsigned ones, and the array's own for others.""",
    "operator": """op : function
    Of two values, a plain function, a lambda or one under `kerneldsl.func`, which kernels can call.
    {}
    A function is compiled once; a new one of the same text is compiled anew.
identity : number
    What `op` leaves every value unchanged with; it is combined with elements more than once.
dtype : dtype, optional
    In which values are combined, and of the result; by default the array's own.""",
    "exclusive": """exclusive : bool
    Whether an element itself is left out, so that the first one becomes what nothing comes to.""",
    "reverse": """reverse : bool
    Whether elements follow each other from the last to the first.""",
    "computing dtype": """dtype : dtype, optional
    In which it is computed; by default float64 for booleans and integers, and the array's own for
    others. The result has it, too, or its real part's.""",
    "size": """size : int or tuple of int, optional
    The shape of the array; one number by default, or as many as `out` has elements.""",
    "drawn parameters": """size : int or tuple of int, optional
    The shape of the array; one number by default, or as many as `out` has elements.
dtype : dtype, optional
    float64 (by default), float32, float16 or bfloat16, in which numbers are drawn; the last two are
    computed as float32 and rounded.
out : array, optional
    Where the numbers go, of any kind and layout, and of their shape and dtype.""",
    "drawn": """    A device array on the generator's device, or without a `size` a NumPy scalar;
    `out`, where it is given.

Raises
------
kerneldsl.errors.ArgumentError
    Where a parameter is none that the distribution has, or `out` does not fit.""",
    "drawn errors": """kerneldsl.errors.ArgumentError
    Where a parameter is none that the distribution has.""",
    "gradient": """grad : array
    The gradient by the result, of float32, float64, float16 or bfloat16, of any layout.""",
    "gradient errors": """kerneldsl.errors.ArgumentError
    Where the arrays do not fit, or there is no such axis.""",
    "filtered": """x : array
    NumPy's, a device array, or one of another library; of any layout. Integers or floats.""",
    "border": """mode : str
    How the array goes on beyond its borders: ``"reflect"`` (d c b a | a b c d | d c b a),
    ``"mirror"`` (d c b | a b c d | c b a), ``"nearest"`` (a a a | a b c d | d d d), ``"wrap"``
    (b c d | a b c d | a b c) or ``"constant"``, with `cval`; also ``"grid-mirror"``,
    ``"grid-wrap"`` and ``"grid-constant"``.
cval : float
    What lies beyond the borders of mode ``"constant"``.""",
    "filtered result": """out : array, optional
    Where the result goes, of `x`'s shape, dtype and kind.

Returns
-------
array
    Of `x`'s shape, dtype and kind; `out`, where it is given. Of integers sums are float64, of which
    the fraction is cut off after each axis, as in SciPy; of floats they have the array's dtype, and
    of float16 and bfloat16 they are float32.

Raises
------
kerneldsl.errors.ArgumentError
    Where `x` is no array of numbers, or another argument does not fit.""",
    "ddof": """ddof : float
    What the number of elements is lessened by in the divisor.""",
    "correction": """correction : float, optional
    The array API's name for `ddof`.""",
    "kind": "Of `x`'s kind; `out`, where it is given.",
    "errors": """kerneldsl.errors.ArgumentError
    Where `x` is no array, or of another dtype, there is no such axis, or another argument does not
    fit.""",
    "empty": """kerneldsl.errors.ArgumentValueError
    Where the axes that are reduced have no elements.""",
    "raises": """Raises
------
{errors}""",
    "see": """See Also
--------
{}""",
    "examples": """Examples
--------
>>> import numpy as np
>>> from stdlib_kernels.{}""",
    "raises and see": """{raises}

{see: {}}""",
    "parameters of a reduction": """Parameters
----------
{array}
{axes}
{out}
{keepdims}""",
    "parameters of an extreme": """Parameters
----------
{real array}
{axes}
{out}
{keepdims}""",
    "parameters of a place": """Parameters
----------
{real array}
{axis}
{out}
{keepdims}""",
    "parameters of a spread": """{parameters of a reduction}
{computing dtype}
{ddof}
{correction}""",
    "reduced": """Returns
-------
NumPy scalar or array, or device array
    Of `x`'s kind; `out`, where it is given.""",
    "parameters of a scan": """Parameters
----------
{real array}
{scanned axis}
{out}
{exclusive}
{reverse}""",
    "scanned": """Returns
-------
array
    Of `x`'s kind, and its shape, or of shape ``(x.size,)`` without an axis; `out`, where it is
    given.""",
    "parameters of rows": """Parameters
----------
{real array}
axis : int
    Along which the elements of a row follow each other.
out : array, optional
    Where the result goes, of `x`'s shape and kind and the result's dtype; `x` itself will do.""",
    "weight": """weight : array of shape (n,), optional
    What the elements along the axis, n of them, are multiplied by; of `x`'s kind, ones by
    default.""",
    "rows": """Returns
-------
array
    Of `x`'s shape and kind; float64 for booleans and integers, else of `x`'s dtype. float16 and
    bfloat16 are computed as float32. `out`, where it is given.""",
    "parameters of a gradient": """Parameters
----------
{gradient}
{} : array
    Of `grad`'s shape, dtype and kind: x is the input, and y the result.
axis : int
    That of the call.""",
    "parameters of a norm's gradient": """{parameters of a gradient: x}
weight : array of shape (n,), optional
    The weights of the call; ones by default.
eps : float, optional
    That of the call, with its default.""",
    "gradient raises": """Raises
------
{gradient errors}""",
}


def library_function(function: Callable[P, R]) -> Callable[P, R]:
    """Make a public function of the library; a decorator.

    Arrays of other libraries are taken over without a copy, and results given back as theirs. Words
    in braces in the docstring, a line each, are replaced by what functions share; behind a colon
    stands what is put into that. Errors are shortened.
    """
    return _public(_of_any_kind(function, function))


def repeated_function(function: Callable[P, R]) -> Callable[P, R]:
    """Make a public function whose launches depend on its arrays' forms and its options alone.

    As `library_function`; the launches of a call are made again at the next one like it.
    """
    places = list(inspect.signature(function).parameters)
    repeated = Repeated(function, places.index("out") if "out" in places else None)

    @passes_on
    @functools.wraps(function)
    def repeating(*args: P.args, **kwargs: P.kwargs) -> R:
        found = repeated.find(args, kwargs)
        if found is None:
            return others(*args, **kwargs)
        return cast("R", repeated.call(*found, args, kwargs))

    others = _of_any_kind(function, repeating)
    return _public(repeating)


def _public(function: Callable[P, R]) -> Callable[P, R]:
    function.__doc__ = _documented(function.__doc__)
    return shorten_errors(function)


def _of_any_kind(function: Callable[P, R], of_ours: Callable[P, R]) -> Callable[P, R]:
    """Return what calls a function, and one of our arrays in the place of others."""

    @passes_on
    @functools.wraps(function)
    def of_any_kind(*args: P.args, **kwargs: P.kwargs) -> R:
        # Few calls have arrays of others: those that have none pass as they are.
        given = [array for each in (*args, *kwargs.values()) for array in _foreign_in(each)]
        if not given:
            refuse_to_repeat()
            return function(*args, **kwargs)
        taken = {id(each): kd.as_array(each) for each in given}
        call: Callable[..., Any] = of_ours
        found: Any = call(
            *(_exchanged(each, taken) for each in args),
            **{name: _exchanged(each, taken) for name, each in kwargs.items()},
        )
        give = _giver(given[0])
        if isinstance(found, tuple):
            found = type(found)(_given_back(each, given, taken, give) for each in found)
        else:
            found = _given_back(found, given, taken, give)
        return cast("R", found)

    return of_any_kind


def warn(text: str) -> None:
    """Warn of a result, on the line of the program that calls the library."""
    refuse_to_repeat()
    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN_FOLDERS):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, RuntimeWarning, stacklevel=depth)


def _foreign_in(value: Any) -> list[Any]:
    """Return the arrays of other libraries that an argument is, or that its tuple holds."""
    if type(value) is tuple:
        return [each for each in value if _is_foreign(each)]
    return [value] if _is_foreign(value) else []


def _exchanged(value: Any, taken: dict[int, Any]) -> Any:
    if type(value) is tuple:
        return tuple(taken.get(id(each), each) for each in value)
    return taken.get(id(value), value)


def _is_foreign(value: Any) -> bool:
    kind = type(value)
    if kind in _PLAIN or issubclass(kind, np.ndarray | np.generic | kd.DeviceArray):
        return False
    return any(hasattr(kind, name) for name in _PROTOCOLS)


def _giver(array: Any) -> Callable[[Any], Any]:
    """Return what makes an array of a foreign array's library, which then waits for our stream."""
    space = getattr(array, "__array_namespace__", None)
    library = space() if callable(space) else sys.modules.get(type(array).__module__.split(".")[0])
    take: Callable[[Any], Any] = getattr(library, "from_dlpack", lambda found: found)
    return take


def _given_back(found: Any, given: list[Any], taken: dict[int, Any], give: Any) -> Any:
    if not isinstance(found, kd.DeviceArray):
        return found
    made = give(found)
    # The result may be `out`: its library has been told to wait above, and it is itself.
    return next((each for each in given if taken[id(each)] is found), made)


def _documented(text: str | None) -> str | None:
    """Replace each line that is a word in braces."""
    return None if text is None else "\n".join(_lines_of(text))


def _lines_of(text: str) -> Iterator[str]:
    for line in text.splitlines():
        word = line.strip()
        if not (word.startswith("{") and word.endswith("}")):
            yield line
            continue
        name, _, given = word[1:-1].partition(": ")
        margin = line[: len(line) - len(line.lstrip())]
        for each in _lines_of(_WORDS[name].replace("{}", given)):
            yield (margin + each).rstrip()
