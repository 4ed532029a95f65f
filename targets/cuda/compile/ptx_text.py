"""Reading of the PTX that LLVM writes, and its numbers of calls.

References
----------
PTX ISA, section "PTX Module Directives".
"""

from __future__ import annotations

import re

__all__ = [
    "MATRIX_SHARED",
    "count_anew",
    "matrix_shared_bytes",
    "read_header",
    "reveal_copies",
    "shared_bytes",
]

_HEADER = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)\s+\.target\s+(\w+)", re.MULTILINE)
#: LLVM counts calls, and Numba functions, since the process began.
_CALL = re.compile(r"(?<=// callseq )(\d+)|(?<=\bprototype_)(\d+)")
_VERSION = re.compile(r"(?<=B)\d+v(\d+)(?=B)")
#: An array in shared memory whose size is known: its alignment, bits of an element and extent.
_SHARED = re.compile(r"\.shared\s+\.align\s+(\d+)\s+\.b(\d+)\s+[\w$]+(?:\[(\d+)\])?;")


#: The dynamic shared memory of products, with its size in bytes after it.
MATRIX_SHARED = "kd_matrix_shared_"
_MATRIX_SHARED = re.compile(rf"\.shared\s+\.align\s+\d+\s+\.b8\s+{MATRIX_SHARED}(\d+)\[\]")

#: A copy that LLVM could not look into.
_HIDDEN_COPY = re.compile(
    r"\t// begin inline asm\n\s*mov\.b64 (%rd\d+, (?:%rd\d+|0));\n\t// end inline asm\n"
)


def shared_bytes(ptx: str) -> int:
    """Return how many bytes of static shared memory PTX declares.

    Examples
    --------
    >>> shared_bytes(".shared .align 16 .b8 a[20]; .shared .align 16 .b8 b[4];")
    36
    """
    total = 0
    for align, bits, extent in _SHARED.findall(ptx):
        total = -(-total // int(align)) * int(align) + int(bits) // 8 * int(extent or 1)
    return total


def matrix_shared_bytes(ptx: str) -> int:
    """Return how many bytes of dynamic shared memory a kernel needs for the factors of products.

    Examples
    --------
    >>> matrix_shared_bytes(".extern .shared .align 1024 .b8 kd_matrix_shared_66560[];")
    66560
    """
    found = _MATRIX_SHARED.search(ptx)
    return int(found[1]) if found is not None else 0


def read_header(ptx: str) -> tuple[tuple[int, int], str] | None:
    """Return a module's version of PTX and its target; ``None`` where they are not there.

    Examples
    --------
    >>> read_header(".version 8.4\\n.target sm_90a\\n")
    ((8, 4), 'sm_90a')
    """
    found = _HEADER.search(ptx)
    return ((int(found[1]), int(found[2])), found[3]) if found is not None else None


def count_anew(text: str) -> str:
    """Count calls and functions from 0, so that a kernel's PTX and LLVM IR are always the same."""
    return _renumber(_VERSION, _renumber(_CALL, text))


def reveal_copies(ptx: str) -> str:
    """Return PTX with copies that were inline assembly as instructions, which passes understand.

    Examples
    --------
    >>> hidden = "\\t// begin inline asm\\n\\tmov.b64 %rd1, %rd2;\\n\\t// end inline asm\\n"
    >>> reveal_copies(hidden)
    '\\tmov.b64 \\t%rd1, %rd2;\\n'
    """
    return _HIDDEN_COPY.sub(r"\tmov.b64 \t\1;\n", ptx)


def _renumber(counter: re.Pattern[str], text: str) -> str:
    numbers: dict[str, str] = {}
    return counter.sub(lambda found: numbers.setdefault(found[0], str(len(numbers))), text)
