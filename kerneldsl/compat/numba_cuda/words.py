"""Adds sentences of numba.cuda's to errors, for programs that look for its words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kerneldsl.errors import KernelError, KernelFault

__all__ = ["add_words", "call_without_type"]

#: A sentence of kerneldsl's, and numba.cuda's.
_WORDS = {
    r"The name (\w+) is not defined": r"NameError: name '\1' is not defined",
    r"('\w+') is not a dtype that it supports": r"Invalid NumPy dtype specified: \1",
    r"captures (\S+), which is of type": r"Untyped global name '\1': Cannot determine Numba type",
    r"(\w+) is compiled by Numba for the CPU": (
        r"Untyped global name '\1': using cpu function on device"
    ),
    r"is indexed by a value of type (\w+)": r"\1 is not a valid index",
    r"(\w+) is a function, and is given another": (
        r"Cannot capture a constant value for variable '\1' as there are multiple definitions"
    ),
    r"(\w+) calls itself: ": r"cannot type infer runaway recursion of \1",
    r"(\w+) is declared for .* and is called with (\(.*\))": (
        r"Invalid use of type(CUDADispatcher(<function \1>)) with parameters \2"
    ),
    r"mask must be an integer": "Mask type must be an integer",
    r"predicate must be a boolean or an integer": "Predicate must be an integer or boolean",
    r"array has (\d+) axes, and index is a number": r"Expected \1 indices, got a scalar",
    r"array has (\d+) axes, and index is a tuple of (\d+)": r"Expected \1 indices, got \2",
    r"is out of range for axis 0 of \S+\.shape\b": "tuple index out of range",
    r"an argument, and it reads (\w+) is": (
        r"Cannot capture the non-constant value associated with variable '\1' in a function that "
        "will escape."
    ),
    r"([^/\s]+) does not compile for": (
        r'NVRTC_ERROR_COMPILATION: errors were detected in the compilation of "\1"'
    ),
}
_WITHOUT_TYPE = re.compile(r"kd\.\w+\.array: dtype is")


def add_words(error: KernelError, function: Any = None) -> None:
    """Add numba.cuda's words to an error; `function` is that of the kernel."""
    for line in _said_of(error, function):
        if line not in error.chain:
            error.add_line(line)


def _said_of(error: KernelError, function: Any) -> Iterator[str]:
    where = error.where
    if isinstance(error, KernelFault) and error.thread_idx is not None and where is not None:
        thread, block = list(error.thread_idx), list(error.block_idx or ())
        name, text = where.function.rpartition(".")[2], f": {error.value}" if error.value else ""
        line = f"In function {name!r}, file {where.filename}, line {where.lineno}, "
        yield f"{line}tid={thread} ctaid={block}{text}"
    for ours, theirs in _WORDS.items():
        found = re.search(ours, error.what)
        if found is not None:
            yield found.expand(theirs)
    found = re.search(r"an array of type \w+\[(.*)\] is indexed with (\d+) ind", error.what)
    if found is not None:
        yield f"Expected {found[1].count(',') + 1} indices, got {found[2]}"
    if where is None:
        return
    if _WITHOUT_TYPE.search(error.what):
        assigned = re.match(r"\s*(\w+) = ", where.line)
        if assigned is not None:
            yield f"Cannot infer the type of variable '{assigned[1]}'"
    if function is not None and where.function not in ("", function.__qualname__):
        name = where.function.rpartition(".")[2]
        yield f"During: resolving callee type: type(CUDADispatcher(<function {name}>))"


_ARRAY = re.compile(r"kd\.(shared|local)\.array: shape is |a list cannot be used")


def call_without_type(error: KernelError, function: Any, types: dict[str, Any]) -> str:
    """Return Numba's sentence of a declared array of a shape that is no constant, or nothing.

    `types` are Numba's of the parameters of the kernel.
    """
    if error.where is None or not _ARRAY.search(error.what):
        return ""
    from kerneldsl.ir.frontend.declared_arrays import types_in_declaration  # imports Numba

    found = types_in_declaration(function, error.where.lineno, types)
    if found is None:
        return ""
    memory, arguments = found
    shown = ", ".join(f"{name}={kind}" for name, kind in arguments.items())
    called = f"Function(<function {memory}.array>)"
    return f"\nNo implementation of function {called} found for signature:\n \n >>> array({shown})"
