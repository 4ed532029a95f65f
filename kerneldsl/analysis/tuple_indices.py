"""Which indices of a function may be tuples, so that they are several indices at once."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from kerneldsl.analysis.aliases import Summary
from kerneldsl.analysis.bindings import Binding, take_apart
from kerneldsl.analysis.library_effects import PLAIN_ATTRIBUTES, READING_METHODS, gives_scalar
from kerneldsl.analysis.library_names import name_of_function
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["ALWAYS", "Condition", "TupleIndices", "given"]

#: On which parameters it depends whether a value may be a tuple: if any of them is one. A value
#: that is none has no condition, one that may be a tuple whatever they are has `ALWAYS`.
Condition: TypeAlias = frozenset[int]
ALWAYS = -1
_NEVER: Condition = frozenset()
_EVER: Condition = frozenset((ALWAYS,))


class TupleIndices:
    """Which expressions of one function may be tuples.

    Parameters
    ----------
    unit : FunctionUnit
        The function.
    found : iterable of Binding
        Its bindings.
    function_of : callable
        Gives the outside object that a call calls.
    summary_of : callable
        Gives what is known of a device function that a call calls.
    """

    def __init__(
        self,
        unit: FunctionUnit,
        found: Iterable[Binding],
        function_of: Callable[[ast.Call], Any],
        summary_of: Callable[[ast.Call], Summary | None],
    ) -> None:
        self._unit = unit
        self._function_of = function_of
        self._summary_of = summary_of
        self._names: dict[str, Condition] = {
            name: frozenset((i,)) for i, name in enumerate(unit.parameters)
        }
        for name, captured in unit.constants.items():
            if isinstance(captured.value, tuple):
                self._names[name] = _EVER
        pairs = [
            (target.id, value)
            for binding in found
            if not binding.is_item
            for target, value in take_apart(binding.target, binding.value)
            if isinstance(target, ast.Name)
        ]
        changed = True
        while changed:
            changed = False
            for name, value in pairs:
                known = self._names.get(name, _NEVER)
                self._names[name] = known | self.of(value)
                changed |= self._names[name] != known

    def of(self, node: ast.expr) -> Condition:
        """Whether an expression may be a tuple."""
        match node:
            case ast.Tuple():
                return _EVER
            case ast.Name(id=name):
                return self._names.get(name, _NEVER)
            case ast.IfExp():
                return self.of(node.body) | self.of(node.orelse)
            case ast.Attribute():
                is_number = node.attr in PLAIN_ATTRIBUTES - {"shape", "strides"}
                return _NEVER if is_number else _EVER
            case ast.Call():
                return self._of_call(node)
        return _NEVER

    def _of_call(self, node: ast.Call) -> Condition:
        use = self._unit.use_of(node)
        if use is not None:
            return _EVER if use.static.get("ndim", 1) > 1 else _NEVER
        summary = self._summary_of(node)
        if summary is not None:
            return given(summary.returns_tuple, map(self.of, node.args))
        function = self._function_of(node)
        if function is None and isinstance(node.func, ast.Attribute):
            return _NEVER if node.func.attr in READING_METHODS - {"nonzero"} else _EVER
        is_type = (name_of_function(function) or "").startswith("numba.")
        is_number = is_type or (function is not divmod and gives_scalar(function, node))
        return _NEVER if is_number else _EVER


def given(condition: Condition, arguments: Iterable[Condition]) -> Condition:
    """A condition on a callee's parameters as one on those of its caller.

    Examples
    --------
    >>> sorted(given(frozenset((1,)), [frozenset(), frozenset((0, 2))]))
    [0, 2]
    """
    found = condition & _EVER
    for position, argument in enumerate(arguments):
        if position in condition:
            found |= argument
    return found
