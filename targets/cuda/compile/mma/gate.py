"""Refuse code of warpgroups that an assembler makes slow.

Where ptxas does not see that results stay in their registers it puts waits between instructions,
which it reports (C7508 to C7520). A thread with too few registers spills them. Such code is right,
but slower than that of other plans. A few registers that are spilled outside of the innermost loop
cost nothing: gradients of attention with 28 bytes were as fast as without.
"""

from __future__ import annotations

import logging
import re

from kerneldsl.errors import CompileError, ToolMissingError
from targets.cuda.compile.ptxas import Assembled, assemble

__all__ = ["find_problem", "problem_of"]

_log = logging.getLogger("kerneldsl.cuda.compiler")
#: Most bytes that a thread may spill.
MOST_SPILLED = 64
#: What ptxas says of ``wgmma``.
_SERIALIZED = re.compile(r"\((C75\d\d)\)")


def find_problem(ptx: str, entry_name: str, arch: str) -> str | None:
    """Assemble the code of warpgroups, and say why it would be slow; ``None`` if it is not.

    Without an assembler nothing is known against it.
    """
    try:
        assembled = assemble(ptx, arch)
    except ToolMissingError as error:
        _log.debug("%s is not assembled before it is loaded: %s", entry_name, error)
        return None
    except CompileError as error:
        return f"ptxas refuses the code: {error}"
    return problem_of(assembled, entry_name)


def problem_of(assembled: Assembled, entry_name: str) -> str | None:
    """Say why assembled code would be slow; ``None`` if it is not."""
    codes = sorted(set(_SERIALIZED.findall(assembled.log)))
    if codes:
        return f"ptxas serializes the products ({', '.join(codes)})"
    spilled = assembled.resources[entry_name].spill_bytes or 0
    return f"a thread spills {spilled} bytes" if spilled > MOST_SPILLED else None
