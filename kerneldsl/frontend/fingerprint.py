"""A stable identity of a kernel: what it computes, in whatever file and line it is."""

from __future__ import annotations

import ast
import hashlib
import struct
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from kerneldsl.frontend.foreign import is_numba_type, is_of_drop_in
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES

__all__ = [
    "UnidentifiedError",
    "describe_constant",
    "describe_object",
    "fingerprint",
    "identify",
    "note_fingerprint",
]

#: Libraries with objects that their name identifies, for one version of the library.
_LIBRARIES = ("builtins", "math", "cmath", "operator", "numpy", "numba", "kerneldsl")
#: Fields that no code depends on; some exist only in newer versions of Python.
_WITHOUT_MEANING = frozenset({"kind", "type_comment", "type_ignores", "type_params"})
#: The other fields, by the type of the node.
_meaning: dict[type[ast.AST], tuple[str, ...]] = {}
#: A constant that is longer, as text, is shown by its digest.
_SHOWN_CHARACTERS = 60


_known: WeakKeyDictionary[FunctionUnit, str] = WeakKeyDictionary()


class UnidentifiedError(Exception):
    """A kernel uses a function or value that cannot be identified."""


def fingerprint(unit: FunctionUnit) -> str:
    """Digest a function in normal form, with its constants and the functions that it calls.

    - `unit`: a kernel or device function.
    - returns: SHA-256 in hexadecimal. It depends on the normalized trees, the static arguments of
      intrinsics, types and values of the constants, and the callees; not on line numbers, comments,
      annotations, names of modules' files or anything of this process.
    - raises `UnidentifiedError` as :func:`identify`.
    """
    found = _known.get(unit)
    if found is None:
        found = _digest(text for item in sorted(identify(unit).items()) for text in item)
        _known[unit] = found
    return found


def note_fingerprint(unit: FunctionUnit, found: str) -> None:
    """Have :func:`fingerprint` return what is known of a unit without its normal form."""
    _known[unit] = found


def identify(unit: FunctionUnit, *, has_lines: bool = False) -> dict[str, str]:
    """Say what a function computes, in parts that can be compared one by one.

    - `unit`: a kernel or device function.
    - `has_lines`: whether files and lines are part of it, as they are of code with line
      information.
    - returns: ``"function f"`` to a digest of its tree, for the function and every one it reaches;
      ``"function f: WIDTH"`` to the value of a constant, and to what an outside name means.
    - raises `UnidentifiedError` if it reaches a Numba function, or an object of no known library:
      what those compile to depends on more than can be seen.
    """
    labels: dict[int, str] = {}
    names: dict[str, int] = {}
    for reached in unit.reachable():
        count = names[reached.name] = names.get(reached.name, 0) + 1
        labels[id(reached)] = f"function {reached.name}" + (f" ({count})" if count > 1 else "")
    found: dict[str, str] = {}
    for reached in unit.reachable():
        if reached.is_plain_numba:
            raise UnidentifiedError(
                f"the options of {reached.qualname}, a function of Numba's, cannot be read"
            )
        label = labels[id(reached)]
        found[label] = _digest(_code(reached, labels, has_lines))
        for name, constant in reached.constants.items():
            found[f"{label}: {name}"] = describe_constant(constant.value)
        for name, value in reached.namespace.items():
            found[f"{label}: {name}"] = describe_object(name, value)
    return found


def _code(unit: FunctionUnit, labels: dict[int, str], has_lines: bool) -> Iterator[str]:
    yield unit.name
    yield _tree_text(unit.tree)
    if unit.follows_numba:
        yield "numba.cuda"
    for result, kinds in unit.signatures:
        yield f"{result}({', '.join(map(str, kinds))})"
    if has_lines:
        yield ast.dump(unit.tree, include_attributes=True)
        yield unit.filename
    for name, use in sorted(unit.uses.items()):
        yield from ("intrinsic", name, use.intrinsic.name, repr(sorted(use.static.items())))
    for name, callee in sorted(unit.callees.items()):
        yield from ("callee", name, labels[id(callee)])
    if unit.linked is not None:
        yield from ("linked", *unit.linked.identity())


def _tree_text(node: Any) -> str:
    """Write a tree the same in every version of Python, which :func:`ast.dump` does not."""
    kind = type(node)
    if kind is str or kind is int or node is None:
        return repr(node)
    if kind is list:
        return f"[{', '.join([_tree_text(each) for each in node])}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.If) and _has_elif(node):
        return _chain_text(node)
    names = _meaning.get(kind)
    if names is None:
        names = _meaning[kind] = tuple(n for n in kind._fields if n not in _WITHOUT_MEANING)
    inner = [_tree_text(getattr(node, name, None)) for name in names]
    return f"{kind.__name__}({', '.join(inner)})"


def _has_elif(node: ast.If) -> bool:
    return len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)


def _chain_text(node: ast.If) -> str:
    """Write a chain of ``elif``, which may be longer than Python's recursion limit."""
    parts, count = list[str](), 0
    while _has_elif(node):
        parts.append(f"If({_tree_text(node.test)}, {_tree_text(node.body)}, [")
        (node,) = node.orelse  # type: ignore[assignment]
        count += 1
    return f"{''.join(parts)}{_tree_text(node)}{'])' * count}"


def _digest(parts: Iterator[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        # The length keeps neighbouring parts apart.
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def describe_constant(value: Any) -> str:
    """Return the type and value of a constant, to the bit."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, tuple):
        inner = ", ".join(describe_constant(element) for element in value)
        names = getattr(type(value), "_fields", "")  # of a named tuple; its elements go by them
        text = f"{len(value)}{names}: {inner}"
    elif isinstance(value, np.ndarray):
        contents = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        dtype = value.dtype.str if value.dtype.names is None else str(value.dtype)
        return f"{kind} {dtype} {value.shape} {value.strides} {contents}"
    elif isinstance(value, np.generic):
        text = f"{value!r} {value.dtype.str} {value.tobytes().hex()}"
    elif isinstance(value, (float, complex)):
        # The text of a NaN omits its sign and payload.
        number = complex(value)
        text = f"{value!r} {struct.pack('<dd', number.real, number.imag).hex()}"
    else:
        text = repr(value)
    if len(text) > _SHOWN_CHARACTERS:
        text = f"{text[: _SHOWN_CHARACTERS // 2]}… {_digest(iter((text,)))}"
    return f"{kind} {text}"


def describe_object(name: str, value: Any) -> str:
    """Return a name for a module, library function or type, the same in every process."""
    if isinstance(value, type) and issubclass(value, BaseException):
        # Code without checks raises nothing, and code with checks is not identified by this.
        return f"exception {value.__module__}.{value.__qualname__}"
    if (
        isinstance(value, type)
        and issubclass(value, np.generic)
        and value.__name__ in ELEMENT_TYPES
    ):
        return f"dtype {value.__name__}"
    if is_numba_type(value):
        return f"{type(value).__module__}.{type(value).__qualname__} {value}"
    if isinstance(value, ModuleType):
        if _is_of_library(value.__name__) and sys.modules.get(value.__name__) is value:
            return f"module {value.__name__}"
    else:
        own = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        # A ufunc says no module.
        module = getattr(value, "__module__", None) or "numpy"
        if isinstance(own, str) and _is_of_library(module) and _find(module, own) is value:
            return f"{module}.{own}"
    raise UnidentifiedError(f"{name} is from a library that no version identifies")


def _is_of_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES and not is_of_drop_in(module)


def _find(module: str, qualname: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found
