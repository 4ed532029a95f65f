"""How a launch's arguments become a compiled kernel's parameters.

The layout is the same on every target and is part of what an ahead-of-time compiled file promises:

* a scalar is one parameter of its own type (``bool`` travels as ``uint8``, a complex number as two
  floats, real part first);
* an array is its data pointer, then its extent along each axis as ``int64``, then, only where its
  layout is "A", its stride along each axis in bytes as ``int64``; an array of rank 0 is a pointer;
* a tuple is its elements, one after the other;
* a ``forall`` entry then takes its extents as ``int64``; a debug entry then takes a pointer to a
  fault record.

Every parameter is aligned to its own size, as the CUDA driver's parameter buffer wants it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind

__all__ = ["EXPLICIT", "LaunchMode", "Parameter", "ParameterLayout"]

_FORMATS = {
    **{row.name: row.struct_code for row in ELEMENT_TYPES.values() if not row.is_complex},
    "pointer": "Q",
}


@dataclass(frozen=True, slots=True)
class LaunchMode:
    """Whether a compiled entry serves ``kernel[grid, block]`` or ``kernel.forall(*extent)``.

    Parameters
    ----------
    forall_ndim : int or None
        Rank of the extent under ``forall``, 1 to 3; ``None`` for an explicit launch.
    """

    forall_ndim: int | None = None

    @property
    def is_forall(self) -> bool:
        """Whether the entry takes an extent and guards against threads beyond it."""
        return self.forall_ndim is not None


#: ``kernel[grid, block]``.
EXPLICIT = LaunchMode()


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a compiled entry.

    Parameters
    ----------
    name : str
        Such as ``x.data``, ``x.shape[0]``, ``a``, ``z.imag`` or ``extent[0]``.
    dtype : str
        A scalar dtype, or ``"pointer"``.
    offset : int
        Bytes from the start of the parameter buffer.
    """

    name: str
    dtype: str
    offset: int

    @property
    def nbytes(self) -> int:
        """Size in bytes; also the alignment."""
        return struct.calcsize(_FORMATS[self.dtype])


@dataclass(frozen=True)
class ParameterLayout:
    """The parameters of a compiled entry, in order.

    Parameters
    ----------
    names : tuple of str
        The kernel's parameter names.
    kinds : tuple of Kind
        Their kinds.
    mode : LaunchMode
        Adds the extents under ``forall``.
    debug : bool
        Adds the pointer to the fault record.
    """

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    mode: LaunchMode = EXPLICIT
    debug: bool = False

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Every parameter, with its place in the buffer."""
        placed: list[Parameter] = []
        offset = 0
        for name, dtype in self._flat():
            size = struct.calcsize(_FORMATS[dtype])
            offset = -(-offset // size) * size
            placed.append(Parameter(name, dtype, offset))
            offset += size
        return tuple(placed)

    def _flat(self) -> Iterator[tuple[str, str]]:
        for name, kind in zip(self.names, self.kinds, strict=True):
            yield from _flatten(name, kind)
        for axis in range(self.mode.forall_ndim or 0):
            yield f"extent[{axis}]", "int64"
        if self.debug:
            yield "fault.data", "pointer"

    @cached_property
    def struct_format(self) -> str:
        """Format for :mod:`struct`, with explicit padding and native byte order."""
        text, position = "=", 0
        for parameter in self.parameters:
            if parameter.offset > position:
                text += f"{parameter.offset - position}x"
            text += _FORMATS[parameter.dtype]
            position = parameter.offset + parameter.nbytes
        return text

    @cached_property
    def packer(self) -> struct.Struct:
        """Packs the flat values of a launch into the parameter buffer."""
        return struct.Struct(self.struct_format)

    @property
    def nbytes(self) -> int:
        """Size of the parameter buffer in bytes."""
        return self.packer.size

    def describe(self) -> str:
        """A table of the parameters, as it stands beside an ahead-of-time compiled file."""
        rows: Sequence[tuple[str, str, str, str]] = [("#", "offset", "type", "parameter")]
        rows = [
            *rows,
            *((str(i), str(p.offset), p.dtype, p.name) for i, p in enumerate(self.parameters)),
        ]
        widths = [max(len(r[c]) for r in rows) for c in range(4)]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(r, widths, strict=True)).rstrip()
            for r in rows
        )


def _flatten(name: str, kind: Kind) -> Iterator[tuple[str, str]]:
    if isinstance(kind, ScalarKind):
        if kind.element.is_complex:
            yield f"{name}.real", kind.element.arithmetic
            yield f"{name}.imag", kind.element.arithmetic
        else:
            yield name, kind.dtype
    elif isinstance(kind, ArrayKind):
        yield f"{name}.data", "pointer"
        for axis in range(kind.ndim):
            yield f"{name}.shape[{axis}]", "int64"
        if kind.layout == "A":
            for axis in range(kind.ndim):
                yield f"{name}.strides[{axis}]", "int64"
    else:
        for i, element in enumerate(kind.elements):
            yield from _flatten(f"{name}[{i}]", element)
