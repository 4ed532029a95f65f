"""Place and names of parameters of a kernel with its own code, as its source says them.

It is read when such a kernel is made, before anything of a launch is imported.
"""

from __future__ import annotations

import re

from kerneldsl.contract.device_code import DeviceCode
from kerneldsl.frontend.code_form import CodeForm

__all__ = ["parameters_in_text", "place_of_entry"]

#: The end of a declaration: ``x``, ``x[]``, ``x[3] = {}``.
_PARAMETER = re.compile(r"\b([A-Za-z_]\w*)\s*(?:\[[^][]*\]\s*)*(?:=.*)?$", re.DOTALL)


def place_of_entry(code: DeviceCode) -> tuple[int, int]:
    """Return the line of a kernel in its source, from 1, and the column of its name, from 0."""
    if code.module.is_text:
        name = re.escape(code.entry.partition("<")[0].rpartition("::")[2].strip())
        for number, line in enumerate(code.module.text.splitlines(), 1):
            found = re.search(rf"\b{name}\s*\(", line)
            if found is not None:
                return number, found.start()
    return 1, 0


def parameters_in_text(code: DeviceCode) -> tuple[str, ...]:
    """Return the names of a kernel's parameters, if its source is simple enough to read them."""
    if code.module.form is not CodeForm.CUDA:
        return ()
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", code.module.text, flags=re.DOTALL)
    name = re.escape(code.entry.partition("<")[0].rpartition("::")[2].strip())
    found = re.findall(rf"\b{name}\s*\(([^()]*)\)\s*\{{", text)
    if len(found) != 1:  # another function of the name may have its parameters in another order
        return ()
    names = [_PARAMETER.search(each) for each in found[0].split(",")]
    return tuple(match[1] for match in names if match is not None)
