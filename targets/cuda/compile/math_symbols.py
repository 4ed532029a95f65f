"""Device symbols of the mathematical functions.

Numba's lowering of ``math``, ``cmath`` and NumPy's functions calls LLVM's intrinsics and C's
library by name. When modules are linked those names become the device's: LLVM's intrinsic where
the hardware is exact (rounding), else libdevice. Square roots are
:mod:`targets.cuda.compile.square_roots`. One table serves every function,
and a name that is in neither is an error.

References
----------
CUDA Math API Reference Manual; libdevice User's Guide, section "Function Reference".
"""

from __future__ import annotations

import re

from targets.cuda.compile.square_roots import ROOTS
from targets.cuda.intrinsics.by_architecture import FAST_TANH, ONE_PLUS_ERF

__all__ = ["C_FUNCTIONS", "is_unselectable", "rename_math", "user_name"]

# Single precision has an "f" at the end, in C's library and in libdevice.
# fmt: off
_C_TO_LIBDEVICE = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf",
    "erfc", "exp", "exp2", "expm1", "fmod", "frexp", "hypot", "ldexp", "lgamma", "log", "log10",
    "log1p", "log2", "logb", "nextafter", "pow", "sin", "sinh", "tan", "tanh", "tgamma",
)
_C_TO_LLVM = ("sqrt", "floor", "ceil", "trunc", "fabs")
_LLVM_TO_LIBDEVICE = (
    "acos", "asin", "atan", "atan2", "cos", "cosh", "exp", "exp2", "exp10", "log", "log10", "log2",
    "pow", "sin", "sinh", "tan", "tanh",
)
# fmt: on
_NUMBA_TO_LIBDEVICE = {
    "gamma": "tgamma",
    "ldexp": "ldexp",
    "frexp": "frexp",
    "nextafter": "nextafter",
}

#: Single-precision functions with an approximate instruction.
_APPROXIMATE = frozenset({"cos", "exp", "exp10", "log", "log10", "log2", "pow", "sin", "tan"})


def _table() -> dict[str, str]:
    table: dict[str, str] = {}
    for f, llvm_type in (("", "f64"), ("f", "f32")):
        for name in _C_TO_LIBDEVICE:
            table[f"{name}{f}"] = f"__nv_{name}{f}"
        for name in _C_TO_LLVM:
            table[f"{name}{f}"] = f"llvm.{name}.{llvm_type}"
        table[f"sqrt{f}"] = table[f"llvm.sqrt.{llvm_type}"] = f"kd.sqrt.{llvm_type}"
        for name in _LLVM_TO_LIBDEVICE:
            table[f"llvm.{name}.{llvm_type}"] = f"__nv_{name}{f}"
        for name, libdevice in _NUMBA_TO_LIBDEVICE.items():
            table[f"numba_{name}{f}"] = f"__nv_{libdevice}{f}"
    return table


_EXACT = _table()
#: Functions of C's library that modules call.
C_FUNCTIONS = frozenset(name for name in _EXACT if "." not in name)
_FAST = (
    _EXACT
    | {name: ROOTS.get(function, function) for name, function in _EXACT.items()}
    | {
        name: f"__nv_fast_{function[5:]}"
        for name, function in _EXACT.items()
        if function.startswith("__nv_")
        and function[5:-1] in _APPROXIMATE
        and function.endswith("f")
    }
    | {name: FAST_TANH for name, function in _EXACT.items() if function == "__nv_tanhf"}
)
_QUOTED = re.compile(r'@"([\w.]+)"')
_DECLARED = re.compile(r'^declare (?:[a-z]+ )*?(\S+) @"([\w.]+)"\(', re.MULTILINE)
_SUFFIXES = {"float": ".f32", "double": ".f64"}
_UNSELECTABLE = frozenset(
    (*_LLVM_TO_LIBDEVICE, "frexp", "ldexp", "modf", "powi", "sincos", "sinpi", "cospi", "sincospi")
)
#: A sum of 1 and an error function that may be contracted, as GELU has it.
_ONE_PLUS_ERF = re.compile(
    r'^ *(%\S+) = call float @"__nv_erff"\((float [^)\n]+)\)\n'
    r"( *%\S+ = )fadd (?:contract|fast) float (?:0x3ff0000000000000, \1|\1, 0x3ff0000000000000)$",
    re.MULTILINE,
)
_REMAINDER = re.compile(r"= frem (?:[a-z]+ )*?(float|double) ([^,\n]+), ([^,\s]+)")


def rename_math(text: str, *, fastmath: bool) -> str:
    """Rename the mathematical functions of a module in LLVM's textual form.

    Under `fastmath`, approximate functions are used if they exist. A floating-point remainder
    becomes a call, because the back end's own expansion is wrong for large quotients.
    """
    table = _FAST if fastmath else _EXACT
    if "= frem " in text:
        text = _lower_remainders(text)
    renamed = _renamings(text, table)
    if not renamed:
        return text
    lines: list[str] = []
    declared: set[str] = set()
    for line in text.splitlines():
        if "@" in line:
            line = _QUOTED.sub(lambda m: f'@"{renamed.get(m[1], m[1])}"', line)
            match = _DECLARED.match(line)
            if match:
                if match[2] in declared:
                    continue
                declared.add(match[2])
        lines.append(line)
    return _join_sums("\n".join(lines) + "\n")


def _join_sums(text: str) -> str:
    """Compute 1 + erf(x) by one function if nothing else reads erf(x)."""

    def joined(match: re.Match[str]) -> str:
        if text.count(match[1]) > 2:
            return match[0]
        return f'{match[3]}call float @"{ONE_PLUS_ERF}"({match[2]})'

    found = _ONE_PLUS_ERF.sub(joined, text)
    return found if found == text else f'{found}\ndeclare float @"{ONE_PLUS_ERF}"(float)\n'


def _renamings(text: str, table: dict[str, str]) -> dict[str, str]:
    """Return new names of functions that a module declares; LLVM's may lack the type's suffix."""
    found: dict[str, str] = {}
    for result, name in _DECLARED.findall(text):
        new = table.get(name) or table.get(name + _SUFFIXES.get(result, ""))
        if new is not None:
            found[name] = new
    return found


def is_unselectable(name: str) -> bool:
    """Return whether NVPTX has no instruction for an LLVM intrinsic and would abort."""
    return name.startswith("llvm.") and name.split(".")[1] in _UNSELECTABLE


def _lower_remainders(text: str) -> str:
    names = {"float": "__nv_fmodf", "double": "__nv_fmod"}
    used: set[str] = set()

    def call(match: re.Match[str]) -> str:
        kind, dividend, divisor = match.groups()
        used.add(kind)
        return f'= call {kind} @"{names[kind]}"({kind} {dividend}, {kind} {divisor})'

    text = _REMAINDER.sub(call, text)
    for kind in sorted(used):
        if f'declare {kind} @"{names[kind]}"' not in text:
            text += f'\ndeclare {kind} @"{names[kind]}"({kind}, {kind})\n'
    return text


def user_name(symbol: str) -> str:
    """Say what a user would call a function of libdevice.

    Examples
    --------
    >>> user_name("__nv_fast_sinf"), user_name("__nv_fmod")
    ('sin', '% (fmod)')
    """
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    if name.endswith("f") and name not in ("erf",):
        name = name[:-1]
    return {"fmod": "% (fmod)", "tgamma": "gamma"}.get(name, name)
