"""Remove exchanges of a warp with results that nothing needs in the end.

LLVM keeps them, with what computes their operands. ptxas removes them, but not what takes their
lanes apart (docs/upstream.md). A result may be read by another such exchange, also in the next
iteration of a loop, and by branches that choose its operands. LLVM's aggressive dead code
elimination finds all of these, if it may remove exchanges.

A result may also reach a use only on a path that no thread takes, such as past two branches on one
condition. LLVM's jump threading finds these paths, but leaves GPUs out, since it copies blocks. So
both passes run on a copy of the module, as for a CPU. The exchanges that the copy has lost are
removed.

A result may also bound or skip a loop that has no effects, such as a sort with an unused result.
LLVM keeps such a loop if it does not know that it ends. Loops are taken to end here, as C++ does.

An exchange orders no accesses to memory. So nothing else is lost with it.

References
----------
LLVM Language Reference, "Call Site Attributes"; Cytron et al., "Efficiently Computing Static Single
Assignment Form", ACM TOPLAS 13 (1991), section 7.1 (dead code elimination).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

import llvmlite.binding as llvm

from kerneldsl.lowering.numba_internals.llvm_modules import run_named_passes

__all__ = ["without_unused_exchanges"]

_NAMES = ("llvm.nvvm.vote.", "llvm.nvvm.match.", "llvm.nvvm.redux.", "llvm.nvvm.shfl.")
#: A call of one that has a result: its name, its type, and the rest up to its attributes.
_CALL = re.compile(
    r"^(\s*%\S+ = )((?:tail |notail )?call [^@\n]*?(\S+|\{[^}@\n]*\})"
    r" @llvm\.nvvm\.(?:(?:vote|match|redux|shfl)\.|activemask).*\))(?=[^)\n]*$)",
    re.M,
)
_ATTRIBUTES = re.compile(r"^(attributes #\d+ = \{ )(?!mustprogress)", re.M)
_MARK = "kerneldsl-exchange"
_MARKED = re.compile(rf'"{_MARK}"="(\d+)"')


def without_unused_exchanges(module: Any, machine: Any, parse: Callable[[str], Any]) -> Any:
    """Return an optimized module without them, itself if all exchanges are used.

    - `parse`: makes a module of a text.
    """
    if not any(each.name.startswith(_NAMES) for each in module.functions):
        return module
    text = str(module)
    unused = _unused(text, parse)
    if not unused:
        return module
    numbers = count()

    def removed(found: re.Match[str]) -> str:
        name, call, kind = found.groups()
        return f"{name}freeze {kind} zeroinitializer ;" if next(numbers) in unused else name + call

    rest = parse(_ending(_CALL.sub(removed, text)))
    _run(rest, machine, "loop_deletion", "simplify_cfg", "aggressive_dce", "simplify_cfg")
    return rest


def _unused(text: str, parse: Callable[[str], Any]) -> set[int]:
    """Return the numbers of the calls that are not needed, in the order of a module's text."""
    numbers = count()
    marked = _CALL.sub(
        lambda found: (
            f'{found[1]}{found[2]} nounwind willreturn memory(none) "{_MARK}"="{next(numbers)}"'
        ),
        text,
    )
    copy = parse(_ending(marked))
    # None of these passes merges calls, by which a needed call could be lost.
    _run(copy, _host_machine(), "jump_threading", "loop_deletion", "aggressive_dce")
    return {*range(next(numbers))}.difference(map(int, _MARKED.findall(str(copy))))


def _ending(text: str) -> str:
    """Return a module in which loops without effects may be taken to end."""
    return _ATTRIBUTES.sub(r"\1mustprogress ", text)


@cache
def _host_machine() -> Any:
    return llvm.Target.from_default_triple().create_target_machine()


def _run(module: Any, machine: Any, *passes: str) -> None:
    """Run passes by their names as llvmlite adds them."""
    for each in passes:
        tuning = llvm.create_pipeline_tuning_options(speed_level=1)
        # A pass builder keeps what a run registers, with references to memory of that run.
        builder = llvm.create_pass_builder(machine, tuning)
        run_named_passes(module, builder, each)
