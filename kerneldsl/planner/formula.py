"""A plan's predicted time as a formula: the cost model, evaluated with symbols instead of numbers.

The model is written once (:func:`~kerneldsl.planner.cost.device_time`,
:func:`~kerneldsl.planner.host.element_ns`). Here it meets SymPy's arithmetic; launches never do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

from kerneldsl.contract import ElementMapping
from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.planner.cost import Constants, PlanShape, device_time
from kerneldsl.planner.fit import ModelInputs
from kerneldsl.planner.host import element_ns, host_ns
from kerneldsl.planner.rates import Quantity
from kerneldsl.planner.work import ElementWork
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.modules import import_sympy
from kerneldsl.utilities.shown import Shown

__all__ = ["DeviceModel", "HostModel", "PlanFormula", "PlanModel", "model_formula"]


_PURPOSE = "Formulas are SymPy expressions"


class DeviceModel(NamedTuple):
    """Numbers from which the time of a plan on a GPU was predicted."""

    inputs: ModelInputs
    constants: Constants


class HostModel(NamedTuple):
    """Numbers from which the time of a launch on the CPU was predicted."""

    work: ElementWork
    #: Indices, or threads of all blocks, that are shared.
    extent: tuple[int, ...]
    #: Threads that share them, and nanoseconds that sharing costs.
    threads: int
    wake_ns: float

    def predict_ns(self) -> float:
        """Return the nanoseconds of the launch."""
        each = element_ns(self.work, self.extent)
        wake_ns = self.wake_ns if self.threads > 1 else 0.0
        return float(host_ns(math.prod(self.extent), each, self.threads, wake_ns))


PlanModel: TypeAlias = DeviceModel | HostModel


@dataclass(frozen=True)
class PlanFormula(Shown):
    """The model of a plan's time as SymPy expressions, and what their symbols are worth in it.

    Symbols are called as in ``docs/planning.md``, which says what each is. What is 0 for the kernel
    (atomic operations, say, of one that has none) is left out.

    Parameters
    ----------
    time_ns : sympy.Expr
        Time of a launch on the device, in nanoseconds: of numbers of `values` and names of `steps`.
    steps : mapping
        Symbol of each step of the model to its expression, in which earlier steps are symbols.
    values : mapping
        Symbol to its value in the plan.
    """

    time_ns: Any
    steps: Mapping[Any, Any]
    values: Mapping[Any, float]

    def __str__(self) -> str:
        return "\n".join(f"{name} = {text}" for name, text, _ in self.lines())

    def lines(self) -> list[tuple[str, str, str]]:
        """Return each step, the time last: its name, its expression, and its value in the plan."""
        worth = self.evaluate_steps()
        named = {step.name: text for step, text in self.steps.items()} | {"time_ns": self.time_ns}
        return [(name, str(text), f"{worth[name]:.4g}") for name, text in named.items()]

    def expanded(self) -> Any:
        """Return the time with its steps in it: an expression of symbols of `values` alone."""
        known: dict[Any, Any] = {}
        for step, expression in self.steps.items():
            known[step] = expression.xreplace(known)
        return self.time_ns.xreplace(known)

    def evaluate(self, **others: float) -> float:
        """Return the time in nanoseconds, in the plan or with other values of some symbols.

        Parameters
        ----------
        **others : float
            Name of a symbol to its value, as in ``evaluate(extent_0=1 << 20, active_blocks=4)``.

        Raises
        ------
        ArgumentValueError
            If the formula has no such symbol, or a value is no positive number.
        """
        return self.evaluate_steps(**others)["time_ns"]

    def evaluate_steps(self, **others: float) -> dict[str, float]:
        """Return what each step is worth, as :meth:`evaluate` does the whole, which is the last."""
        sympy = import_sympy(_PURPOSE)
        given = {each.name: value for each, value in self.values.items()}
        for name, value in others.items():
            _check(name, value, given)
        given |= others
        known = {each: sympy.sympify(given[each.name]) for each in self.values}
        for step, expression in (*self.steps.items(), (sympy.Symbol("time_ns"), self.time_ns)):
            known[step] = sympy.Float(float(expression.xreplace(known)))
        return {step.name: float(known[step]) for step in known if step not in self.values}


def _check(name: str, value: Any, given: Mapping[str, float]) -> None:
    if name not in given:
        raise ArgumentValueError(
            f"the formula has no symbol {name}",
            value=name,
            limit=f"Its symbols are {', '.join(sorted(given))}",
            remedy="Use one of these; symbols that are 0 for the kernel are left out",
        )
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ArgumentValueError(
            f"{name} is {safe_repr(value)}",
            value=value,
            limit="Symbols stand for positive numbers",
            remedy="Give an int or a float greater than 0",
        )


def model_formula(model: PlanModel) -> PlanFormula:
    """Return the formula of a time that was predicted.

    - raises `ToolMissingError` if SymPy is not installed.
    """
    symbols = _Expressions()
    time_ns = (
        _on_host(model, symbols) if isinstance(model, HostModel) else _on_device(model, symbols)
    )
    steps = symbols.steps_to(time_ns)
    return PlanFormula(time_ns, steps, symbols.values_in([time_ns, *steps.values()]))


def _on_device(model: DeviceModel, m: _Expressions) -> Quantity:
    inputs = model.inputs
    mapping = inputs.mapping
    shape = PlanShape(
        m.dims("block", inputs.block_dim),
        m.dims("items", mapping.items),
        m.of("vector", mapping.vector),
    )
    extent = [m.of(f"extent_{axis}", n) for axis, n in enumerate(inputs.extent)]
    found = device_time(
        shape,
        _work_symbols(inputs.work, m),
        m.named("elements", m.product(extent)),
        m.named("grid_blocks", m.product(_blocks(mapping, extent, shape, m))),
        m.of("active_blocks", inputs.active_blocks),
        m.all_of(inputs.rates),
        m.symbol_or_zero("spill_bytes", inputs.spill_bytes),
        m.all_of(model.constants),
        m,
    )
    return found.time_ns


def _blocks(
    mapping: ElementMapping, extent: Sequence[Quantity], shape: PlanShape, m: _Expressions
) -> list[Quantity]:
    """Return the blocks along each axis, as :meth:`ElementMapping.blocks` counts them."""
    along = [extent[axis] for axis in mapping.axes_of(len(extent))]
    return [m.ceil_ratio(n, width) for n, width in zip(along, shape.tile, strict=False)]


def _on_host(model: HostModel, m: _Expressions) -> Quantity:
    extent = tuple(m.of(f"extent_{axis}", n) for axis, n in enumerate(model.extent))
    each = m.named("element_ns", element_ns(_work_symbols(model.work, m), extent, m))
    if model.threads < 2:
        return host_ns(m.product(extent), each, 1, 0)
    wake_ns = m.symbol_or_zero("wake_ns", model.wake_ns)
    return host_ns(m.product(extent), each, m.of("threads", model.threads), wake_ns)


#: Fields of the work that the models only test.
_ASKED = ("arrays", "narrowest_bytes", "widest_bytes", "has_unknown_loop", "is_serial")


def _work_symbols(work: ElementWork, m: _Expressions) -> Any:
    """Return the work with symbols for its counts; what the source decides stays as it is."""
    found = {
        name: value if name in _ASKED else m.symbol_or_zero(name, value)
        for name, value in work._asdict().items()
    }
    found["loop_operations"] = work.loop_operations
    device_bytes = found["read_bytes"] + found["written_bytes"]
    return SimpleNamespace(**found, device_bytes=device_bytes, max_vector=work.max_vector)


class _Expressions:
    """Arithmetic of SymPy's expressions, with the symbols and steps that were made in it."""

    def __init__(self) -> None:
        self.sympy = import_sympy(_PURPOSE)
        self._steps: dict[Any, Any] = {}
        self._values: dict[Any, float] = {}

    def of(self, name: str, value: float) -> Any:
        """Return the symbol of a positive number."""
        found = self.sympy.Symbol(name, positive=True, integer=isinstance(value, int) or None)
        self._values[found] = value
        return found

    def symbol_or_zero(self, name: str, value: float) -> Any:
        """Return the symbol of a number that is no less than 0, or 0."""
        return self.of(name, value) if value else self.sympy.Integer(0)

    def dims(self, name: str, dims: tuple[int, int, int]) -> tuple[Any, Any, Any]:
        """Return symbols of a triple, without y and z if they are 1."""
        x, *others = dims
        y, z = (
            self.of(f"{name}_{axis}", n) if n > 1 else self.sympy.Integer(1)
            for axis, n in zip("yz", others, strict=True)
        )
        return self.of(f"{name}_x", x), y, z

    def all_of(self, values: Any) -> Any:
        """Return a named tuple with a symbol for each of its numbers."""
        return type(values)(*(self.of(name, value) for name, value in values._asdict().items()))

    def steps_to(self, result: Any) -> dict[Any, Any]:
        """Return the steps that a result needs, in order."""
        wanted = set(result.free_symbols)
        for step, expression in reversed(self._steps.items()):
            if step in wanted:
                wanted |= expression.free_symbols
        return {step: each for step, each in self._steps.items() if step in wanted}

    def values_in(self, expressions: Sequence[Any]) -> dict[Any, float]:
        """Return the values of the symbols that expressions use."""
        used = set().union(*(each.free_symbols for each in expressions))
        return {each: value for each, value in self._values.items() if each in used}

    def product(self, factors: Sequence[Quantity]) -> Quantity:
        return self.sympy.Mul(*factors)

    def named(self, name: str, value: Quantity) -> Quantity:
        value = self.sympy.sympify(value)
        if value.is_Atom:
            return value
        step = self.sympy.Symbol(name, nonnegative=True)
        self._steps[step] = value
        return step

    def largest(self, *values: Quantity) -> Quantity:
        return self.sympy.Max(*values)

    def least(self, *values: Quantity) -> Quantity:
        return self.sympy.Min(*values)

    def ceil_ratio(self, a: Quantity, b: Quantity) -> Quantity:
        return self.sympy.ceiling(self.sympy.sympify(a) / b)

    def floor_ratio(self, a: Quantity, b: Quantity) -> Quantity:
        return self.sympy.floor(self.sympy.sympify(a) / b)

    def select(self, condition: Quantity, a: Quantity, b: Quantity) -> Quantity:
        return self.sympy.Piecewise((a, condition), (b, True))

    def is_multiple(self, a: Quantity, b: int) -> Quantity:
        return self.sympy.Eq(self.sympy.Mod(a, b), 0)

    def norm(self, parts: Sequence[Quantity], exponent: Quantity) -> Quantity:
        kept = [part for part in parts if part != 0]
        if len(kept) < 2:
            return self.sympy.Add(*kept)
        return self.sympy.Add(*(part**exponent for part in kept)) ** (1 / exponent)

    def on_table(self, table: Sequence[tuple[int, float]], nbytes: Quantity) -> Quantity:
        sympy = self.sympy
        cases: list[tuple[Quantity, Quantity]] = [(table[0][1], nbytes <= table[0][0])]
        for (low, first), (high, last) in pairwise(table):
            share = sympy.log(nbytes / low) / sympy.log(sympy.Rational(high, low))
            cases.append((first * sympy.Float(last / first) ** share, nbytes <= high))
        return sympy.Piecewise(*cases, (table[-1][1], True))
