"""Kernels that call a function for each element, one for each number of arrays.

A kernel has a fixed number of parameters, so its text is written for the operands. It depends on
the operands that are arrays, their axes of extent 1, and the conversions.
"""

from __future__ import annotations

import linecache
import zlib
from functools import cache
from typing import Any, NamedTuple

import kerneldsl as kd

__all__ = ["MAX_RANK", "Operand", "mapping_kernel", "probing_kernel"]

#: Axes of a launch.
MAX_RANK = 3
_INDICES = ("i", "j", "k")


class Operand(NamedTuple):
    """Describe the properties of an argument that a kernel depends on."""

    #: Of an array, for each axis whether it has one element for all; ``None`` for a number.
    repeats: tuple[bool, ...] | None
    #: Whether it is converted, by a constant of the kernel, before the function has it.
    is_converted: bool

    def text(self, number: int) -> str:
        """Return the operand's value as Python text."""
        name = f"a{number}"
        if self.repeats is not None:
            places = ("0" if r else _INDICES[at] for at, r in enumerate(self.repeats))
            name += f"[{', '.join(places)}]"
        return f"to{number}({name})" if self.is_converted else name


@cache
def mapping_kernel(operands: tuple[Operand, ...], outs: tuple[bool, ...], rank: int) -> Any:
    """Write ``(*operands, *outs, f, …)``, which stores ``f(*operands)`` in arrays of one shape.

    `outs` says for each result whether it is converted. The constants are `f`, and by the numbers
    of what is converted ``to0``, ``to1``, … and ``as0``, ``as1``, …
    """
    indices = ", ".join(_INDICES[:rank])
    results = [f"r{n}" for n in range(len(outs))]
    lines = [f"    {indices} = kd.grid({rank})", f"    {', '.join(results)} = {_call(operands)}"]
    for n, is_converted in enumerate(outs):
        value = f"as{n}(r{n})" if is_converted else f"r{n}"
        lines.append(f"    o{n}[{indices}] = {value}")
    constants = [f"as{n}" for n, is_converted in enumerate(outs) if is_converted]
    return _made("mapped", operands, [f"o{n}" for n in range(len(outs))], constants, lines)


@cache
def probing_kernel(operands: tuple[Operand, ...]) -> Any:
    """Write ``(*operands, f, …)``, which shows by its types what the function gives."""
    rank = max([1, *(len(o.repeats) for o in operands if o.repeats is not None)])
    lines = [f"    {', '.join(_INDICES[:rank])} = kd.grid({rank})", f"    r = {_call(operands)}"]
    return _made("probed", operands, [], [], lines)


def _call(operands: tuple[Operand, ...]) -> str:
    return f"f({', '.join(each.text(n) for n, each in enumerate(operands))})"


def _made(
    name: str, operands: tuple[Operand, ...], outs: list[str], constants: list[str], body: list[str]
) -> Any:
    """Compile the text of a function, which stays readable where Python looks for source."""
    given = [*(f"a{n}" for n in range(len(operands))), *outs, "*", "f", *constants]
    given += [f"to{n}" for n, each in enumerate(operands) if each.is_converted]
    text = "\n".join([f"def {name}({', '.join(given)}):", *body, ""])
    file = f"<{__name__}: {', '.join(given)}: {zlib.crc32(text.encode())}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"kd": kd, "__name__": __name__}
    exec(compile(text, file, "exec"), space)
    return kd.kernel(wraparound=False)(space[name])
