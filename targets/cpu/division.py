"""Keep integer divisions away from LLVM's loop vectorizer.

LLVM 22 vectorizes a division under a condition wrongly where its operands are the same in all
iterations: it divides once, under the condition of the first lane, and gives the result to all
lanes (docs/upstream.md). A kernel has such a division wherever it takes the remainder of a loop
counter by an argument under a guard, as every ring buffer does.

So a division by anything but a constant is a call while LLVM optimizes. The function it calls is
declared as free of side effects and safe to evaluate at any time, which is true, as it divides by
one where a division would trap. LLVM therefore moves calls with equal operands in all iterations
out of the loop, which it may not do with a division. Afterwards the calls become divisions again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import llvmlite.binding as llvm

__all__ = ["Divisions"]

_DIVISION = re.compile(
    r"= (sdiv|srem|udiv|urem)(?: exact)? (i\d+) (?P<dividend>[^,\s]+), (?P<divisor>%[^,\s]+)"
)

#: What lets LLVM evaluate a call at any time, and once for all calls with equal operands.
_ATTRIBUTES = "nofree nosync nounwind willreturn speculatable memory(none)"

#: A division as LLVM's optimizer meets it: a call, unless the divisor turns out to be constant.
_DIVIDE = """
declare {kind} @{safe}({kind}, {kind}) {attributes}

declare i1 @llvm.is.constant.{kind}({kind})

define linkonce_odr {kind} @{name}({kind} %a, {kind} %b) alwaysinline {{
  %is_constant = call i1 @llvm.is.constant.{kind}({kind} %b)
  br i1 %is_constant, label %constant, label %variable

constant:
  %divided = {op} {kind} %a, %b
  ret {kind} %divided

variable:
  %quotient = call {kind} @{safe}({kind} %a, {kind} %b)
{result}
}}
"""
_QUOTIENT = "  ret {kind} %quotient"
#: Of the quotient, so that a division and a remainder of equal operands divide once.
_REMAINDER = """
  %product = mul {kind} %quotient, %b
  %remainder = sub {kind} %a, %product
  ret {kind} %remainder
"""

#: What is called. Divisions by zero trap, and of the least integer by -1; the result is of no
#: matter there, since generated code asks for both and then takes another value.
_SAFE_UNSIGNED = """
define linkonce_odr {kind} @{safe}({kind} %a, {kind} %b) alwaysinline {attributes} {{
  %dividend = freeze {kind} %a
  %divisor = freeze {kind} %b
  %is_zero = icmp eq {kind} %divisor, 0
  %harmless = select i1 %is_zero, {kind} 1, {kind} %divisor
  %quotient = udiv {kind} %dividend, %harmless
  ret {kind} %quotient
}}
"""
_SAFE_SIGNED = """
define linkonce_odr {kind} @{safe}({kind} %a, {kind} %b) alwaysinline {attributes} {{
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


class Divisions:
    """The divisions of one module.

    Parameters
    ----------
    module : llvmlite.binding.ModuleRef
        Linked, and not yet optimized.

    Attributes
    ----------
    module : llvmlite.binding.ModuleRef
        The same with calls in place of divisions.
    """

    def __init__(self, module: Any) -> None:
        text = str(module)
        self._kinds = sorted({found.group(1, 2) for found in _DIVISION.finditer(text)})
        self.module = module
        if not self._kinds:
            return
        text = _DIVISION.sub(_call, text)
        for op, kind in self._kinds:
            text += f"declare {kind} @{_name(op, kind)}({kind}, {kind})\n"
        self.module = llvm.parse_assembly(text)
        self.module.name = module.name
        self._link({_divide(*each) for each in self._kinds})

    def restore(self, machine: Any) -> None:
        """Turn the calls into divisions again, once the module is optimized.

        Parameters
        ----------
        machine : llvmlite.binding.TargetMachine
            Of the host.
        """
        if not self._kinds:
            return
        self._link({_safe(*each) for each in self._kinds})
        passes = llvm.create_new_module_pass_manager()
        passes.add_new_gvn_pass()  # calls with equal operands stood in different branches before
        passes.add_always_inliner_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        passes.run(self.module, llvm.create_pass_builder(machine, options))

    def _link(self, definitions: Iterable[str]) -> None:
        for definition in definitions:
            self.module.link_in(llvm.parse_assembly(definition))


def _name(op: str, kind: str) -> str:
    return f"kerneldsl.{op}.{kind}"


def _call(found: re.Match[str]) -> str:
    op, kind, dividend, divisor = found.groups()
    return f"= call {kind} @{_name(op, kind)}({kind} {dividend}, {kind} {divisor})"


def _safe_name(op: str, kind: str) -> str:
    """The function that gives the quotient, signed or unsigned."""
    return f"{_name(op[0] + 'div', kind)}.safe"


def _divide(op: str, kind: str) -> str:
    result = (_QUOTIENT if op.endswith("div") else _REMAINDER).format(kind=kind)
    return _DIVIDE.format(
        op=op,
        kind=kind,
        name=_name(op, kind),
        safe=_safe_name(op, kind),
        attributes=_ATTRIBUTES,
        result=result,
    )


def _safe(op: str, kind: str) -> str:
    template = _SAFE_SIGNED if op.startswith("s") else _SAFE_UNSIGNED
    return template.format(kind=kind, safe=_safe_name(op, kind), attributes=_ATTRIBUTES)
