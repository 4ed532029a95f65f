"""Reads the kernels of PTX that others wrote, with their parameters.

References
----------
PTX ISA, sections "Kernel and Function Directives" and "Kernel Function Parameter Attributes".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kerneldsl.errors import DeviceCodeError
from targets.cuda.compile.cubin_file import DeclaredParameter, Entry
from targets.cuda.compile.ptx_text import read_header

__all__ = ["read_ptx"]

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$%]+)\s*(?:\(([^)]*)\))?")
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.([bfsu])(\d+)\s+(?:\.ptr(?:\s+\.\w+)*(?:\s+\d+)?\s+)?"
    r"[\w$%]+(?:\[(\d+)\])?\s*$"
)


#: Letters of types to whether a value is a float; bits may be anything.
_IS_FLOAT = {"f": True, "s": False, "u": False, "b": None}


def read_ptx(text: str, name: str) -> Mapping[str, Entry]:
    """Read the kernels of PTX.

    Parameters
    ----------
    text : str
        The PTX.
    name : str
        Its name, for messages.

    Raises
    ------
    DeviceCodeError
        If it is not PTX, or declares a parameter in another way than the PTX ISA.

    Examples
    --------
    >>> head = ".version 8.0\\n.target sm_80\\n"
    >>> text = ".entry f(.param .u64 x, .param .align 4 .b8 s[12]) {}"
    >>> read_ptx(head + text, "f.ptx")["f"].parameters[1]
    DeclaredParameter(offset=8, nbytes=12, is_float=None)
    """
    plain = _COMMENT.sub(" ", text)
    if read_header(plain) is None:
        raise DeviceCodeError(
            f"{name} is not PTX",
            value=text[:80],
            limit="PTX begins with .version and .target (PTX ISA, PTX Module Directives)",
            remedy="Pass the PTX of nvcc -ptx, or of kernel.ptx()",
        )
    *_, last = plain.split(".entry")
    if ".entry" in plain and (plain.count("{") > plain.count("}") or "{" not in last):
        raise DeviceCodeError(
            f"{name} is not whole: its last function has no end",
            value=last[:80],
            limit=f"It has {len(text)} characters, and each function of PTX ends with a brace",
            remedy="Write it again, as by nvcc -ptx or kernel.ptx()",
        )
    found = {
        match[1]: Entry(_parameters(match[2] or "", match[1], name))
        for match in _ENTRY.finditer(plain)
    }
    if not found:
        raise DeviceCodeError(
            f"{name} has no kernel",
            value=text[:80],
            limit="A kernel of PTX is an .entry",
            remedy="Compile a __global__ function",
        )
    return found


def _parameters(text: str, entry: str, name: str) -> tuple[DeclaredParameter, ...]:
    found: list[DeclaredParameter] = []
    end = 0
    for each in text.split(",") if text.strip() else ():
        match = _PARAMETER.match(each.strip())
        if match is None:
            raise DeviceCodeError(
                f"{entry} of {name} declares the parameter {each.strip()!r}",
                value=each,
                limit="A parameter is .param, a type and a name (PTX ISA, Kernel Function "
                "Parameters)",
            )
        item = int(match[3]) // 8
        align = int(match[1] or item)
        offset = -(-end // align) * align
        nbytes = item * int(match[4] or 1)
        found.append(DeclaredParameter(offset, nbytes, _IS_FLOAT[match[2]]))
        end = offset + found[-1].nbytes
    return tuple(found)
