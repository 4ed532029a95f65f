"""Square roots that LLVM computes only where the kernel does.

LLVM takes a square root for cheap, and computes it before the test that it depends on: of
``if d > 0: root = math.sqrt(d)`` a choice is left. But ptxas calls a function for operands that are
not normal positive numbers. So the root of a negative number, which is not used, takes longer than
the branch. NVVM keeps the branch. Here a root is a call of a function without a definition, which
LLVM does not speculate, until the module has been optimized.

References
----------
LLVM Language Reference, "llvm.sqrt.* Intrinsic" and the attribute "speculatable".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import llvmlite.binding as llvm

from kerneldsl.contract import Report, ignore_remark

__all__ = [
    "ROOTS",
    "count_roots",
    "guard_roots",
    "restore_roots",
    "root_definitions",
    "with_declared_roots",
]

#: LLVM's intrinsics, by the names that square roots have until the module has been optimized.
ROOTS = {"kd.sqrt.f32": "llvm.sqrt.f32", "kd.sqrt.f64": "llvm.sqrt.f64"}
_TYPES = {"kd.sqrt.f32": "float", "kd.sqrt.f64": "double"}
_DECLARATIONS = "".join(
    f"\ndeclare {kind} @{name}({kind}) nofree norecurse nosync nounwind willreturn memory(none)\n"
    for name, kind in _TYPES.items()
)
_CALL = re.compile(r'call (?:[a-z]+ )*(?:float|double) @"(kd\.sqrt\.f(?:32|64))"\(')
_DECLARED = re.compile(r'^declare [^\n]*@"?kd\.sqrt\.f(?:32|64)"?\([^\n]*$', re.MULTILINE)
_DEFINITION = re.compile(r"define linkonce_odr (?:float|double) @kd\.sqrt\.")


def with_declared_roots(text: str) -> str:
    """Return a module that declares square roots with attributes.

    Modules that are linked into it call the same functions, and so get these attributes.
    """
    return _DECLARED.sub("", text) + _DECLARATIONS


def count_roots(modules: Iterable[str]) -> Counter[str]:
    """Return how often modules call each of the functions."""
    return Counter(found[1] for text in modules for found in _CALL.finditer(text))


def root_definitions(names: Iterable[str]) -> list[str]:
    """Return modules that define square roots by intrinsics, which LLVM may compute anywhere."""
    found = []
    for name in sorted(ROOTS.keys() & set(names)):
        kind, intrinsic = _TYPES[name], ROOTS[name]
        found.append(f"""
declare {kind} @{intrinsic}({kind})
define linkonce_odr {kind} @{name}({kind} %a) alwaysinline {{
  %root = call {kind} @{intrinsic}({kind} %a)
  ret {kind} %root
}}
""")
    return found


def guard_roots(
    modules: Iterable[str], calls: Mapping[str, int], report: Report = ignore_remark
) -> list[str]:
    """Return definitions without those of square roots; `calls` are counts by name."""
    count = sum(calls.get(name, 0) for name in ROOTS)
    report("square root", "computed only where the kernel does", count)
    return [each for each in modules if not _DEFINITION.search(each)]


def restore_roots(module: Any) -> bool:
    """Let the calls that are left in a module be of LLVM's intrinsics.

    Return whether functions are to be inlined. That is so if the module has the intrinsics, too.
    """
    functions = {function.name: function for function in module.functions}
    is_called = False
    for name, intrinsic in ROOTS.items():
        if name not in functions:
            continue
        if intrinsic in functions:
            (definition,) = root_definitions([name])
            module.link_in(llvm.parse_assembly(definition))
            module.get_function(name).linkage = "internal"
            is_called = True
        else:
            functions[name].name = intrinsic
    return is_called
