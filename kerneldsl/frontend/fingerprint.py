"""A stable identity of a kernel: what it computes, whatever file and line it stands in."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["fingerprint"]

#: Changes when the same function must get another fingerprint.
_SCHEMA = "kerneldsl fingerprint 1"


def fingerprint(unit: FunctionUnit) -> str:
    """Digest a function in normal form, with its constants and the functions that it calls.

    Parameters
    ----------
    unit : FunctionUnit
        A kernel or device function.

    Returns
    -------
    str
        SHA-256 in hexadecimal. It depends on the normalized trees, the static arguments of
        intrinsics, types and values of the constants, and the callees; not on line numbers,
        comments, annotations, names of modules' files or anything of this process.
    """
    digest = hashlib.sha256(_SCHEMA.encode())
    for part in _parts(unit):
        data = part.encode("utf-8", "surrogatepass")
        # The length keeps neighbouring parts apart.
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _parts(unit: FunctionUnit) -> Iterator[str]:
    numbers = {id(reached): i for i, reached in enumerate(unit.reachable())}
    for reached in unit.reachable():
        yield "function"
        yield reached.name
        yield "numba" if reached.is_plain_numba else "kernel language"
        yield ast.dump(reached.tree, annotate_fields=False, include_attributes=False)
        for name, use in sorted(reached.uses.items()):
            yield from ("intrinsic", name, use.intrinsic.name, repr(sorted(use.static.items())))
        for name, callee in sorted(reached.callees.items()):
            yield from ("callee", name, str(numbers[id(callee)]))
        for name, constant in sorted(reached.constants.items()):
            yield from ("constant", name, *_describe_value(constant.value))
        for name, value in sorted(reached.namespace.items()):
            yield from ("outside", name, _describe_object(value))


def _describe_value(value: Any) -> Iterator[str]:
    yield f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, tuple):
        yield str(len(value))
        for element in value:
            yield from _describe_value(element)
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype.str} {value.shape} {value.strides}"
        yield hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    elif isinstance(value, np.generic):
        yield f"{value.dtype.str} {value.tobytes().hex()}"
    elif isinstance(value, float):
        yield value.hex()
    elif isinstance(value, complex):
        yield f"{value.real.hex()} {value.imag.hex()}"
    else:
        yield repr(value)


def _describe_object(value: Any) -> str:
    """A name for a module, a function of a library or a type that is the same in every process."""
    own = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if own is None:
        return f"{type(value).__module__}.{type(value).__qualname__} {value}"
    return f"{getattr(value, '__module__', None) or ''}.{own}"
