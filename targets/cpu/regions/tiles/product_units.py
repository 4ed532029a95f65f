"""Instructions of the CPU that add several products at a time, in words of 32 bits along k.

A word has two or four neighbours along k. An instruction multiplies the words of two vectors
element by element, and adds the products to sums of 32 bits. Products of bfloat16 are added in
pairs, so low bits differ from those of the reference.

References
----------
Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 2, "VDPBF16PS",
"VPDPBUSD", "VPDPWSSD" and "PMADDWD".
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils

from targets.cpu.codegen.levels import features_in_use

__all__ = ["FLIP", "Unit", "unit_for"]

_I8, _I16, _I32 = ir.IntType(8), ir.IntType(16), ir.IntType(32)
#: The highest bit of each byte of a word.
FLIP = -0x7F7F7F80


class _BFloat(ir.Type):
    """LLVM's bfloat16."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


class Unit(NamedTuple):
    """A way to add products."""

    #: Of the instruction in LLVM, without its width; empty for one product at a time.
    name: str = ""
    #: Elements of a word.
    group: int = 1
    #: The dtype that factors are converted to; empty if they stay as they are.
    dtype: str = ""
    #: Whether bytes of the first factor have a sign, and become those without one by 128.
    flips: bool = False

    def add(self, builder: ir.IRBuilder, one: ir.Value, two: ir.Value, total: ir.Value) -> ir.Value:
        """Add products of vectors of words."""
        lanes = total.type.count
        element = {"avx512bf16.dpbf16ps": _BFloat(), "avx512.vpdpbusd": _I8}.get(self.name, _I16)
        kind = ir.VectorType(element, lanes * self.group)
        factors = [builder.bitcast(each, kind) for each in (one, two)]
        name = f"llvm.x86.{self.name}.{32 * lanes}"
        if self.name == "pmadd":
            name = f"llvm.x86.{_PAIRS[lanes]}"
            call = ir.FunctionType(total.type, [kind, kind])
            pairs = cgutils.get_or_insert_function(builder.module, call, name)
            return builder.add(total, builder.call(pairs, factors))
        call = ir.FunctionType(total.type, [total.type, kind, kind])
        instruction = cgutils.get_or_insert_function(builder.module, call, name)
        return builder.call(instruction, [total, *factors])


#: Sums of two products of 16-bit integers, by the lanes of the result.
_PAIRS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
#: Floats that bfloat16 has.
_EXACT_IN_BFLOAT = {"bfloat16", "float8_e4m3fn", "float8_e5m2"}
_VNNI = ({"avx512vnni", "avx512vl"}, {"avxvnni", "avx2"})


def unit_for(one: Any, two: Any, precision: str) -> Unit:
    """Return the fastest way to multiply elements of two types of Numba."""
    features = features_in_use()
    kinds = str(one), str(two)
    if set(kinds) <= _EXACT_IN_BFLOAT:
        has_unit = {"avx512bf16", "avx512vl"} <= features and precision != "reference"
        return Unit("avx512bf16.dpbf16ps", 2, "bfloat16") if has_unit else Unit()
    if not set(kinds) <= {"int8", "uint8"}:
        return Unit()
    has_vnni = any(each <= features for each in _VNNI)
    if has_vnni and kinds[1] == "int8":
        return Unit("avx512.vpdpbusd", 4, flips=kinds[0] == "int8")
    if has_vnni:
        return Unit("avx512.vpdpwssd", 2, "int16")
    if "avx2" in features and ("avx512f" not in features or "avx512bw" in features):
        return Unit("pmadd", 2, "int16")
    return Unit()
