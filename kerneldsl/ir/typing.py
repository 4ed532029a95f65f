"""Type operations by Numba's typing context, once for each combination of operand types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from numba import errors, types

__all__ = ["Typing"]


class Typing:
    """Signatures of operators and functions in one typing context.

    A process has one for each context. An operator of the same types is looked up once in a
    process, not once in a kernel.
    """

    _known: WeakKeyDictionary[Any, Typing] = WeakKeyDictionary()

    def __init__(self, context: Any) -> None:
        self.context = context
        self._operators: dict[tuple[Any, ...], Any] = {}
        self._calls: dict[tuple[Any, ...], Any] = {}
        self._unified: dict[tuple[Any, Any], Any] = {}

    @classmethod
    def of(cls, context: Any) -> Typing:
        """Return the one of a context."""
        found = cls._known.get(context)
        if found is None:
            found = cls._known.setdefault(context, cls(context))
        return found

    def operator(self, function: Any, kinds: tuple[Any, ...]) -> Any:
        """Return the signature of an operator."""
        key = (function, kinds)
        if key not in self._operators:
            # By the operator's type in kernels: comparisons of integers of both signs are exact.
            found = self.context.resolve_function_type(self.function(function), kinds, {})
            if found is None:
                raise errors.TypingError(f"no {function.__name__} of {kinds}")
            self._operators[key] = found
        return self._operators[key]

    def function(self, function: Any) -> Any:
        """Return Numba's type of an outside object, with what is registered by now."""
        return self.context.resolve_value_type(function)

    def call(
        self, function: Any, kinds: tuple[Any, ...], named: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the signature of a call of a function type; `named` are types of keywords."""
        key = (function, kinds, *(named or {}).items())
        if key not in self._calls:
            found = self.context.resolve_function_type(function, kinds, dict(named or {}))
            if found is None:
                raise errors.TypingError(f"no call of {function} with {kinds}")
            self._calls[key] = found
        return self._calls[key]

    def unify(self, one: Any, two: Any, name: str = "") -> Any:
        """Return the type that holds values of both types; `name` is the variable's, for errors."""
        if one == two:
            return one
        key = (one, two)
        if key not in self._unified:
            found = self.context.unify_types(one, two)
            if found is None:
                of_name = f" for '{name}'" if name else ""
                raise errors.TypingError(f"Cannot unify {one} and {two}{of_name}")
            self._unified[key] = found
        return self._unified[key]


def plain(kind: Any) -> Any:
    """Return a type without the value of a literal."""
    return types.unliteral(kind)
