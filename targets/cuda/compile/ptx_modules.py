"""PTX of several modules as one: functions of one are called from another, in one assembly.

A linker gives separately assembled modules calls by the calling convention of the hardware. Here
ptxas sees caller and function together, and allots registers for both.

References
----------
PTX ISA, sections "PTX Module Directives", "Kernel Entry and Function Directives" and "Linking
Directives".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Function", "PtxModule", "PtxModuleError", "join_modules", "parse_module"]

_VERSION = re.compile(r"\.version\s+(\d+)\.(\d+)")
_TARGET = re.compile(r"\.target\s+([\w, ]+)")
_ADDRESS_SIZE = re.compile(r"\.address_size\s+(\d+)")
#: Comments, texts, and characters that end or nest a statement.
_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|[{};]', re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = r"[A-Za-z_$%][\w$%]*"
#: A name that is no part of an instruction's.
_NAMED = re.compile(rf"(?<![\w$%.]){_NAME}")
_RESULT = _PARAMETERS = r"(?:\([^)]*\)\s*)?"
#: The head of a function: its linkage, its result in parentheses, its name, its parameters.
_FUNCTION = re.compile(
    rf"^\s*(?P<linkage>(?:\.(?:extern|visible|weak)\s+)*)\.func\s*(?:\((?P<result>[^)]*)\))?\s*"
    rf"(?P<name>{_NAME})\s*(?:\((?P<parameters>[^)]*)\))?",
)
_ENTRY = re.compile(rf"^\s*(?:\.(?:extern|visible|weak)\s+)*\.entry\s+({_NAME})")
#: A variable of a module, or an alias of a function.
_VARIABLE = re.compile(
    rf"^\s*(?P<linkage>\.extern\s+)?(?:\.(?:visible|weak|common)\s+)?"
    rf"\.(?:global|const|shared|tex)\b[^;={{]*?(?P<name>{_NAME})\s*(?:\[[^;={{]*)?(?:$|=|;)",
    re.DOTALL,
)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.(?P<kind>[a-z]+)(?P<bits>\d+)(?:\s+\.ptr\b[^,]*?)?\s+"
    rf"{_NAME}\s*(?P<extent>\[\d+\])?\s*$"
)
_LINKAGE = re.compile(r"\.(?:extern|visible|weak)\s+(?=\.func\b)")
#: Directives for debuggers, which end with their line; files have numbers of their module.
_LINES = re.compile(r"^[ \t]*(?:\.file|\.loc|@@DWARF)\b[^\n]*$", re.MULTILINE)
#: Names of functions that the driver provides.
_SYSTEM = frozenset({"vprintf", "malloc", "free", "__assertfail"})


class PtxModuleError(Exception):
    """PTX cannot be read as a module, or two do not fit together."""


@dataclass(frozen=True)
class Function:
    """The head of a function of a module.

    A width is in bits; ``None`` is that of a structure, or of a register.
    """

    name: str
    results: tuple[int | None, ...]
    parameters: tuple[int | None, ...]
    #: Whether the function is declared here and defined elsewhere.
    is_extern: bool


@dataclass(frozen=True)
class PtxModule:
    """A module as its statements."""

    version: tuple[int, int]
    target: str
    statements: tuple[str, ...]

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """The functions that are defined, by their names."""
        heads = (_function_of(each) for each in self.statements if each.rstrip().endswith("}"))
        return {head.name: head for head in heads if head is not None}

    @cached_property
    def entries(self) -> tuple[str, ...]:
        """Names of kernels."""
        return tuple(found[1] for each in self.statements if (found := _ENTRY.match(each)))

    @cached_property
    def definitions(self) -> Mapping[str, str]:
        """The statements that define functions and variables, by their names."""
        found: dict[str, str] = {}
        for each in self.statements:
            head = _function_of(each)
            if head is not None and each.rstrip().endswith("}"):
                found[head.name] = each
            variable = _VARIABLE.match(_code_of(each))
            if variable is not None and not variable["linkage"]:
                found[variable["name"]] = each
        return found

    def called(self) -> Iterator[str]:
        """Return the functions that are declared here, and defined elsewhere."""
        for each in self.statements:
            head = _function_of(each)
            if head is not None and head.is_extern and head.name not in _SYSTEM:
                yield head.name


def parse_module(text: str) -> PtxModule:
    """Read a module.

    Raises `PtxModuleError` if it has no header, or is cut off.
    """
    heads = (_VERSION.search(text), _TARGET.search(text), _ADDRESS_SIZE.search(text))
    version, target, size = heads
    if version is None or target is None:
        raise PtxModuleError("it has no .version and .target")
    if size is None or size[1] != "64":
        raise PtxModuleError("its addresses do not have 64 bits (.address_size 64)")
    start = max(found.end() for found in heads if found is not None)
    return PtxModule(
        (int(version[1]), int(version[2])),
        target[1].split(",")[0].strip(),
        tuple(_statements(_LINES.sub("", text[start:]))),
    )


def _statements(text: str) -> Iterator[str]:
    """Divide what follows the header: each statement ends in a semicolon or a brace."""
    begin = depth = 0
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "{":
                depth += 1
            case "}":
                depth -= 1
                # Braces around the values of a variable are followed by its semicolon.
                is_body = depth == 0 and _is_body(text[begin : token.start()])
                if depth < 0:
                    raise PtxModuleError("it has a brace that nothing opens")
                if is_body:
                    yield text[begin : token.end()]
                    begin = token.end()
            case ";" if depth == 0:
                yield text[begin : token.end()]
                begin = token.end()
    if depth or _code_of(text[begin:]).strip():
        raise PtxModuleError("it ends in the middle of a statement")


def _is_body(text: str) -> bool:
    code = _code_of(text).lstrip()
    return "{" in code and re.match(r"[^{]*\.(?:func|entry|section)\b", code) is not None


def _code_of(text: str) -> str:
    return _COMMENT.sub("", text)


def _function_of(statement: str) -> Function | None:
    found = _FUNCTION.match(_code_of(statement))
    if found is None:
        return None
    return Function(
        found["name"],
        _widths(found["result"]),
        _widths(found["parameters"]),
        ".extern" in found["linkage"],
    )


def _widths(parameters: str | None) -> tuple[int | None, ...]:
    return tuple(_bits(each) for each in (parameters or "").split(",") if each.strip())


def _bits(parameter: str) -> int | None:
    found = _PARAMETER.search(parameter.strip())
    return None if found is None or found["extent"] else int(found["bits"])


def join_modules(kernel: str, linked: Mapping[str, PtxModule], called: Iterable[str]) -> str:
    """Return the PTX of a kernel with what some modules define.

    - `kernel`: a module that calls functions of the others.
    - `linked`: the other modules, by their names in messages. Kernels in them are left out, and so
      is information for debuggers.
    - `called`: the functions of `linked` that `kernel` declares. What it does not use is left out.
    - raises `PtxModuleError` where a name is defined twice, or a function is called that nothing
      defines.
    """
    module = parse_module(kernel)
    owners = dict.fromkeys(module.definitions, "the kernel")
    for name, other in linked.items():
        for defined in other.definitions:
            if defined in owners:
                raise PtxModuleError(f"{defined} is defined in {owners[defined]} and in {name}")
            owners[defined] = name
    missing = [
        (name, symbol)
        for name, other in linked.items()
        for symbol in other.called()
        if symbol not in owners
    ]
    if missing:
        name, symbol = missing[0]
        raise PtxModuleError(f"{name} calls {symbol}, which is not defined")
    major, minor = max(module.version, *(other.version for other in linked.values()))
    for name in called:
        kernel = re.sub(
            rf"\.extern\s+\.func\s*{_RESULT}{re.escape(name)}\s*{_PARAMETERS};", "", kernel
        )
    head, size, rest = kernel.partition(".address_size 64\n")
    head = _VERSION.sub(f".version {major}.{minor}", head, count=1)
    used = _used(rest, linked.values())
    # A function that one module calls of another is declared before both, and once.
    declared = dict(_declared(linked.values(), owners, used))
    parts = [f"\n// {name}{_joined(other, owners, used)}\n" for name, other in linked.items()]
    return "".join([head, size, *declared.values(), *parts, rest])


def _used(kernel: str, modules: Collection[PtxModule]) -> set[str]:
    """Return the names that a kernel uses of other modules, itself or by what it uses."""
    definitions = {name: text for module in modules for name, text in module.definitions.items()}
    used: set[str] = set()
    texts = [kernel]
    while texts:
        named = set(_NAMED.findall(_code_of(texts.pop()))) & definitions.keys()
        texts += [definitions[name] for name in named - used]
        used |= named
    return used


def _declared(
    modules: Collection[PtxModule], owners: Mapping[str, str], used: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the functions that one module calls of another, with their declarations."""
    for module in modules:
        for each in module.statements:
            head = _function_of(each)
            if head is not None and head.is_extern and head.name in owners and head.name in used:
                yield head.name, _LINKAGE.sub("", each, count=1)


def _joined(module: PtxModule, owners: Mapping[str, str], used: Collection[str]) -> str:
    """Return the statements of a module that a kernel is joined with."""
    unused = {text for name, text in module.definitions.items() if name not in used}
    kept = []
    for each in module.statements:
        if each in unused:
            continue
        code = _code_of(each).strip()
        if _ENTRY.match(code) or code.startswith(".section"):
            continue
        head = _function_of(each)
        if head is not None and head.is_extern and head.name in owners:
            continue
        if head is not None and not head.is_extern:
            # A function of this module alone: the assembler leaves out what nothing calls.
            each = _LINKAGE.sub("", each, count=1)
        kept.append(each)
    return "".join(kept)
