"""The text that a fault of the process says of a launch, made before there is one.

The handler (:mod:`targets.cpu.runtime.signal_handlers`) reads shapes from the launch's parameters,
so the text belongs to the compiled kernel.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from kerneldsl.contract import Specialization
from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.language.kinds import ArrayKind
from targets.cpu.codegen.code import HEADER_BYTES

__all__ = ["Description", "describe_launch"]

_NO_NUMBER = -1
_HINT = (
    "). An index beyond an array does this: run it with debug=True, or KERNELDSL_DEBUG=1 in the "
    "environment, to see where.\n"
)


class Description(NamedTuple):
    """Text in native memory, with places for numbers.

    Parameters
    ----------
    address : int
        Of the number of pieces, then three words of each: address and bytes of a text, and the
        offset of an int64 of the launch that follows it, or -1.
    keep : tuple
        What owns the memory.
    """

    address: int
    keep: tuple[Any, ...]


def describe_launch(specialization: Specialization) -> Description:
    """Make the description of a kernel's launches."""
    unit, kinds = specialization.unit, specialization.kinds
    layout = ParameterLayout(unit.parameters, kinds, specialization.mode)
    places = {p.name: HEADER_BYTES + p.offset for p in layout.parameters}
    pieces: list[tuple[str, int]] = []
    text = f"\nkerneldsl: a memory access failed while kernel {unit.qualname}("
    for index, (name, kind) in enumerate(zip(layout.names, layout.kinds, strict=True)):
        text += ", " if index else ""
        if not isinstance(kind, ArrayKind):
            text += f"{name}: {kind}"
            continue
        text += f"{name}: {kind.element.name} of shape ("
        for axis in range(kind.ndim):
            pieces.append((text + (", " if axis else ""), places[f"{name}.shape[{axis}]"]))
            text = ""
        text += ",)" if kind.ndim == 1 else ")"
    text += f") was running ({unit.filename}:{unit.first_line}"
    pieces.append((text + _HINT, _NO_NUMBER))
    held = [ctypes.create_string_buffer(t.encode("utf-8", "replace")) for t, _ in pieces]
    words = [len(pieces)]
    for memory, (_, place) in zip(held, pieces, strict=True):
        words += (ctypes.addressof(memory), len(memory) - 1, place)
    table = (ctypes.c_int64 * len(words))(*words)
    return Description(ctypes.addressof(table), (table, *held))
