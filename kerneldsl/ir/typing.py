"""Type operations by Numba's typing context, once for each combination of operand types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from numba import errors, types

from kerneldsl.ir.refusals import (
    Refusal,
    call_refusal,
    object_refusal,
    operator_refusal,
    rule_refusal,
    unify_refusal,
)

__all__ = ["Typing", "name_of"]


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
        found = cls._known.get(context)
        if found is None:
            found = cls._known.setdefault(context, cls(context))
        return found

    def operator(self, function: Any, kinds: tuple[Any, ...]) -> Any:
        key = (function, kinds)
        if key not in self._operators:
            # The operator's type in kernels: comparisons of signed with unsigned integers are
            # exact.
            refusal = partial(operator_refusal, function.__name__, kinds)
            found = self._resolved(self.function(function), kinds, {}, refusal)
            self._operators[key] = found
        return self._operators[key]

    def function(self, function: Any) -> Any:
        """Return Numba's type of an outside object, with what is registered by now."""
        try:
            return self.context.resolve_value_type(function)
        except (ValueError, errors.NumbaError) as error:
            raise object_refusal(function) from error

    def call(
        self, function: Any, kinds: tuple[Any, ...], named: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the signature of a call of a function type; `named` are types of keywords."""
        key = (function, kinds, *(named or {}).items())
        if key not in self._calls:
            keywords = dict(named or {})
            refusal = partial(call_refusal, name_of(function), kinds, keywords)
            self._calls[key] = self._resolved(function, kinds, keywords, refusal)
        return self._calls[key]

    def _resolved(
        self,
        function: Any,
        kinds: tuple[Any, ...],
        named: dict[str, Any],
        refusal: Callable[[], Refusal],
    ) -> Any:
        try:
            found = self.context.resolve_function_type(function, kinds, named)
        except errors.NumbaError as error:
            raise rule_refusal(error) or refusal() from error
        if found is None:
            raise refusal()
        return found

    def unify(self, one: Any, two: Any, name: str = "") -> Any:
        """Return the type that holds values of both types; `name` is the variable's, for errors."""
        if one == two:
            return one
        key = (one, two)
        if key not in self._unified:
            try:
                found = self.context.unify_types(one, two)
            except (TypeError, errors.NumbaError) as error:  # of NumPy, if it has no such type
                raise unify_refusal(one, two, name) from error
            if found is None:
                raise unify_refusal(one, two, name)
            self._unified[key] = found
        return self._unified[key]


def name_of(function: Any) -> str:
    if isinstance(function, types.NumberClass):
        return str(function.instance_type)
    key = getattr(function, "typing_key", function)
    if isinstance(key, tuple):  # of a method: the type that has it, and its name
        key = key[-1]
    return str(getattr(key, "__name__", key)).rpartition(".")[2]
