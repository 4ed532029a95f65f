"""Functions of texts that this package writes; linecache has them, for messages."""

from __future__ import annotations

import itertools
import linecache
import re
from types import FunctionType
from typing import Any

from kerneldsl.kernels.decorators import func

__all__ = ["made_function", "made_functions"]

_numbers = itertools.count()


def made_function(text: str, name: str, namespace: dict[str, Any]) -> FunctionType:
    """Return the function `name` of a text, which sees the values of a namespace."""
    filename = f"<kerneldsl {name} {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    exec(compile(text, filename, "exec"), namespace)  # a text of this package
    found: FunctionType = namespace[name]
    return found


def made_functions(text: str, module: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the functions of a text as device functions, by name. They see each other."""
    namespace["__name__"] = module
    first, *others = re.findall(r"^def (\w+)", text, re.MULTILINE)
    made_function(text, first, namespace)
    made = {name: func(namespace[name]) for name in (first, *others)}
    namespace.update(made)
    return made
