"""Read where arrays are read, and check what is given beside the expressions."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, NamedTuple

import sympy
from sympy.core.function import AppliedUndef

from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.kernels import wrong_type, wrong_value
from kerneldsl.errors.values import as_int
from kerneldsl.kernels.decorators import func

__all__ = [
    "MAX_RANK",
    "MODES",
    "Access",
    "coordinates_of",
    "indexed_functions",
    "mirror",
    "read_index",
    "read_name",
    "read_parameters",
    "read_rank",
    "read_steps",
    "read_value_beyond",
    "reflect",
    "wrap",
]


class Access(NamedTuple):
    """An element of an array that a kernel reads."""

    #: Name of the array.
    array: str
    #: Axis of the launch that gives the index, and the addend, for each axis of the array; or
    #: ``None`` and the index itself.
    places: tuple[tuple[int | None, int], ...]

    @property
    def shifts(self) -> tuple[int, ...]:
        """Distances from the indices of the launch, for each axis of the array."""
        return tuple(0 if axis is None else shift for axis, shift in self.places)

    def is_element(self, rank: int) -> bool:
        """Return whether it is the element that a launch over so many axes computes."""
        return self.places == tuple((axis, 0) for axis in range(rank))

    @property
    def key(self) -> Any:
        """Key by which accesses are put in order."""
        return self.array, tuple((-1 if axis is None else axis, at) for axis, at in self.places)

    def shift_along(self, axis: int) -> int:
        """Return what is added to the index of an axis of the launch; 0 if it is not used."""
        return next((shift for a, shift in self.places if a == axis and shift), 0)

    def text(self, indices: tuple[str, ...]) -> str:
        """Return the element's text, for the texts of the indices of the launch."""
        texts = []
        for axis, shift in self.places:
            text = str(shift) if axis is None else indices[axis]
            if axis is not None and shift:
                text += f" {'+' if shift > 0 else '-'} {abs(shift)}"
            texts.append(text)
        return f"{self.array}[{', '.join(texts)}]"


def read_index(element: Any, index: Any, axes: Mapping[Any, int]) -> tuple[int | None, int]:
    """Return one index of an element, as :class:`Access` has it.

    - raises `ArgumentValueError` if it is no index of the launch with an integer added, and no
      integer.
    """
    shift, rest = sympy.expand(index).as_coeff_Add()
    if rest == 0 and shift.is_Integer and shift >= 0:
        return None, int(shift)
    if rest in axes and shift.is_Integer:
        return axes[rest], int(shift)
    names = ", ".join(map(str, axes))
    raise ArgumentValueError(
        f"{element} is read at {index}",
        value=str(index),
        limit=f"An index is one of {names or 'the left side'}, with an integer added or without, "
        "or an integer from 0 on",
        remedy="Put the indices of all axes on the left side: sympy.Eq(out[i, j], …)",
    )


def coordinates_of(expressions: Iterable[Any], steps: Mapping[Any, Any]) -> frozenset[Any]:
    """Return the symbols that count elements, in the arguments of functions such as ``u(x + h)``.

    They are those of `steps`, and what all arguments of a function at one place have in common.
    """
    found = set(steps)
    places: dict[Any, set[Any]] = {}
    for expression in expressions:
        for each in expression.atoms(AppliedUndef):
            for place, argument in enumerate(each.args):
                terms = {t for t in sympy.Add.make_args(argument) if t.is_Symbol}
                if len(terms) == 1 and argument.is_Symbol:
                    found |= terms
                key = each.func.__name__, place
                places[key] = places.get(key, terms) & terms
    return frozenset(found.union(*(each for each in places.values() if len(each) == 1)))


def indexed_functions(
    expression: Any, coordinates: frozenset[Any], steps: Mapping[Any, Any]
) -> Any:
    """Return an expression with ``u[x + 1]`` in the place of a function ``u(x + h)``.

    `steps` has the distance between neighbours along a coordinate; for others it is 1, or the
    symbol that is added in multiples.
    """
    applied = expression.atoms(AppliedUndef)
    for each in expression.atoms(sympy.Derivative):
        if not each.has(AppliedUndef):
            raise ArgumentValueError(
                f"{each} is a derivative that is not evaluated",
                value=str(each),
                limit="Kernels compute the values of known functions",
                remedy="Evaluate it: .doit()",
            )
        raise ArgumentValueError(
            f"{each} is a derivative with no scheme",
            value=str(each),
            limit="Derivatives of unknown functions are computed from differences of neighbours",
            remedy=_scheme_of(each),
        )
    found = {}
    for each in applied:
        index = [_place(each, argument, coordinates, steps) for argument in each.args]
        found[each] = sympy.IndexedBase(each.func.__name__)[tuple(index)]
    replaced = expression.xreplace(found)
    left = replaced.xreplace({each: sympy.Dummy() for each in found.values()}).free_symbols
    for each in sorted(left & coordinates, key=str):
        raise ArgumentValueError(
            f"the coordinate {each} is used as a number",
            value=str(each),
            limit="A coordinate counts elements; the position of the first one is unknown",
            remedy="Give its values as an array",
        )
    return replaced


def _scheme_of(derivative: Any) -> str:
    """Say how a derivative is computed from neighbours along its own variables."""
    (x, order), *others = derivative.variable_count
    h = "h" if str(x) != "h" else "dh"
    reach = (int(order) + 1) // 2 if order.is_Integer else 1
    steps = [f"{n}*{h}" if n > 1 else h for n in range(1, reach + 1)]
    points = [*(f"{x} - {each}" for each in reversed(steps)), str(x)]
    points += [f"{x} + {each}" for each in steps]
    text = f".as_finite_difference([{', '.join(points)}]{f', {x}' if others else ''})"
    also = ", ".join(str(each) for each, _ in others)
    return f"Write {text}" + (f", and the same for {also}" if others else "")


def _place(
    function: Any, argument: Any, coordinates: frozenset[Any], steps: Mapping[Any, Any]
) -> Any:
    """Return an argument as an index: the coordinate, and how many elements away from it."""
    known = argument.free_symbols & coordinates
    for coordinate in known if len(known) == 1 else ():
        offset = sympy.expand(argument - coordinate)
        if coordinate in steps:
            shift = sympy.nsimplify(offset / steps[coordinate])
        else:
            shift, step = offset.as_coeff_Mul()
            if not (step.is_Symbol or step == 1):
                break
        if shift.is_Integer:
            return coordinate + shift
    raise ArgumentValueError(
        f"{function} is read at {argument}",
        value=str(argument),
        limit="It must be a coordinate, or one with a whole number of steps added",
        remedy="Pass the steps: steps={x: h}; a scheme of whole steps is "
        ".as_finite_difference([x - h, x, x + h])",
    )


# Indices beyond the ends of an axis, as device functions, for extents of any size.
#
# The names and what they mean are SciPy's. Kernels call these where an axis may be shorter than a
# stencil is wide; else a comparison is enough, which `kerneldsl.symbolic.sources` writes.
#
# See SciPy documentation, ``scipy.ndimage``, section "Interpolation boundary handling".

#: Modes of an axis.
MODES = ("reflect", "mirror", "nearest", "wrap", "constant")


@func
def wrap(i: Any, n: Any) -> Any:
    """Return the index in an axis of `n` elements that goes on with its first one.

    Examples
    --------
    >>> [wrap(i, 3) for i in range(-3, 5)]
    [0, 1, 2, 0, 1, 2, 0, 1]
    """
    return i % n


@func
def reflect(i: Any, n: Any) -> Any:
    """Return the index in an axis that is mirrored at the edges of its last elements.

    Examples
    --------
    >>> [reflect(i, 3) for i in range(-3, 5)]
    [2, 1, 0, 0, 1, 2, 2, 1]
    """
    k = i % (2 * n)
    return k if k < n else 2 * n - 1 - k


@func
def mirror(i: Any, n: Any) -> Any:
    """Return the index in an axis that is mirrored at the centres of its last elements.

    Examples
    --------
    >>> [mirror(i, 3) for i in range(-3, 5)], mirror(-1, 1)
    ([1, 2, 1, 0, 1, 2, 1, 0], 0)
    """
    k = i % max(2 * n - 2, 1)
    return k if k < n else 2 * n - 2 - k


#: Axes that a launch runs over at most.
MAX_RANK = 3


def read_name(name: Any) -> str:
    """Return the name of a kernel."""
    if type(name) is not str:
        raise wrong_type("name", name, "A kernel's name is a str")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise wrong_value("name", name, "A kernel's name is one that a function can have in Python")
    return name


def read_rank(ndim: Any) -> int:
    """Return the rank of the arrays of expressions that index nothing."""
    found = as_int(ndim)
    if found is None:
        raise wrong_type("ndim", ndim, "The number of axes is an int")
    if not 1 <= found <= MAX_RANK:
        raise wrong_value("ndim", ndim, f"A kernel runs over 1 to {MAX_RANK} axes")
    return found


def read_parameters(parameters: Any) -> tuple[str | sympy.Symbol, ...] | None:
    """Return the parameters in their order."""
    if parameters is None:
        return None
    kinds = (str, sympy.Symbol, sympy.IndexedBase)
    if not isinstance(parameters, list | tuple) or not all(
        isinstance(p, kinds) for p in parameters
    ):
        raise wrong_type(
            "parameters", parameters, "The parameters are a list or tuple of names and symbols"
        )
    return tuple(parameters)


def read_value_beyond(cval: Any) -> float:
    """Return the value that is read beyond an array's ends."""
    if not isinstance(cval, Real):
        raise wrong_type("cval", cval, "The value beyond the ends is a real number")
    try:
        return float(cval)
    except OverflowError:
        raise ArgumentValueError(
            "cval is an integer beyond the floats",
            value=None,
            limit="The value beyond the ends is a float64",
        ) from None


def read_steps(steps: Any) -> dict[Any, Any]:
    """Return the distances between neighbours along coordinates."""
    if steps is None:
        return {}
    if not isinstance(steps, Mapping) or not all(isinstance(each, sympy.Symbol) for each in steps):
        raise wrong_type("steps", steps, "The steps are a dict from symbols to distances")
    return dict(steps)
