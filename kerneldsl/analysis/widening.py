"""Diagnosis of float64 arithmetic with results that are stored as float32.

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
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kerneldsl.analysis.bindings import bindings, unpack_targets
from kerneldsl.analysis.inferred_types import InferredTypes
from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind, ScalarKind

__all__ = ["WideStore", "wide_stores"]


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
    types = InferredTypes(unit, kinds)
    causes = _Causes(unit, kinds, types)
    found: dict[tuple[object, ...], WideStore] = {}
    for _, target, value in types.stores():
        if types.of(target) != "float32" or types.of(value) != "float64":
            continue
        for cause, remedy in causes.of(value):
            store = WideStore(unit.locate(target), ast.unparse(target), cause, remedy)
            found.setdefault((store.where, cause), store)
    return tuple(found.values())


class _Causes:
    """Sources of float64 values in one function."""

    def __init__(self, unit: FunctionUnit, kinds: Sequence[Kind], types: InferredTypes) -> None:
        self._unit = unit
        self._types = types
        self._doubles = {
            name
            for name, kind in zip(unit.parameters, kinds, strict=True)
            if kind == ScalarKind("float64")
        }
        self._bindings: dict[str, list[ast.expr]] = {}
        for binding in bindings(unit.tree):
            value = binding.value
            if isinstance(binding.node, ast.AugAssign):
                value = types.augmented(binding.node)
            for target, each in unpack_targets(binding.target, value):
                if isinstance(target, ast.Name) and not binding.is_item:
                    self._bindings.setdefault(target.id, []).append(each)

    def of(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
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
                    if self._is_double(value):
                        yield from self.of(value, seen | {name})
            case ast.Name(id=name) if name in self._doubles:
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
            case ast.Subscript(value=array) if self._types.is_array(array):
                yield (
                    f"{text} is an element of a float64 array",
                    f"Use np.float32({text}), or a float32 array",
                )
            case ast.UnaryOp(operand=operand):
                yield from self.of(operand, seen)
            case ast.IfExp(body=body, orelse=other):
                yield from self._causes_among((body, other), seen)
            case ast.BinOp(left=left, right=right):
                yield from self._causes_of_pair(node, left, right, seen)
            case ast.Call(args=arguments) if any(map(self._is_double, arguments)):
                yield from self._causes_among(arguments, seen)
            case ast.Call() | ast.Subscript():
                yield (
                    f"{text} is float64",
                    f"Write np.float32({text})",
                )

    def _is_double(self, node: ast.expr) -> bool:
        return self._types.of(node) == "float64"

    def _causes_among(
        self, nodes: Sequence[ast.expr], seen: frozenset[str]
    ) -> Iterator[tuple[str, str]]:
        for each in nodes:
            if self._is_double(each):
                yield from self.of(each, seen)

    def _causes_of_pair(
        self, node: ast.BinOp, left: ast.expr, right: ast.expr, seen: frozenset[str]
    ) -> Iterator[tuple[str, str]]:
        sides = [(each, self._types.of(each)) for each in (left, right)]
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
                f"{text} is {self._types.of(each)}, and with float32 that gives float64",
                f"Write np.float32({text})",
            )
