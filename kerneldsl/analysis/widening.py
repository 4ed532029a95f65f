"""Diagnosis of float64 arithmetic whose results are stored as float32.

By Numba's rules a Python float is float64, and so is what comes of float32 with float64 or with an
int64. On most GPUs that is 2 to 64 times slower, and on all it moves more registers. Here the types
are followed over the source, without Numba: what is not certain gives no finding, and whether the
compiled code does compute in float64 is for its reader to check, since LLVM narrows what it can.

References
----------
Numba documentation, "Numba Enhancement Proposals", NBEP 1 ("Changes in integer typing"); NumPy,
"Data type promotion".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kerneldsl.analysis.bindings import bindings
from kerneldsl.analysis.expressions import assigned_names, augmented_value, index_parts, is_extent
from kerneldsl.analysis.library_names import library_name
from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES, REAL_KINDS, names_of, numpy_dtype
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind

__all__ = ["WideStore", "wide_stores"]

_MAX_DEPTH = 8
_ROUNDS = 8
#: Functions of one number whose result has its type; integers give float64.
_LIKE_ARGUMENT = frozenset(
    """
    sqrt exp expm1 exp2 log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh asinh acosh
    atanh erf erfc fabs floor ceil trunc atan2 hypot pow fmod copysign fma rsqrt cbrt
    arcsin arccos arctan arcsinh arccosh arctanh arctan2 power
    """.split()  # noqa: SIM905 - a list of words is easier to read
)
#: Types that a call of converts to.
_REAL_DTYPES = names_of(*REAL_KINDS)
_UNIFIED = frozenset({"min", "max", "abs", "absolute", "minimum", "maximum"})


class WideStore(NamedTuple):
    """A float32 element that is computed in float64."""

    #: The statement that stores it.
    where: SourceLocation
    #: What is stored to, as Python prints it.
    target: str
    #: What brings float64 in.
    cause: str
    #: What to write instead.
    remedy: str

    def __str__(self) -> str:
        return (
            f"{self.target} is float32 and is computed in float64 (line {self.where.lineno}), "
            f"because {self.cause}. {self.remedy}."
        )


def wide_stores(unit: FunctionUnit, kinds: Sequence[Kind]) -> tuple[WideStore, ...]:
    """Find stores to float32 arrays of what was computed in float64.

    There is at most one for each statement and cause.
    """
    known = dict(zip(unit.parameters, kinds, strict=True))
    types = _Types(unit, known)
    found: dict[tuple[object, ...], WideStore] = {}
    for target, value in _stores(unit.tree):
        if types.of(target) != "float32" or types.of(value) != "float64":
            continue
        for cause, remedy in types.causes(value):
            store = WideStore(unit.locate(target), ast.unparse(target), cause, remedy)
            found.setdefault((store.where, cause), store)
    return tuple(found.values())


def _stores(tree: ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript):
                    yield target, node.value
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
            yield node.target, augmented_value(node)


class _Types:
    """The types of one function's expressions; ``None`` for what is not known."""

    def __init__(
        self, unit: FunctionUnit, parameters: Mapping[str, Kind | str | None], depth: int = 0
    ) -> None:
        self._unit = unit
        self._depth = depth
        self._arrays = {n: k for n, k in parameters.items() if isinstance(k, ArrayKind)}
        self._scalars = {
            n: k.dtype if isinstance(k, ScalarKind) else k
            for n, k in parameters.items()
            if isinstance(k, ScalarKind | str)
        }
        self._bindings: dict[str, list[ast.expr]] = {}
        #: Items of loops and of tuples, which are integers where nothing else is known.
        self._other: set[str] = set()
        for binding in bindings(unit.tree):
            match binding.target:
                case ast.Name(id=name) if binding.is_item:
                    self._other.add(name)
                case ast.Name(id=name):
                    self._bindings.setdefault(name, []).append(binding.value)
                case ast.Tuple() if isinstance(binding.value, ast.Call):
                    self._other |= assigned_names(binding.target)
        self._locals: dict[str, str | None] = {}
        for _ in range(_ROUNDS):
            before = dict(self._locals)
            for name, values in self._bindings.items():
                known = [t for t in map(self.of, values) if t is not None]
                # A name that is not typed yet adds nothing; the rounds go on until all are.
                self._locals[name] = _unified(known) if known else None
            if self._locals == before:
                break

    def of(self, node: ast.expr) -> str | None:
        """Return the type of an expression."""
        match node:
            case ast.Constant(value=bool()):
                return "bool"
            case ast.Constant(value=int()):
                return "int64"
            case ast.Constant(value=float()):
                return "float64"
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute(attr="size" | "ndim"):
                return "int64"
            case ast.Subscript():
                return self._element(node)
            case ast.UnaryOp(op=ast.Not()) | ast.Compare() | ast.BoolOp():
                return "bool"
            case ast.UnaryOp(operand=operand):
                return self.of(operand)
            case ast.BinOp(left=left, op=op, right=right):
                return _arithmetic(op, self.of(left), self.of(right), right)
            case ast.IfExp(body=body, orelse=other):
                return _unified([self.of(body), self.of(other)])
            case ast.Call():
                return self._call(node)
        return None

    def _name(self, name: str) -> str | None:
        if name in self._bindings:
            own = [self._scalars[name]] if name in self._scalars else []
            return _unified([*own, self._locals.get(name)])
        if name in self._scalars:
            return self._scalars[name]
        if name in self._other:
            return "int64" if name not in self._arrays else None
        constant = self._unit.constants.get(name)
        return None if constant is None else _type_of_value(constant.value)

    def _element(self, node: ast.Subscript) -> str | None:
        if is_extent(node):
            return "int64"
        base, count = node.value, _index_count(node)
        while isinstance(base, ast.Subscript):
            count += _index_count(base)
            base = base.value
        if isinstance(base, ast.Name) and base.id in self._arrays:
            kind = self._arrays[base.id]
            return kind.dtype if count == kind.ndim else None
        if isinstance(base, ast.Name):
            for value in self._bindings.get(base.id, ()):
                use = self._unit.use_of(value)
                if use is not None and "dtype" in use.static:
                    return str(use.static["dtype"])
        return None

    def _call(self, node: ast.Call) -> str | None:
        use = self._unit.use_of(node)
        if use is not None:
            name = use.intrinsic.name
            is_index = name.startswith(("grid", "thread", "block", "lane", "warp"))
            if is_index:
                return "int64"
            return self.of(node.args[0]) if name == "uniform" else None
        callee = self._unit.callee_of(node)
        if callee is not None:
            return self._returned(callee, node)
        name = (library_name(node.func, self._unit.namespace) or "").rpartition(".")[2]
        given = [self.of(argument) for argument in node.args]
        if name in ("float", "int", "bool"):
            return {"float": "float64", "int": "int64", "bool": "bool"}[name]
        if name in _REAL_DTYPES:
            return name
        if name in _UNIFIED and given:
            return _promoted(given)
        if name in _LIKE_ARGUMENT and given:
            found = _promoted(given)
            return "float64" if found is not None and "int" in found else found
        return None

    def _returned(self, callee: FunctionUnit, node: ast.Call) -> str | None:
        if self._depth >= _MAX_DEPTH or node.keywords:
            return None
        given: dict[str, Kind | str | None] = {}
        for name, argument in zip(callee.parameters, node.args, strict=False):
            is_array = isinstance(argument, ast.Name) and argument.id in self._arrays
            given[name] = self._arrays[argument.id] if is_array else self.of(argument)  # type: ignore[attr-defined]
        inner = _Types(callee, given, self._depth + 1)
        values = [
            inner.of(each.value)
            for each in ast.walk(callee.tree)
            if isinstance(each, ast.Return) and each.value is not None
        ]
        return _unified(values) if values else None

    # ------------------------------------------------------------------ causes

    def causes(
        self, node: ast.expr, seen: frozenset[str] = frozenset()
    ) -> Iterator[tuple[str, str]]:
        """Yield what makes an expression float64, and what to write instead."""
        text = ast.unparse(node)
        match node:
            case ast.Constant():
                yield (
                    f"the literal {text} is float64",
                    f"Write np.float32({text})",
                )
            case ast.Name(id=name) if name in self._bindings and name not in seen:
                for value in self._bindings[name]:
                    if self.of(value) == "float64":
                        yield from self.causes(value, seen | {name})
            case ast.Name(id=name) if name in self._scalars:
                yield (
                    f"the argument {name} is float64, as every Python float is",
                    f"Pass np.float32({name})",
                )
            case ast.Name(id=name) if name in self._unit.constants:
                path = self._unit.constants[name].path
                yield (
                    f"the captured constant {path} is float64, as every Python float is",
                    "Define it as np.float32(…)",
                )
            case ast.Subscript():
                yield (
                    f"{text} is an element of a float64 array",
                    f"Use np.float32({text}), or a float32 array",
                )
            case ast.UnaryOp(operand=operand):
                yield from self.causes(operand, seen)
            case ast.IfExp(body=body, orelse=other):
                yield from self._causes_among((body, other), seen)
            case ast.BinOp(left=left, right=right):
                yield from self._causes_of_pair(node, left, right, seen)
            case ast.Call(args=arguments) if any(self.of(a) == "float64" for a in arguments):
                yield from self._causes_among(arguments, seen)
            case ast.Call():
                yield (
                    f"{text} is float64",
                    f"Write np.float32({text})",
                )

    def _causes_among(
        self, nodes: Sequence[ast.expr], seen: frozenset[str]
    ) -> Iterator[tuple[str, str]]:
        for each in nodes:
            if self.of(each) == "float64":
                yield from self.causes(each, seen)

    def _causes_of_pair(
        self, node: ast.BinOp, left: ast.expr, right: ast.expr, seen: frozenset[str]
    ) -> Iterator[tuple[str, str]]:
        sides = [(each, self.of(each)) for each in (left, right)]
        if any(t == "float64" for _, t in sides):
            yield from self._causes_among((left, right), seen)
            return
        whole = [each for each, t in sides if t is not None and "int" in t]
        if len(whole) == 2:
            yield (
                f"{ast.unparse(node)} divides integers, which gives float64",
                f"Write np.float32({ast.unparse(left)}) / np.float32({ast.unparse(right)})",
            )
        for each in whole if len(whole) == 1 else ():
            text = ast.unparse(each)
            yield (
                f"{text} is {self.of(each)}, and with float32 that gives float64",
                f"Write np.float32({text})",
            )


def _index_count(node: ast.Subscript) -> int:
    return sum(not isinstance(part, ast.Slice) for part in index_parts(node))


def _type_of_value(value: Any) -> str | None:
    if isinstance(value, np.generic):
        return value.dtype.name if value.dtype.name in ELEMENT_TYPES else None
    if isinstance(value, bool):
        return "bool"
    return {int: "int64", float: "float64"}.get(type(value))


def _computed_in(name: str) -> np.dtype[Any]:
    row = ELEMENT_TYPES[name]
    return numpy_dtype(row.arithmetic if row.is_narrow else name)


def _promoted(types: Sequence[str | None]) -> str | None:
    """Return the type of arithmetic with these."""
    if any(t is None for t in types):
        # What is not known can only widen float64 to something that is float64 too, or complex.
        return None
    found = np.result_type(*[_computed_in(t) for t in types if t is not None])
    return "int64" if found.kind in "iub" else str(found)


def _arithmetic(
    op: ast.operator, left: str | None, right: str | None, node: ast.expr
) -> str | None:
    if isinstance(op, ast.Pow):
        is_whole = isinstance(node, ast.Constant) and isinstance(node.value, int)
        return left if is_whole and left in ("float32", "float64") else _promoted([left, right])
    found = _promoted([left, right])
    if isinstance(op, ast.Div) and found == "int64":
        return "float64"
    return found


def _unified(types: Sequence[str | None]) -> str | None:
    """Return the type of a variable that holds these in turn."""
    known = {t for t in types if t is not None}
    if not known:
        return None
    return str(np.result_type(*map(_computed_in, known)))
