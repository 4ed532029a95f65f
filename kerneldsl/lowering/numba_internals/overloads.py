"""Implementations of functions, attributes and methods that programs give Numba.

``numba.extending.overload`` and its like register a function of types, which returns the Python
function to call for them. Those for CUDA count before those for every target. Kernels on a CPU have
them, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from numba import errors, types
from numba.core.typing.templates import (
    _OverloadAttributeTemplate,
    _OverloadFunctionTemplate,
    _OverloadMethodTemplate,
    builtin_registry,
)

from kerneldsl.frontend.foreign import is_of_drop_in

__all__ = ["find_implementation", "is_of_program", "member_template", "overloads_of"]

#: Targets of the overloads that kernels use, in the order in which they count.
_TARGETS = ("cuda", "gpu", "generic")
#: Libraries with functions that have no other effects than their results.
_LIBRARIES = (*("builtins", "cmath", "math", "numpy", "operator"), *("_operator", "functools"))
#: Packages with overloads that Numba itself compiles.
_OWN = ("kerneldsl", "numba", "stdlib_kernels", "targets")


def _target(template: Any) -> str:
    return str(template.metadata.get("target", "generic")).lower()


def _is_of_kernels(template: Any) -> bool:
    """Return whether an overload is read as a device function: those of programs for kernels."""
    if _target(template) not in _TARGETS:
        return False
    if template.metadata.get("is_read"):
        return True
    module = str(template._overload_func.__module__)
    return module.partition(".")[0] not in _OWN or is_of_drop_in(module)


def is_of_program(key: Any) -> bool:
    """Return whether what a function type calls is a program's own, and may have any effect."""
    module = getattr(key, "__module__", None)
    if not isinstance(module, str):
        return False
    return module.partition(".")[0] not in (*_LIBRARIES, *_OWN) or is_of_drop_in(module)


def overloads_of(function: Any) -> list[Any]:
    """Return the templates of a type of Numba's that are overloads of a Python function."""
    if not isinstance(function, types.Function) or not inspect.isfunction(function.typing_key):
        return []
    found = [
        template
        for template in function.templates
        if issubclass(template, _OverloadFunctionTemplate) and _is_of_kernels(template)
    ]
    return sorted(found, key=lambda each: _TARGETS.index(_target(each)))


#: Number of Numba's attributes at the last look, and those of programs among them.
_seen: list[int] = [0]
_members: list[Any] = []


def member_template(kind: Any, name: str) -> tuple[Any, bool] | None:
    """Return a program's overload of an attribute, and whether it is a method."""
    registered = builtin_registry.attributes
    for each in registered[_seen[0] :]:
        if issubclass(each, _OverloadAttributeTemplate) and _is_of_kernels(each):
            _members.append(each)
    _seen[0] = len(registered)
    found = [
        each
        for each in _members
        if each._attr == name
        and (each.key == kind or (isinstance(each.key, type) and isinstance(kind, each.key)))
    ]
    if not found:
        return None
    first = min(found, key=lambda each: _TARGETS.index(_target(each)))
    return first, issubclass(first, _OverloadMethodTemplate)


def find_implementation(
    templates: list[Any], forms: list[tuple[tuple[Any, ...], dict[str, Any]]]
) -> tuple[Callable[..., Any], Any]:
    """Return the Python function to call, and the signature that its overload declares or ``None``.

    - `forms`: the types of arguments and keywords, without and with the values of constants.

    Raises an error of Numba's if there is none.
    """
    failures: list[errors.NumbaError] = []
    for template in templates:
        is_literal_first = getattr(template, "prefer_literal", False)
        for args, named in forms[::-1] if is_literal_first else forms:
            try:
                found = _found(template, args, named)
            except errors.NumbaError as error:
                failures.append(error)
                continue
            if found is not None:
                return found
    if failures:
        raise failures[-1]
    raise errors.TypingError("no overload has an implementation for these types")


def _found(
    template: Any, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Callable[..., Any], Any] | None:
    function = template._overload_func
    try:
        inspect.signature(function).bind(*args, **named)
    except TypeError as error:
        raise errors.TypingError(str(error)) from error
    found = function(*args, **named)
    if found is None:
        return None
    signature, implementation = found if isinstance(found, tuple) else (None, found)
    if getattr(template, "_strict", True):
        # Numba's method does not use the template that it is called for.
        _OverloadFunctionTemplate._validate_sigs(template, function, implementation)
    return implementation, signature
