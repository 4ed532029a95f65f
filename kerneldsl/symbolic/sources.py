"""Write the kernel that computes a system of expressions over arrays.

Beyond an end, a comparison chooses the index of a stencil; the CPU target moves the comparison out
of the loop over a row. This holds for arrays that are as long as the stencil is wide.
For shorter ones the text has a second version, with the functions of
:mod:`kerneldsl.symbolic.shifts`.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from typing import Any

import sympy

from kerneldsl.symbolic.equations import name_of
from kerneldsl.symbolic.printing import NAMES_IN_TEXT, Printer, is_condition, sign
from kerneldsl.symbolic.shifts import Access, mirror, reflect, wrap
from kerneldsl.symbolic.systems import System

__all__ = ["NAMESPACE", "FreshNames", "kernel_text", "value_lines"]

#: Names that the texts use. The package has the name that programs give it, though its modules do
#: not use that.
NAMESPACE: Mapping[str, Any] = {
    "kd": sys.modules["kerneldsl"],
    "math": math,
    "mirror": mirror,
    "reflect": reflect,
    "sign": sign,
    "wrap": wrap,
}


class FreshNames:
    """Gives names that a text does not have yet."""

    def __init__(self, *taken: str) -> None:
        self._taken = {*NAMES_IN_TEXT, *taken}

    def __call__(self, wanted: str) -> str:
        """Return `wanted`, or with a number after it."""
        name, n = wanted, 0
        while name in self._taken:
            n += 1
            name = f"{wanted}_{n}"
        self._taken.add(name)
        return name

    def numbered(self, prefix: str) -> Iterator[Any]:
        """Yield symbols with such names."""
        n = 0
        while True:
            yield sympy.Symbol(self(f"{prefix}{n}"), real=True)
            n += 1


def kernel_text(system: System, name: str) -> str:
    """Return the text of a kernel ``(*inputs, *outputs, *, dtype)``.

    `dtype` is what numbers are converted to.
    """
    return "\n".join(_KernelText(system).lines(name)) + "\n"


def value_lines(
    values: list[Any], names: dict[Any, str], fresh: FreshNames, printer: Printer
) -> tuple[list[str], list[str]]:
    """Return assignments of what values have in common, and the texts of the values themselves.

    `names` are those of the printer, to which those of the variables are added.
    """
    shared, rest = sympy.cse(values, symbols=fresh.numbered("t"))
    lines = []
    for symbol, value in shared:
        text = printer.condition(value) if is_condition(value) else printer.text(value)
        lines.append(f"{symbol.name} = {text}")
        names[symbol] = symbol.name
    return lines, [printer.text(value) for value in rest]


class _KernelText:
    def __init__(self, system: System) -> None:
        self._system = system
        self._fresh = FreshNames(*system.parameters)
        self._indices = tuple(self._fresh(name_of(axis)) for axis in system.axes)
        self._extents = tuple(self._fresh(f"n{n}") for n in range(len(system.axes)))

    def lines(self, name: str) -> Iterator[str]:
        system, fresh = self._system, self._fresh
        # Functions without a word in the language are refused as written, before parts have names.
        as_written = Printer(system.source_names())
        for each in system.outputs:
            as_written.text(each.value)
        rank = len(system.axes)
        indices = ", ".join(self._indices)
        shape = f"{system.outputs[0].name}.shape"
        yield f"def {fresh(name)}({', '.join(system.parameters)}, *, dtype):"
        yield f"    {indices} = kd.grid({rank})"
        yield f"    {', '.join(self._extents)} = {shape if rank > 1 else shape + '[0]'}"
        names: dict[Any, str] = dict(zip(system.axes, self._indices, strict=True))
        names |= {each: f"{a}.shape[{axis}]" for each, (a, axis) in system.extents.items()}
        # The guard is first, so that targets can test it for many indices at once, and move out of
        # their loops what is the same for all.
        inside = zip(self._indices, self._extents, strict=True)
        yield f"    if {' and '.join(f'{i} < {n}' for i, n in inside)}:"
        for symbol, number in system.numbers.items():
            # The constant has a separate name: a parameter that is assigned to is a variable of
            # every thread.
            names[symbol] = fresh(f"{number}_")
            yield f"        {names[symbol]} = dtype({number})"
        values, uniform = self._hoisted()
        printer = Printer(names, [*system.axes, *system.extents])
        for symbol, value in uniform:
            yield f"        {symbol.name} = {printer.text(value)}"
            names[symbol] = symbol.name
        long = self._extents_condition()
        if not long:
            yield from (f"        {each}" for each in self._body(values, names, is_short=False))
            return
        yield f"        if {long}:"
        yield from (f"            {each}" for each in self._body(values, names, is_short=False))
        yield "        else:"
        yield from (f"            {each}" for each in self._body(values, names, is_short=True))

    def _hoisted(self) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """Return the values with variables for what depends on numbers alone, and these."""
        numbers = frozenset(self._system.numbers)
        found: dict[Any, Any] = {}
        symbols = self._fresh.numbered("c")

        def named(e: Any) -> Any:
            if e not in found:
                found[e] = next(symbols)
            return found[e]

        def walk(e: Any) -> Any:
            if not e.args or is_condition(e):
                return e
            if e.free_symbols and e.free_symbols <= numbers and isinstance(e, sympy.Expr):
                is_sign = e.is_Mul and len(e.args) == 2 and e.args[0] == -1 and e.args[1].is_Symbol
                return e if is_sign else named(e)
            if e.is_Mul:
                alone = [a for a in e.args if a.free_symbols <= numbers]
                rest = [walk(a) for a in e.args if not a.free_symbols <= numbers]
                factor = e.func(*alone)
                if factor.free_symbols and factor.args:
                    return e.func(named(factor), *rest)
                return e.func(*alone, *rest)
            if isinstance(e, sympy.Piecewise):
                return e.func(*((walk(v), c) for v, c in e.args))
            return e.func(*map(walk, e.args))

        values = [walk(each.value) for each in self._system.outputs]
        # Common divisors are computed once: a division costs a GPU's thread more than the other
        # operations.
        shared, rest = sympy.cse(list(found), symbols=symbols)
        return values, [*shared, *zip(found.values(), rest, strict=True)]

    def _body(self, values: list[Any], names: dict[Any, str], *, is_short: bool) -> Iterator[str]:
        """Yield the statements of one element."""
        system = self._system
        names = dict(names)
        used = Counter(
            each for value in values for each in sympy.preorder_traversal(value) if each.is_Symbol
        )
        accesses = sorted(
            ((a, s) for s, a in system.accesses.items() if s in used), key=lambda each: each[0].key
        )
        places: dict[tuple[int, int], str] = {}
        fresh = self._fresh
        for access, _ in accesses:
            for axis, shift in access.places:
                if axis is None or not shift or (axis, shift) in places:
                    continue
                mode = system.boundary[axis]
                index = f"{self._indices[axis]} {'+' if shift > 0 else '-'} {abs(shift)}"
                if mode == "constant":
                    continue
                name = fresh(f"{self._indices[axis]}{'p' if shift > 0 else 'm'}{abs(shift)}")
                place = _place(self._indices[axis], self._extents[axis], shift, mode)
                if is_short:
                    place = _any_place(index, self._extents[axis], mode)
                yield f"{name} = {place}"
                places[axis, shift] = name
        for access, symbol in accesses:
            text = self._load(access, places)
            if used[symbol] > 1 or " if " in text:
                name = fresh(f"{access.array}{_suffix(access)}")
                yield f"{name} = {text}"
                text = name
            names[symbol] = text
        printer = Printer(names, [*system.axes, *system.extents])
        # Sums of elements come first: a sum takes one register, and its elements take several. A
        # GPU's thread has too few for those of two arrays.
        values, sums = _sums_of_elements(values, system.accesses.keys(), fresh)
        for symbol, value in sums:
            yield f"{symbol.name} = {printer.text(value)}"
            names[symbol] = symbol.name
        lines, results = value_lines(values, names, fresh, printer)
        yield from lines
        index = ", ".join(self._indices)
        if len(results) > 1:  # all is read before anything is stored: arrays may be the same
            for n, text in enumerate(results):
                results[n] = fresh(f"r{n}")
                yield f"{results[n]} = {text}"
        for output, text in zip(system.outputs, results, strict=True):
            yield f"{output.name}[{index}] = {text}"

    def _load(self, access: Access, places: Mapping[tuple[int, int], str]) -> str:
        """Return the text that reads an element."""
        index, inside = [], []
        for axis, shift in access.places:
            if axis is None:
                index.append(str(shift))
                continue
            i, n = self._indices[axis], self._extents[axis]
            if not shift:
                index.append(i)
            elif (axis, shift) in places:
                index.append(places[axis, shift])
            else:
                index.append(f"{i} {'+' if shift > 0 else '-'} {abs(shift)}")
                inside.append(f"{i} >= {-shift}" if shift < 0 else f"{i} < {n} - {shift}")
        text = f"{access.array}[{', '.join(index)}]"
        if inside:
            beyond = self._system.cval
            value = (
                repr(beyond) if math.isfinite(beyond) else f"{'-' * (beyond < 0)}math.{abs(beyond)}"
            )
            text += f" if {' and '.join(inside)} else dtype({value})"
        return text

    def _extents_condition(self) -> str:
        """Return the condition under which comparisons find all indices; none if they always do."""
        needed: dict[int, int] = {}
        for access in self._system.accesses.values():
            for axis, shift in access.places:
                if axis is None:
                    continue
                mode, width = self._system.boundary[axis], abs(shift)
                if mode == "mirror":
                    width += 1
                if width > 1 and mode in ("mirror", "reflect", "wrap"):
                    needed[axis] = max(width, needed.get(axis, 0))
        return " and ".join(f"{self._extents[a]} >= {n}" for a, n in sorted(needed.items()))


def _sums_of_elements(
    values: list[Any], elements: Set[Any], fresh: FreshNames
) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """Return values with variables for sums of elements that are multiplied, and these sums."""
    found: dict[Any, Any] = {}
    symbols = fresh.numbered("s")
    products = (each for value in values for each in sympy.preorder_traversal(value) if each.is_Mul)
    for product in products:
        if product.free_symbols <= elements:
            continue
        for factor in product.args:
            summed = factor.free_symbols if factor.is_Add else set()
            if len(summed) > 1 and summed <= elements and factor not in found:
                found[factor] = next(symbols)
    return [value.xreplace(found) for value in values], [(s, e) for e, s in found.items()]


def _place(i: str, n: str, shift: int, mode: str) -> str:
    """Return the index of a neighbour, in an axis that is as long as the shift."""
    k = abs(shift)
    if shift < 0:
        beyond = {
            "nearest": "0",
            "wrap": f"{n} - 1" if k == 1 else f"{i} - {k} + {n}",
            "reflect": "0" if k == 1 else f"{k - 1} - {i}",
            "mirror": "1" if k == 1 else f"{k} - {i}",
        }[mode]
        return f"{i} - {k} if {i} >= {k} else {beyond}"
    beyond = {
        "nearest": f"{n} - 1",
        "wrap": "0" if k == 1 else f"{i} + {k} - {n}",
        "reflect": f"{n} - 1" if k == 1 else f"2 * {n} - {k + 1} - {i}",
        "mirror": f"{n} - 2" if k == 1 else f"2 * {n} - {k + 2} - {i}",
    }[mode]
    return f"{i} + {k} if {i} < {n} - {k} else {beyond}"


def _any_place(index: str, n: str, mode: str) -> str:
    """Return the index of a neighbour, in an axis of any length."""
    if mode == "nearest":
        return f"min(max({index}, 0), {n} - 1)"
    return f"{mode}({index}, {n})"


def _suffix(access: Access) -> str:
    """Return the disambiguating suffix of an element of an array, such as ``_im1``."""
    return "_" + "".join(
        str(shift)
        if axis is None
        else "ijk"[axis] + ("" if not shift else f"{'p' if shift > 0 else 'm'}{abs(shift)}")
        for axis, shift in access.places
    )
