"""Read SymPy expressions over arrays: which arrays are read where, and what is computed of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import sympy

from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.symbolic.equations import axes_of, name_of, read_equations, result_name, with_indices
from kerneldsl.symbolic.shifts import (
    MAX_RANK,
    MODES,
    Access,
    read_index,
    read_parameters,
    read_rank,
    read_steps,
    read_value_beyond,
)
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Output", "System", "read_system"]


class Output(NamedTuple):
    """One result of a kernel: the array that it is stored in, and its value."""

    name: str
    value: Any


@dataclass(frozen=True)
class System:
    """Expressions over arrays, ready to be written as a kernel.

    Parameters
    ----------
    axes : tuple of Symbol
        The indices of an element, one for each axis of a launch.
    outputs : tuple of Output
        What is computed. A value's symbols are those of `accesses`, `numbers`, `extents` and
        `axes`.
    accesses : mapping
        Symbol to the element of an array that it stands for.
    inputs : tuple of str
        Names of the arrays that are read and of the numbers, in the order of the parameters.
    numbers : mapping
        Symbol to the name of a number.
    extents : mapping
        Symbol to the array and the axis that have this extent.
    boundary : tuple of str
        For each axis what is beyond its ends; ``""`` where nothing is read there.
    cval : float
        That value, if it is ``"constant"``.
    is_elementwise : bool
        Whether arrays are plain symbols; elements are computed with those of the same index.
    """

    axes: tuple[Any, ...]
    outputs: tuple[Output, ...]
    accesses: Mapping[Any, Access]
    inputs: tuple[str, ...]
    numbers: Mapping[Any, str]
    extents: Mapping[Any, tuple[str, int]]
    boundary: tuple[str, ...]
    cval: float
    is_elementwise: bool

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the arrays that are read, in the order of the parameters."""
        return tuple(each for each in self.inputs if each not in self.numbers.values())

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the kernel's parameters."""
        outputs = (each.name for each in self.outputs if each.name not in self.inputs)
        return (*self.inputs, *outputs)

    @property
    def ranks(self) -> dict[str, int]:
        """Number of axes of each parameter; of those that are numbers 0."""
        found = dict.fromkeys(self.numbers.values(), 0)
        found |= {each.array: len(each.places) for each in self.accesses.values()}
        return found | {each.name: len(self.axes) for each in self.outputs}

    def reads(self, array: str) -> list[Access]:
        """Return the elements of an array that are read, each once, in a fixed order."""
        found = {each for each in self.accesses.values() if each.array == array}
        return sorted(found, key=lambda each: each.key)

    def source_names(self) -> dict[Any, str]:
        """Return the names of symbols as the user wrote them."""
        indices = tuple(map(str, self.axes))
        names = dict(zip(self.axes, indices, strict=True))
        names |= {s: f"{array}.shape[{n}]" for s, (array, n) in self.extents.items()}
        for symbol, access in self.accesses.items():
            names[symbol] = access.array if self.is_elementwise else access.text(indices)
        return names | dict(self.numbers)

    def text(self) -> str:
        """Return the equations, as they would be written down."""
        indices = tuple(map(str, self.axes))
        names = {symbol: sympy.Symbol(name) for symbol, name in self.numbers.items()}
        names |= {s: sympy.Symbol(a.text(indices)) for s, a in self.accesses.items()}
        names |= {s: sympy.Symbol(f"{a}.shape[{n}]") for s, (a, n) in self.extents.items()}
        index = ", ".join(indices)
        return "\n".join(f"{n}[{index}] = {value.xreplace(names)}" for n, value in self.outputs)

    def with_values(self, values: Sequence[Any]) -> System:
        """Return the same system with other values of its outputs."""
        names = (each.name for each in self.outputs)
        return replace(self, outputs=tuple(map(Output, names, values)))


def read_system(
    expressions: Any,
    *,
    ndim: int = 1,
    parameters: Sequence[Any] | None = None,
    boundary: str | Sequence[str] | None = None,
    cval: float = 0.0,
    steps: Mapping[Any, Any] | None = None,
) -> System:
    """Read what :func:`kerneldsl.from_expression` is given."""
    rank, order, beyond = read_rank(ndim), read_parameters(parameters), read_value_beyond(cval)
    equations = with_indices(list(read_equations(expressions)), read_steps(steps))
    indexed = sorted(
        {each for _, right in equations for each in right.atoms(sympy.Indexed)},
        key=sympy.default_sort_key,
    )
    is_elementwise = not indexed and not any(isinstance(e, sympy.Indexed) for e, _ in equations)
    axes = (
        sympy.symbols([f"i{n}" for n in range(rank)], integer=True)
        if is_elementwise
        else axes_of([left for left, _ in equations], indexed)
    )
    if not 1 <= len(axes) <= MAX_RANK:
        raise ArgumentValueError(
            f"the expressions are over {len(axes)} indices",
            value=tuple(map(str, axes)),
            limit=f"A kernel runs over 1 to {MAX_RANK} axes",
        )
    reader = _Reader(tuple(axes), is_elementwise)
    outputs = tuple(
        Output(result_name(left, n, len(equations)), _factored(reader.value(right)))
        for n, (left, right) in enumerate(equations)
    )
    names = [each.name for each in outputs]
    if len(set(names)) < len(names):
        raise ArgumentValueError(
            f"the results are called {', '.join(names)}",
            value=tuple(names),
            limit="Each result has its own name",
        )
    system = System(
        tuple(axes),
        outputs,
        reader.accesses,
        _in_order(reader, order),
        reader.numbers,
        reader.extents,
        ("",) * len(axes),
        beyond,
        is_elementwise,
    )
    if is_elementwise and not system.inputs:
        value = safe_repr(outputs[0].value)
        raise ArgumentValueError(
            f"the expression of {names[0]} is {value}, and reads no array",
            value=value,
            limit="The shape of the result is that of the arrays that are read",
            remedy="Make the array with np.full(…), or store the value at indices: "
            f"sympy.Eq({names[0]}[i], {value})",
        )
    return _with_boundary(system, boundary)


def _factored(value: Any) -> Any:
    """Return a value with the factors taken out that all terms of a sum have: a step, mostly."""
    return sympy.factor_terms(value) if isinstance(value, sympy.Expr) else value


class _Reader:
    """Replaces what an expression reads by symbols, and remembers what they stand for."""

    def __init__(self, axes: tuple[Any, ...], is_elementwise: bool) -> None:
        self._axes = {axis: n for n, axis in enumerate(axes)}
        self._is_elementwise = is_elementwise
        self._known: dict[Any, Any] = {}
        self._symbols: dict[str, str] = {}
        self.accesses: dict[Any, Access] = {}
        self.numbers: dict[Any, str] = {}
        self.extents: dict[Any, tuple[str, int]] = {}

    def value(self, expression: Any) -> Any:
        """Return the value of an element, over symbols that are real."""
        found = {}
        for each in sorted(expression.atoms(sympy.Indexed), key=sympy.default_sort_key):
            found[each] = self._element(each)
            self._take_extents(each)
        for each in expression.atoms(sympy.Idx):
            found[each] = each.label
        value = expression.xreplace(found)
        symbols = value.free_symbols - set(self.accesses) - set(self._axes)
        return value.xreplace({s: self._symbol(s) for s in sorted(symbols, key=str)})

    def _element(self, each: Any) -> Any:
        index = tuple(read_index(each, _unbound(i), self._axes) for i in each.indices)
        return self._access(Access(self._named(each.base.label), index))

    def _named(self, symbol: Any) -> str:
        """Return the name of a parameter, which is that of one symbol alone."""
        name = name_of(symbol)
        other = self._symbols.setdefault(name, str(symbol))
        if other != str(symbol):
            raise ArgumentValueError(
                f"the symbols {other} and {symbol} are both the parameter {name}",
                value=name,
                limit=f"A parameter cannot be called {min(other, str(symbol), key=len)}",
                remedy="Replace one of them by .subs(…), by a symbol of another name",
            )
        return name

    def _access(self, access: Access) -> Any:
        if access not in self._known:
            # An array of the name may be a number elsewhere: a dummy is equal to itself alone.
            symbol = sympy.Dummy(f"{access.array}_{len(self._known)}", real=True)
            self._known[access] = symbol
            self.accesses[symbol] = access
        return self._known[access]

    def _take_extents(self, each: Any) -> None:
        for axis, extent in enumerate(each.base.shape or ()):
            if extent.is_Symbol and extent not in self._known:
                symbol = sympy.Dummy(extent.name, integer=True, positive=True)
                self._known[extent] = symbol
                self.extents[symbol] = (self._named(each.base.label), axis)

    def _symbol(self, symbol: Any) -> Any:
        if symbol in self._known:
            return self._known[symbol]
        name = self._named(symbol)
        if self._is_elementwise:
            index = tuple((n, 0) for n in range(len(self._axes)))
            found = self._access(Access(name, index))
        else:
            found = sympy.Dummy(name, real=True)
            self.numbers[found] = name
        self._known[symbol] = found
        return found


def _unbound(index: Any) -> Any:
    return index.xreplace({each: each.label for each in index.atoms(sympy.Idx)})


def _in_order(reader: _Reader, parameters: Sequence[Any] | None) -> tuple[str, ...]:
    """Return the names of what is read: arrays, then numbers, each by their names."""
    arrays = sorted({each.array for each in reader.accesses.values()})
    arrays += sorted({array for array, _ in reader.extents.values()} - set(arrays))
    numbers = sorted(reader.numbers.values())
    both = sorted(set(arrays) & set(numbers))
    if both:
        raise ArgumentValueError(
            f"{both[0]} is an array and a number",
            value=both[0],
            limit="Each name has one meaning",
            remedy="Give one of them another name",
        )
    found = (*arrays, *numbers)
    if parameters is None:
        return found
    names: tuple[str, ...] = tuple(name_of(each) for each in parameters)
    for name in found:
        if name not in names:
            raise ArgumentValueError(
                f"the expression has the symbol {name}, which is not among the parameters",
                value=name,
                limit=f"The parameters are {', '.join(names)}",
                remedy=f"Name it there, or replace it by .subs({name}, …)",
            )
    for name in names:
        if name not in found or names.count(name) > 1:
            raise ArgumentValueError(
                f"the parameter {name} is named twice, or is not in the expression",
                value=name,
                limit=f"The expression reads {', '.join(found)}",
                remedy="Name each of these once",
            )
    return names


# ------------------------------------------------------------------ boundaries


def _with_boundary(system: System, boundary: Any) -> System:
    rank = len(system.axes)
    modes: tuple[Any, ...] = ()
    if boundary is None or type(boundary) is str:
        modes = (boundary,) * rank
    elif isinstance(boundary, list | tuple):
        modes = tuple(boundary)
    is_known = all(mode is None or (type(mode) is str and mode in MODES) for mode in modes)
    if len(modes) != rank or not is_known:
        raise ArgumentValueError(
            f"boundary is {safe_repr(boundary)}",
            value=boundary,
            limit=f"It must be one of {', '.join(MODES)}, or one for each of the {rank} axes",
        )
    used: list[str] = []
    for axis, mode in enumerate(modes):
        shifted = next((e for e in system.accesses.values() if e.shift_along(axis)), None)
        if shifted is not None and mode is None:
            symbols = tuple(map(str, system.axes))
            raise ArgumentValueError(
                f"{shifted.text(symbols)} is beyond the array's end at the first or last "
                f"{symbols[axis]}",
                value=shifted.text(symbols),
                limit="A boundary mode defines the values beyond an end",
                remedy=f"Write boundary= with one of {', '.join(MODES)}",
            )
        used.append("" if shifted is None or mode is None else mode)
    for each in system.outputs:
        other = next((a for a in system.reads(each.name) if not a.is_element(rank)), None)
        if other is not None:
            raise ArgumentValueError(
                f"{each.name} is written, and read as {other.text(tuple(map(str, system.axes)))}",
                value=each.name,
                limit="Threads write in no order, so an array that is written is read at the "
                "element itself alone",
                remedy="Give the result another name",
            )
    return replace(system, boundary=tuple(used))
