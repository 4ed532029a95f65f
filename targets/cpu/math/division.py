"""Keep integer divisions away from LLVM's loop vectorizer.

LLVM 22 vectorizes a division under a condition wrongly where its operands are the same in all
iterations: it divides once, under the condition of the first lane, and gives the result to all
lanes (docs/upstream.md). A kernel has such a division if it takes the remainder of a loop
counter by an argument under a guard, as every ring buffer does.

So a division by a non-constant divisor is a call while LLVM optimizes. The function it calls is
declared as free of side effects and safe to evaluate at any time, which is true, as it divides by
one where a division would trap. LLVM therefore moves calls with equal operands in all iterations
out of the loop, which it may not do with a division, and evaluates calls with equal operands once.
Afterwards the calls become divisions again. The divisions of `divide_unsigned` are in no such loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import llvmlite.binding as llvm

from kerneldsl.lowering.numba_internals.regions import run_passes

__all__ = ["Divisions", "divide_unsigned", "fold_constants", "has_divisions"]

#: An instruction that divides by a value; a text that the module holds begins no line.
_DIVISION = re.compile(
    r"^(?P<result> +%[^=]*= )(?P<op>sdiv|srem|udiv|urem)(?: exact)? (?P<kind>i\d+) "
    r'(?P<dividend>.+), (?P<divisor>%"[^"]*"|%[^,\s]+)(?=,|$)(?!.*!kerneldsl\.outside)',
    re.MULTILINE,
)
#: Metadata of a division that stays one.
_OUTSIDE = "kerneldsl.outside"
#: What lets LLVM evaluate a call at any time, and once for all calls with equal operands.
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
        #: The same with calls in place of divisions.
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
    passes = llvm.create_new_module_pass_manager()
    for name in names:
        getattr(passes, f"add_{name}_pass")()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    run_passes(passes, module, llvm.create_pass_builder(machine, options))


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
