"""Remove exchanges of a warp with results that nothing needs in the end.

LLVM keeps them, with what computes their operands. ptxas removes them, but not what takes their
lanes apart (docs/upstream.md). A result may be read by another such exchange, also in the next
iteration of a loop, and by branches that choose its operands. LLVM's aggressive dead code
elimination finds all of these, if it may remove exchanges.

An exchange orders no accesses to memory. So nothing else is lost with it.

References
----------
LLVM Language Reference, "Call Site Attributes"; Cytron et al., "Efficiently Computing Static Single
Assignment Form", ACM TOPLAS 13 (1991), section 7.1 (dead code elimination).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

from kerneldsl.lowering.numba_internals.llvm_modules import run_passes

__all__ = ["without_unused_exchanges"]

_NAMES = ("llvm.nvvm.vote.", "llvm.nvvm.match.", "llvm.nvvm.redux.", "llvm.nvvm.shfl.")
#: A call of one that has a result, up to its attributes.
_CALL = re.compile(
    r"^(\s*%\S+ = (?:tail |notail )?call .*@llvm\.nvvm\.(?:vote|match|redux|shfl)\..*\))"
    r"(?=[^)\n]*$)",
    re.M,
)
_MARK = '"kerneldsl-exchange"'
_MARKED_GROUP = re.compile(rf"^(attributes #\d+) = {{[^\n]*{_MARK}[^\n]*}}$", re.M)


def without_unused_exchanges(module: Any, machine: Any, parse: Callable[[str], Any]) -> Any:
    """Return an optimized module without them, itself if all exchanges are used.

    - `parse`: makes a module of a text.
    """
    if not any(each.name.startswith(_NAMES) for each in module.functions):
        return module
    text = str(module)
    count = len(_CALL.findall(text))
    removable = parse(_CALL.sub(rf"\1 nounwind willreturn memory(none) {_MARK}", text))
    # This pass alone sees the marks: it moves nothing.
    _run("add_aggressive_dce_pass", removable, machine)
    left = str(removable)
    if len(_CALL.findall(left)) == count:
        return module
    rest = parse(_MARKED_GROUP.sub(r"\1 = { nounwind }", left))
    _run("add_simplify_cfg_pass", rest, machine)
    return rest


def _run(add: str, module: Any, machine: Any) -> None:
    """Run one pass, which a method of a pass manager adds."""
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    manager = llvm.create_new_module_pass_manager()
    getattr(manager, add)()
    run_passes(manager, module, builder)
