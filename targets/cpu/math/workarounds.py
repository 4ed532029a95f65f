"""Keep code away from rules of LLVM that make it wrong (docs/upstream.md).

Divisions: LLVM 22 vectorizes a division under a condition wrongly if its operands are the same in
all iterations. It divides once, under the condition of the first lane, and gives the result to all
lanes. A kernel has such a division if it takes the remainder of a loop counter under a guard, as
every ring buffer does.

So a division by a non-constant divisor is a call while LLVM optimizes. The function is declared as
free of side effects and safe to evaluate at any time: it divides by one where a division would
trap. LLVM therefore moves calls with equal operands in all iterations out of the loop, unlike
divisions. It evaluates calls with equal operands once. Afterwards the calls become divisions again.
The divisions of `divide_unsigned` are in no such loop.

Upper halves of products: LLVM 22 has an instruction for the upper 16 bits of each product of 16-bit
numbers. It uses it for products of 64 and 128 bits that are shifted right by 16 bits or more. It
shifts the 16 bits by the rest. A rest of 16 or more is undefined, and drops what would be stored.
A smaller one fills in zeros where the product has its sign. `kd.mulhi` of narrow integers is such
a product. So in an optimized module a zero that LLVM does not know is added to such a product.

References
----------
LLVM, ``lib/Target/X86/X86ISelLowering.cpp``, ``combinePMULH``;
``lib/CodeGen/SelectionDAG/DAGCombiner.cpp``, ``combineShiftToMULH``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm

from kerneldsl.lowering.numba_internals.llvm_modules import run_named_passes

if TYPE_CHECKING:
    from kerneldsl.lowering.float_conversions import FloatConversion

__all__ = [
    "CONVERSIONS",
    "Divisions",
    "add_missing",
    "divide_unsigned",
    "fold_constants",
    "has_divisions",
    "has_upper_products",
    "keep_upper_products",
    "write_conversion",
]

#: An instruction that divides by a value; a text that the module holds begins no line.
_DIVISION = re.compile(
    r"^(?P<result> +%[^=]*= )(?P<op>sdiv|srem|udiv|urem)(?: exact)? (?P<kind>i\d+) "
    r'(?P<dividend>.+), (?P<divisor>%"[^"]*"|%[^,\s]+)(?=,|$)(?!.*!kerneldsl\.outside)',
    re.MULTILINE,
)
#: Metadata of a division that stays one.
_OUTSIDE = "kerneldsl.outside"
#: Attributes with which LLVM may evaluate a call at any time, and merge calls with equal operands.
_ATTRIBUTES = "nofree nosync nounwind willreturn speculatable memory(none)"

_DECLARATION = "declare {kind} @{quotient}({kind}, {kind}) {attributes}"
#: A remainder, of the quotient: a division and a remainder of equal operands divide once.
_REMAINDER = """
declare {kind} @{quotient}({kind}, {kind}) {attributes}

define linkonce_odr {kind} @{remainder}({kind} %a, {kind} %b) alwaysinline {{
  %quotient = call {kind} @{quotient}({kind} %a, {kind} %b)
  %product = mul {kind} %quotient, %b
  %remainder = sub {kind} %a, %product
  ret {kind} %remainder
}}
"""

#: A quotient. Divisions by zero trap, and of the least integer by -1. The result is of no
#: matter there, since generated code needs both and then takes another value.
_UNSIGNED_QUOTIENT = """
define linkonce_odr {kind} @{quotient}({kind} %a, {kind} %b) alwaysinline {attributes} {{
  %dividend = freeze {kind} %a
  %divisor = freeze {kind} %b
  %is_zero = icmp eq {kind} %divisor, 0
  %harmless = select i1 %is_zero, {kind} 1, {kind} %divisor
  %quotient = udiv {kind} %dividend, %harmless
  ret {kind} %quotient
}}
"""
_SIGNED_QUOTIENT = """
define linkonce_odr {kind} @{quotient}({kind} %a, {kind} %b) alwaysinline {attributes} {{
  %dividend = freeze {kind} %a
  %divisor = freeze {kind} %b
  %is_zero = icmp eq {kind} %divisor, 0
  %is_minus_one = icmp eq {kind} %divisor, -1
  %traps = or i1 %is_zero, %is_minus_one
  %harmless = select i1 %traps, {kind} 1, {kind} %divisor
  %quotient = sdiv {kind} %dividend, %harmless
  %negated = sub {kind} 0, %dividend
  %result = select i1 %is_minus_one, {kind} %negated, {kind} %quotient
  ret {kind} %result
}}
"""


def divide_unsigned(builder: Any, dividend: Any, divisor: Any) -> tuple[Any, Any]:
    """Return quotient and remainder by a nonzero divisor, for the loops over units of work.

    LLVM vectorizes these correctly: under a condition, the dividend differs in each iteration.
    """
    found = builder.udiv(dividend, divisor), builder.urem(dividend, divisor)
    for each in found:
        each.set_metadata(_OUTSIDE, builder.module.add_metadata([]))
    return found


def has_divisions(text: str) -> bool:
    """Return whether a module may have such divisions; its constants may be in variables."""
    return _DIVISION.search(text) is not None


def fold_constants(module: Any, machine: Any, *, simplifies: bool = True) -> None:
    """Replace variables that hold constants, before any loop pass.

    By default LLVM also simplifies divisions, calls of powers and other instructions.
    """
    _run(module, machine, "sroa", "instruction_combine" if simplifies else "sccp", "simplify_cfg")


class Divisions:
    """The divisions of one module by non-constant divisors.

    The module is linked, and not yet optimized, apart from `fold_constants`.
    """

    def __init__(self, module: Any, machine: Any) -> None:
        self._machine = machine
        text = str(module)
        found = {match.group("op", "kind") for match in _DIVISION.finditer(text)}
        self._quotients = sorted({(_division(op), kind) for op, kind in found})
        remainders = [_fill(_REMAINDER, *each) for each in sorted(found) if "rem" in each[0]]
        #: The module with calls in place of divisions.
        self.module = module
        if not found:
            return
        declared = [_fill(_DECLARATION, *each) for each in self._quotients]
        declared += [
            f"declare {kind} @{_name(op, kind)}({kind}, {kind})"
            for op, kind in sorted(found)
            if "rem" in op
        ]
        self.module = llvm.parse_assembly("\n".join([_DIVISION.sub(_call, text), *declared, ""]))
        self.module.name = module.name
        self._link(remainders)

    def restore(self) -> None:
        """Turn the calls into divisions again, after the module is optimized."""
        if not self._quotients:
            return
        self._link(
            _fill(_SIGNED_QUOTIENT if op == "sdiv" else _UNSIGNED_QUOTIENT, op, kind)
            for op, kind in self._quotients
        )
        _run(self.module, self._machine, "always_inliner", "instruction_combine", "simplify_cfg")

    def _link(self, definitions: Iterable[str]) -> None:
        for definition in definitions:
            self.module.link_in(llvm.parse_assembly(definition))


def _run(module: Any, machine: Any, *names: str) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    run_named_passes(module, llvm.create_pass_builder(machine, options), *names)


def _division(op: str) -> str:
    """Return the division of the same signedness."""
    return f"{op[0]}div"


def _name(op: str, kind: str) -> str:
    return f"kerneldsl.{op}.{kind}"


def _call(found: re.Match[str]) -> str:
    op, kind = found.group("op", "kind")
    arguments = f"{kind} {found['dividend']}, {kind} {found['divisor']}"
    return f"{found['result']}call {kind} @{_name(op, kind)}({arguments})"


def _fill(template: str, op: str, kind: str) -> str:
    return template.format(
        kind=kind,
        quotient=_name(_division(op), kind),
        remainder=_name(op, kind),
        attributes=_ATTRIBUTES,
    )


# -- upper halves of products ----------------------------------------------------------------------


#: The upper half of a product of 32-bit numbers, as `kd.mulhi` is lowered.
_UPPER_HALF = re.compile(r"= lshr i64 %\S+, 32$", re.MULTILINE)

#: A shift by 16 bits or more, of every element of a vector.
_SHIFT = re.compile(
    r"= [al]shr (?:exact )?<\d+ x i(?:64|128)> (?P<value>%[^,\s]+), "
    r"splat \(i\d+ (?:1[6-9]|[2-9]\d|1\d\d)\)"
)
#: A product that may be negative: LLVM marks the others as nuw.
_PRODUCT = re.compile(
    r"^ +(?P<name>%\S+) = (?P<product>mul (?:nsw )?(?P<kind><\d+ x (?P<integer>i64|i128)>) .*)$",
    re.MULTILINE,
)
_FUNCTION = re.compile(r"^define .*\{\n(?:[^\s:]+:.*\n)?", re.MULTILINE)
#: Zeros as the result of empty assembly code, which LLVM does not look into. Other blocks use them.
_ZEROS = """  %kerneldsl.zero.i64 = call i64 asm "", "=r,0"(i64 0)
  %kerneldsl.zero.i128 = zext i64 %kerneldsl.zero.i64 to i128
"""


def has_upper_products(text: str) -> bool:
    """Return whether a module that is not optimized yet needs upper halves of products.

    LLVM's pipeline evaluates equal products once before it simplifies them. If they are simplified
    before, a product with a lower half that is needed elsewhere becomes one of 32 bits. The upper
    half takes a second product, and vectors of both widths are shuffled all the time.
    """
    return _UPPER_HALF.search(text) is not None


def keep_upper_products(module: Any) -> Any:
    """Return an optimized module, or what takes its place where the rule would apply."""
    text = str(module)
    shifted = {found["value"] for found in _SHIFT.finditer(text)}
    if not shifted:
        return module
    kept = _PRODUCT.sub(lambda found: _kept(found) if found["name"] in shifted else found[0], text)
    if kept == text:
        return module
    made = llvm.parse_assembly(_FUNCTION.sub(lambda found: found[0] + _ZEROS, kept))
    made.name = module.name
    return made


def _kept(found: re.Match[str]) -> str:
    """Return the instructions that add a zero to a product."""
    kind, integer = found["kind"], found["integer"]
    # Separate names leave LLVM's numbers of the other values as they are.
    product, one, all_ = (
        f"%kerneldsl.{word}.{found.start()}" for word in ("product", "one", "all")
    )
    count = kind.split()[0][1:]
    return (
        f"  {product} = {found['product']}\n"
        f"  {one} = insertelement {kind} poison, {integer} %kerneldsl.zero.{integer}, i64 0\n"
        f"  {all_} = shufflevector {kind} {one}, {kind} poison, <{count} x i32> zeroinitializer\n"
        f"  {found['name']} = add {kind} {product}, {all_}"
    )


# -- conversions of floats -------------------------------------------------------------------------
#
# To integers, limits are comparisons, which LLVM vectorizes. LLVM's ``llvm.fptosi.sat`` has the
# same values, but its vectorizer leaves it to single elements.
#
# For float16, LLVM calls functions of its C runtime library on processors without an instruction
# for it. These are x86 processors without F16C, and those with AVX that Numba does not use. A
# process need not have that library, so code that computes in float16 contains these functions.
#
# See LLVM, compiler-rt, ``extendhfsf2.c`` and ``truncsfhf2.c``; F. Giesen, "Float->half variants"
# (``float_to_half_fast3_rtne``, public domain).


#: Bits of a float's whole numbers that are all exact.
_EXACT_BITS = {"float": 24, "double": 53}

_PROBE = """
define void @probe(ptr %place) {
  %stored = load half, ptr %place
  %value = fpext half %stored to float
  %sum = fadd float %value, 1.0
  %rounded = fptrunc float %sum to half
  store half %rounded, ptr %place
  ret void
}
"""
#: Names of the conversions, by which LLVM calls them after it has optimized a module.
CONVERSIONS = ("__extendhfsf2", "__truncsfhf2")
_CONVERSIONS = """
define float @__extendhfsf2(half %value) {
  %short = bitcast half %value to i16
  %bits = zext i16 %short to i32
  %magnitude = and i32 %bits, 32767
  %sign = and i32 %bits, 32768
  %moved = shl i32 %magnitude, 13
  ; As a float32 of the same exponent bits it is 2**112 too small; subnormal numbers become normal.
  %small = bitcast i32 %moved to float
  %scaled = fmul float %small, 0x46F0000000000000
  %finite = bitcast float %scaled to i32
  %special = or i32 %moved, 2139095040
  %is_special = icmp uge i32 %magnitude, 31744
  %unsigned = select i1 %is_special, i32 %special, i32 %finite
  %high = shl i32 %sign, 16
  %all = or i32 %unsigned, %high
  %result = bitcast i32 %all to float
  ret float %result
}

define half @__truncsfhf2(float %value) {
  %bits = bitcast float %value to i32
  %magnitude = and i32 %bits, 2147483647
  ; A normal number: another bias of the exponent, and half a unit of the last place, less a bit
  ; where the place before is even. A carry goes into the exponent, and to infinity.
  %place = lshr i32 %magnitude, 13
  %odd = and i32 %place, 1
  %biased = add i32 %magnitude, -939520001
  %carried = add i32 %biased, %odd
  %normal = lshr i32 %carried, 13
  ; A subnormal one: the addition of a half rounds it to units of 2**-24.
  %small = bitcast i32 %magnitude to float
  %sum = fadd float %small, 5.000000e-01
  %summed = bitcast float %sum to i32
  %subnormal = sub i32 %summed, 1056964608
  %is_subnormal = icmp ult i32 %magnitude, 947912704
  %finite = select i1 %is_subnormal, i32 %subnormal, i32 %normal
  %is_nan = icmp ugt i32 %magnitude, 2139095040
  %special = select i1 %is_nan, i32 32256, i32 31744
  %is_beyond = icmp uge i32 %magnitude, 1199570944
  %unsigned = select i1 %is_beyond, i32 %special, i32 %finite
  %top = lshr i32 %bits, 16
  %sign = and i32 %top, 32768
  %all = or i32 %unsigned, %sign
  %short = trunc i32 %all to i16
  %result = bitcast i16 %short to half
  ret half %result
}
"""


def write_conversion(conversion: FloatConversion) -> str:
    """Return the function of a conversion."""
    if conversion.largest.bit_length() <= _EXACT_BITS[conversion.float_type]:
        return _of_limited_float(conversion)
    return _with_limits(conversion)


def _of_limited_float(conversion: FloatConversion) -> str:
    """Limit the float: it can be both of the integer's limits."""
    kind = conversion.float_type
    smallest, largest = _float(conversion.smallest), _float(conversion.largest)
    if conversion.is_signed:
        lines = [
            f"%is_number = fcmp ord {kind} %x, 0.0",
            f"%number = select i1 %is_number, {kind} %x, {kind} 0.0",
            f"%is_small = fcmp olt {kind} %number, {smallest}",
            f"%least = select i1 %is_small, {kind} {smallest}, {kind} %number",
        ]
    else:
        lines = [  # of NaN too, the comparison is false
            f"%is_positive = fcmp ogt {kind} %x, 0.0",
            f"%least = select i1 %is_positive, {kind} %x, {kind} 0.0",
        ]
    return conversion.function(
        *lines,
        f"%is_large = fcmp ogt {kind} %least, {largest}",
        f"%limited = select i1 %is_large, {kind} {largest}, {kind} %least",
        f"%result = {conversion.operation} {kind} %limited to i{conversion.bits}",
    )


def _with_limits(conversion: FloatConversion) -> str:
    """Replace the integer where the float was beyond a limit, or NaN."""
    kind, integer = conversion.float_type, f"i{conversion.bits}"
    lines = (
        f"%any = {conversion.operation} {kind} %x to {integer}",
        f"%some = freeze {integer} %any",
        f"%is_below = fcmp olt {kind} %x, {_float(conversion.largest + 1)}",
        f"%at_most = select i1 %is_below, {integer} %some, {integer} {conversion.largest}",
    )
    if not conversion.is_signed:
        return conversion.function(
            *lines,
            f"%is_positive = fcmp ogt {kind} %x, 0.0",
            f"%result = select i1 %is_positive, {integer} %at_most, {integer} 0",
        )
    smallest = conversion.smallest
    return conversion.function(
        *lines,
        f"%is_above = fcmp oge {kind} %x, {_float(smallest)}",
        f"%limited = select i1 %is_above, {integer} %at_most, {integer} {smallest}",
        f"%is_number = fcmp ord {kind} %x, 0.0",
        f"%result = select i1 %is_number, {integer} %limited, {integer} 0",
    )


def _float(number: int) -> str:
    """Write a whole number that is exact as a float's constant."""
    return f"0x{struct.unpack('Q', struct.pack('d', float(number)))[0]:016X}"


def add_missing(module: Any, machine: Any) -> None:
    """Add the conversions to a module that needs them.

    The module is optimized already: optimizing would remove what nothing calls yet.
    """
    if not _are_missing(machine) or " half " not in str(module):
        return
    module.link_in(llvm.parse_assembly(_CONVERSIONS))
    for name in CONVERSIONS:
        module.get_function(name).linkage = "internal"


@cache
def _are_missing(machine: Any) -> bool:
    """Return whether code for a processor calls functions for the conversions."""
    assembly = machine.emit_assembly(llvm.parse_assembly(_PROBE))
    return any(name in assembly for name in CONVERSIONS)
