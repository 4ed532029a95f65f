"""Conversions of floats to integers, which have a value for every float.

LLVM's own instruction gives no value (poison) for NaN and for floats beyond the integer's limits.
LLVM leaves out the stores of such values. So each conversion is a call of a function that the
target writes, with one rule for all targets. The fraction is cut off, floats beyond a limit become
that limit, and NaN becomes 0.

References
----------
LLVM Language Reference, instructions "fptosi" and "fptoui".
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["FloatConversion", "define_conversions"]

_INSTRUCTION = re.compile(
    r"= (?P<operation>fptosi|fptoui) (?P<float>float|double) (?P<value>\S+)"
    r" to i(?P<bits>8|16|32|64)\b"
)


@dataclass(frozen=True, order=True)
class FloatConversion:
    """A conversion from one type to another."""

    #: LLVM's instruction: ``"fptosi"`` or ``"fptoui"``.
    operation: str
    #: LLVM's type: ``"float"`` or ``"double"``.
    float_type: str
    #: Width of the integer: 8, 16, 32 or 64 bits.
    bits: int

    @property
    def is_signed(self) -> bool:
        """Return whether the integer has a sign."""
        return self.operation == "fptosi"

    @property
    def smallest(self) -> int:
        return -(1 << (self.bits - 1)) if self.is_signed else 0

    @property
    def largest(self) -> int:
        return (1 << (self.bits - self.is_signed)) - 1

    @property
    def symbol(self) -> str:
        """The name of the function, which says both types."""
        return f"kerneldsl.{self.operation}.{self.float_type}.i{self.bits}"

    def function(self, *lines: str) -> str:
        """Return the function with the argument ``%x`` and the result ``%result``."""
        integer = f"i{self.bits}"
        return "\n".join(
            (
                f"define linkonce_odr {integer} @{self.symbol}({self.float_type} %x)"
                " alwaysinline nofree norecurse nosync nounwind willreturn memory(none) {",
                *(f"  {line}" for line in lines),
                f"  ret {integer} %result",
                "}",
                "",
            )
        )


def define_conversions(text: str, write: Callable[[FloatConversion], str]) -> str:
    """Return a module's text with calls in place of conversions, and what is called.

    - `text`: the module.
    - `write`: gives the definition of a conversion's function (:meth:`FloatConversion.function`),
      with the declarations of what that calls.
    """
    found: set[FloatConversion] = set()

    def call(match: re.Match[str]) -> str:
        operation, kind, value, bits = match.group("operation", "float", "value", "bits")
        conversion = FloatConversion(operation, kind, int(bits))
        found.add(conversion)
        return f"= call i{bits} @{conversion.symbol}({kind} {value})"

    replaced = _INSTRUCTION.sub(call, text)
    declared: dict[str, None] = {}
    definitions = []
    for conversion in sorted(found):
        for line in write(conversion).splitlines():
            if line.startswith("declare "):
                if not _is_declared(line, text):
                    declared[line] = None
            else:
                definitions.append(line)
    return "\n".join([replaced, *declared, *definitions, ""]) if found else text


def _is_declared(declaration: str, text: str) -> bool:
    """Return whether a module's text declares the function of a declaration already."""
    head, _, _ = declaration.partition("(")
    result, _, name = head.partition("@")
    return f'{result}@"{name}"(' in text or f"{result}@{name}(" in text
