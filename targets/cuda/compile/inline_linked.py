"""Linked functions in the place of their calls: ptxas clones functions, and inlines none.

LLVM writes a call as a block in braces, which stores the arguments, calls, and loads the result. It
becomes a block with the function's instructions, in which registers take the place of parameters.

References
----------
PTX ISA, sections "Device Function Parameters", "Parameter State Space" and "Identifiers".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kerneldsl.contract import Report
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["inline_linked"]

#: Lines of a function that is inlined wherever it is called.
_MAX_LINES = 400

_NAME = r"[A-Za-z_$%][\w$%]*"
_CALL = re.compile(r"^\t\{ // callseq .*?^\t\} // callseq [^\n]*\n", re.MULTILINE | re.DOTALL)
_ARGUMENT = re.compile(r"st\.param\.b(\d+)\s+\[param(\d+)\],\s*([^;]+);")
_CALLED = re.compile(rf"call(?:\.uni)?\s+(?:\(retval0\),\s*)?({_NAME})(?:,\s*\([\w, ]*\))?;")
_RESULT = re.compile(r"ld\.param\.b(\d+)\s+([^,]+),\s*\[retval0\];")
#: Names that LLVM declares for a call.
_OF_CALL = re.compile(r"\b(?:param\d+|retval\d+)\b")
_DECLARED = re.compile(r"\.param\s+\.b\d+\s+(?:param\d+|retval0);")

_HEAD = re.compile(
    rf"\.func\s*(?:\((?P<result>[^)]*)\))?\s*{_NAME}\s*(?:\((?P<parameters>[^)]*)\))?\s*\{{(?P<body>.*)\}}\s*$",
    re.DOTALL,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PARAMETER = re.compile(rf"\.param\s+\.[a-z]+(\d+)\s+({_NAME})\s*$")
_REGISTERS = re.compile(r"\.reg\s+\.([a-z]+)(\d*)\s+([^;]+);")
_LOAD = re.compile(rf"ld\.param\.([bfsu])(\d+)\s+({_NAME}),\s*\[({_NAME})(?:\+0)?\];")
_STORE = re.compile(rf"st\.param\.[bfsu](\d+)\s+\[({_NAME})(?:\+0)?\],\s*([^;]+);")
_RETURN = re.compile(r"\bret(?:\.uni)?\s*;")
#: Directives that belong to a function: its stack, and tables of jumps.
_KEPT = re.compile(r"\.local\b|\.branchtargets\b|\.callprototype\b|\.calltargets\b|\balloca\b")
_LABEL = re.compile(r"^\s*([A-Za-z_$][\w$]*):", re.MULTILINE)
_END = "kd_end"
#: Registers of LLVM's, and their bits.
_KERNEL_REGISTER = re.compile(r"%(r|rd|rs)\d+")
_KERNEL_WIDTHS = {"rs": 16, "r": 32, "rd": 64}


@dataclass(frozen=True)
class _Body:
    """The instructions of a function, with registers for its parameters and its result."""

    #: Bits of the parameters, and of the result.
    parameters: tuple[int, ...]
    result: int | None
    text: str
    has_returns: bool
    #: Labels of the function.
    labels: tuple[str, ...]


class _NotInlinedError(Exception):
    """A function, or a call of it, has something that stays."""


def inline_linked(ptx: str, functions: Mapping[str, str], report: Report) -> str:
    """Write linked functions in the place of their calls.

    - `ptx`: the module of a kernel.
    - `functions`: the definitions of linked functions, by their names.
    - `report`: counts calls.
    """
    bodies: dict[str, _Body] = {}
    for name, text in functions.items():
        try:
            bodies[name] = _read_function(name, text)
        except _NotInlinedError:
            continue
    made = missed = 0

    def replace(found: re.Match[str]) -> str:
        nonlocal made, missed
        called = _CALLED.search(found[0])
        if called is None or called[1] not in functions:
            return found[0]
        try:
            written = _write_call(found[0], bodies[called[1]], called[1], made)
        except (KeyError, _NotInlinedError):
            missed += 1
            return found[0]
        made += 1
        return written

    ptx = _CALL.sub(replace, ptx)
    report("call", "inlined", made)
    report("call", "not inlined", missed, is_missed=True)
    return ptx


def _read_function(name: str, text: str) -> _Body:
    head = _HEAD.search(_COMMENT.sub("", text))
    if head is None or _KEPT.search(head["body"]) or head["body"].count("\n") > _MAX_LINES:
        raise _NotInlinedError
    parameters = [_parameter(each) for each in _split(head["parameters"])]
    results = [_parameter(each) for each in _split(head["result"])]
    body, widths = _rename_registers(head["body"], name)
    names = {each: f"%kd_argument{number}" for number, (each, _) in enumerate(parameters)}
    bits = dict(parameters)

    def load(found: re.Match[str]) -> str:
        kind, count, target, source = found[1], int(found[2]), found[3], found[4]
        if source not in bits:
            return found[0]  # the result of another call
        width = widths.find(target)
        if width is None:
            raise _NotInlinedError
        return _loaded(kind, count, target, width, names[source], bits[source])

    def store(found: re.Match[str]) -> str:
        count, target, value = int(found[1]), found[2], found[3]
        if not results or target != results[0][0]:
            return found[0]  # an argument of another call
        width = widths.find(value)
        if width is None and re.match(r"[%$_A-Za-z]", value):
            raise _NotInlinedError
        return _stored(count, "%kd_result", results[0][1], value, width)

    body = _STORE.sub(store, _LOAD.sub(load, body))
    if any(re.search(rf"(?<![\w$%]){re.escape(each)}(?![\w$%])", body) for each in names):
        raise _NotInlinedError  # the address of a parameter is taken
    body, has_returns = _without_returns(body)
    result = results[0][1] if results else None
    labels = tuple(_LABEL.findall(body))
    return _Body(tuple(bits.values()), result, body, has_returns, labels)


def _split(parameters: str | None) -> list[str]:
    return [each.strip() for each in (parameters or "").split(",") if each.strip()]


def _parameter(text: str) -> tuple[str, int]:
    found = _PARAMETER.search(text)
    if found is None or int(found[1]) < 32:
        raise _NotInlinedError
    return found[2], int(found[1])


class _Widths:
    """Bits of registers by their names; numbers follow the name of a family such as ``%r<6>``."""

    def __init__(self) -> None:
        self._bits: dict[str, int] = {}

    def add(self, name: str, bits: int) -> None:
        self._bits[name] = bits

    def find(self, register: str) -> int | None:
        """Return the bits of a register; ``None`` of a number."""
        family = f"{register.rstrip('0123456789')}<"
        return self._bits.get(register, self._bits.get(family))


def _rename_registers(body: str, function: str) -> tuple[str, _Widths]:
    """Give registers other names than those of the kernel."""
    widths = _Widths()
    renamed: dict[str, str] = {}
    for found in _REGISTERS.finditer(body):
        bits = int(found[2] or 1)
        for each in found[3].split(","):
            name, family, _ = each.strip().partition("<")
            mark = "%" if name.startswith("%") else ""
            new = f"{mark}{function}_{name.removeprefix('%')}"
            renamed[name + family] = new
            widths.add(new + family, bits)

    def rename(found: re.Match[str]) -> str:
        name = found[0]
        plain = name.rstrip("0123456789")
        if name in renamed:
            return renamed[name]
        if f"{plain}<" in renamed and (plain != name or body[found.end() : found.end() + 1] == "<"):
            return renamed[f"{plain}<"] + name[len(plain) :]
        return name

    return re.sub(rf"(?<![\w$%.]){_NAME}", rename, body), widths


def _loaded(kind: str, count: int, target: str, width: int, source: str, bits: int) -> str:
    """Write a load of `count` bits of a parameter, as a move from its register."""
    if count > bits or count > width or width < 16:
        raise _NotInlinedError
    if count == bits == width:
        return f"mov.b{bits} \t{target}, {source};"
    sign = "s" if kind == "s" else "u"
    return f"cvt.{sign}{width}.{sign}{count} \t{target}, {source};"


def _stored(count: int, target: str, bits: int, value: str, width: int | None) -> str:
    """Write a store of `count` bits to a parameter; bits above a narrow integer do not matter.

    `width` is that of a register, and ``None`` of a number.
    """
    if count > bits or (width is not None and width < 16):
        raise _NotInlinedError
    if width in (None, bits):
        return f"mov.b{bits} \t{target}, {value};"
    return f"cvt.u{bits}.u{width} \t{target}, {value};"


def _width_in_kernel(register: str) -> int | None:
    """Return the bits of a register, which LLVM names by them; ``None`` of a number."""
    if not register.startswith("%"):
        return None
    found = _KERNEL_REGISTER.fullmatch(register)
    if found is None:
        raise _NotInlinedError
    return _KERNEL_WIDTHS[found[1]]


def _without_returns(body: str) -> tuple[str, bool]:
    """Let returns jump to the end; one that is the last instruction is left out."""
    body = re.sub(r"(?<=[;}\n\t :])ret(?:\.uni)?\s*;\s*$", "", body)
    if not body.strip().endswith(("}", ";", ":")) and body.strip():
        raise _NotInlinedError
    text, count = _RETURN.subn(f"bra {_END};", body)
    return text, count > 0


def _write_call(block: str, body: _Body, name: str, number_of_call: int) -> str:
    """Return a call's block with the instructions of the function; labels are numbered by calls."""
    text_of_body = body.text
    for label in (*body.labels, _END):
        pattern = rf"(?<![\w$%.]){re.escape(label)}(?![\w$])"
        text_of_body = re.sub(pattern, f"{label}_{number_of_call}", text_of_body)
    lines = [f"{{ // {name}"]
    lines += [f".reg .b{bits} \t%kd_argument{i};" for i, bits in enumerate(body.parameters)]
    if body.result is not None:
        lines.append(f".reg .b{body.result} \t%kd_result;")
    given: list[int] = []
    for line in block.splitlines()[1:-1]:
        text = line.strip()
        if found := _ARGUMENT.fullmatch(text):
            count, number, value = int(found[1]), int(found[2]), found[3]
            given.append(number)
            if number >= len(body.parameters):
                raise _NotInlinedError
            bits, width = body.parameters[number], _width_in_kernel(value)
            lines.append(_stored(count, f"%kd_argument{number}", bits, value, width))
        elif found := _RESULT.fullmatch(text):
            count, target = int(found[1]), found[2]
            width = _width_in_kernel(target)
            if body.result is None or width is None:
                raise _NotInlinedError
            lines.append(_loaded("u", count, target, width, "%kd_result", body.result))
        elif _CALLED.fullmatch(text):
            lines += ["{", text_of_body.strip("\n"), "}"]
            if body.has_returns:
                lines.append(f"{_END}_{number_of_call}:")
        elif not _DECLARED.fullmatch(text):
            if _OF_CALL.search(text):
                raise _NotInlinedError
            lines.append(text)  # a conversion of an argument, or of the result
    if sorted(given) != list(range(len(body.parameters))):
        raise _NotInlinedError
    lines.append("}")
    return "".join(
        f"{line}\n" if line.startswith(("\t", "$", _END)) else f"\t{line}\n" for line in lines
    )
