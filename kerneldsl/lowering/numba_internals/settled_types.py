"""Numba's propagation of types, with one visit of each constraint of unchanged types.

Numba goes over all constraints until no type changes, so at least twice, and resolves each call
every time. It also replaces Python's filters of warnings for each constraint.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

from numba.core import types, utils
from numba.core.errors import ForceLiteralArg, TypingError
from numba.core.typeinfer import TypeVarMap

__all__ = ["NotTypedYetError", "propagate"]

_logger = logging.getLogger("numba.core.typeinfer")
#: Types that may change their meaning while they are the same.
_UNSETTLED = (types.RecursiveCall, types.FunctionType)


class NotTypedYetError(Exception):
    """A typing rule needs the result of a constraint that comes later.

    After a ``TypingError`` Numba would not type the same call again.
    """


class _RecordingMap(TypeVarMap):
    """Numba's variables of types by name, which notes whom it was asked for."""

    def __init__(self, known: dict[str, Any], context: Any) -> None:
        dict.__init__(self, known)
        self.set_context(context)
        self.asked: list[Any] = []

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        self.asked.append(found)
        return found


def propagate(network: Any, typeinfer: Any) -> list[Exception]:
    """Execute the constraints whose types have changed: ``ConstraintNetwork.propagate``.

    Errors are caught and returned.
    """
    variables = typeinfer.typevars
    if not isinstance(variables, _RecordingMap):
        variables = typeinfer.typevars = _RecordingMap(variables, typeinfer.context)
        network.settled = {}
    settled: dict[int, list[tuple[Any, Any]]] = network.settled
    errors: list[Exception] = []
    others: list[Any] = []
    fixer = typeinfer.warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", fixer._category)
        for number, constraint in enumerate(network.constraints):
            seen = settled.get(number)
            if seen is not None and all(variable.type is kind for variable, kind in seen):
                continue
            variables.asked = []
            try:
                constraint(typeinfer)
            except ForceLiteralArg as error:
                errors.append(error)
            except NotTypedYetError as error:
                errors.append(TypingError(str(error), loc=constraint.loc, highlighting=False))
            except TypingError as error:
                _logger.debug("captured error", exc_info=error)
                told = TypingError(str(error), loc=constraint.loc, highlighting=False)
                errors.append(utils.chain_exception(told, error))
            else:
                seen = [(variable, variable.type) for variable in variables.asked]
                if not any(isinstance(kind, _UNSETTLED) for _, kind in seen):
                    settled[number] = seen
            for warning in caught:
                if issubclass(warning.category, fixer._category):
                    place = constraint.loc.filename, constraint.loc.line, warning.category
                    fixer._warnings[place].add(str(warning.message))
                else:
                    others.append(warning)
            caught.clear()
    for each in others:
        warnings.warn_explicit(str(each.message), each.category, each.filename, each.lineno)
    return errors
