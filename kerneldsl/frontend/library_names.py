"""Find what the names in a function really are, by the objects they are bound to.

A program may use names such as ``min``, ``range`` or ``np`` for anything. So the spelling of a call
does not identify a function of Python or of a library. An analysis or a pass that knows such a
function must use this module to find whether a call means it.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from kerneldsl.frontend.foreign import is_numba_type
from kerneldsl.language.element_types import ELEMENT_TYPES

__all__ = ["library_name", "name_of_function", "outside_value"]

_LIBRARIES = frozenset({"builtins", "cmath", "math", "numba", "numba_cuda", "numpy"})


def outside_value(node: ast.expr, namespace: Mapping[str, Any]) -> Any:
    """Return the object that a name, or a chain of attributes of a module, stands for.

    The namespace holds outside names, as :attr:`FunctionUnit.namespace` does. What is not in it,
    such as a parameter, a local variable or a device function, is not known, and gives ``None``.
    """
    if isinstance(node, ast.Name):
        return namespace.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = outside_value(node.value, namespace)
        return getattr(owner, node.attr, None) if isinstance(owner, types.ModuleType) else None
    return None


def library_name(node: ast.expr, namespace: Mapping[str, Any]) -> str | None:
    """Return the name of the builtin or library function that an expression stands for.

    That is as :func:`name_of_function` gives it, however the function itself spells it.

    Examples
    --------
    >>> called = ast.parse("f(a, b)", mode="eval").body.func
    >>> library_name(called, {"f": min}), library_name(called, {"f": np.uint32})
    ('min', 'numpy.uint32')
    """
    return name_of_function(outside_value(node, namespace))


def name_of_function(function: Any) -> str | None:
    """Return the name of a builtin or of a function of a library, ``None`` for any other object.

    A builtin has no module in front (``range``); scalar types have the name of their dtype
    (``numpy.int64`` for ``np.intp``, ``numba.uint8``).
    """
    if isinstance(function, np.ufunc):
        is_own = vars(np).get(function.__name__) is function
        return f"numpy.{function.__name__}" if is_own else None
    if isinstance(function, type) and issubclass(function, np.generic):
        is_concrete = function in np.sctypeDict.values() or function.__name__ in ELEMENT_TYPES
        dtype = np.dtype(function) if is_concrete else None
        return f"numpy.{dtype.name}" if dtype is not None and dtype.type is function else None
    module: Any = getattr(function, "__module__", None)
    name: Any = getattr(function, "__name__", None)
    if not isinstance(module, str) or module.partition(".")[0] not in _LIBRARIES:
        return None
    if is_numba_type(function):
        name = str(getattr(function, "name", None))
        return f"numba.{name}" if getattr(sys.modules["numba"], name, None) is function else None
    there = getattr(sys.modules.get(module), "__dict__", {})
    if not isinstance(name, str) or there.get(name) is not function:
        return None
    if module != "builtins":
        return f"{module}.{name}"
    return name if isinstance(function, type | types.BuiltinFunctionType) else None
