"""The forms of a kernel's compiled code in its card, joined to the source by line.

Code shows its lines where the kernel was compiled with ``lineinfo=True``: PTX by ``.loc``, the
disassembler by comments, LLVM by debug locations. Names of functions are shown without the types
that Numba encodes in them.

References
----------
PTX ISA 8.7, sections 11.5.3 ".file" and 11.5.4 ".loc"; LLVM Language Reference, "DILocation";
Itanium C++ ABI, section 5.1 "External Names (a.k.a. Mangling)".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import NamedTuple

from kerneldsl.cards.code import listing
from kerneldsl.contract import Artifact
from kerneldsl.errors import KernelError
from kerneldsl.utilities.html import Html

__all__ = ["CodeForm", "code_forms", "joined_lines", "short_names"]

#: Form of code to its title, what Pygments calls its language, and the call that returns all of it.
_FORMS = {
    "ptx": ("PTX", "ptx", "ptx(…)"),
    "sass": ("SASS", None, 'artifact(…).text("sass")'),
    "source": ("Regions that are compiled", None, "cpu_source(…)"),
    "llvm": ("LLVM IR", "llvm", "llvm(…)"),
    "asm": ("Assembly", "gas", "asm(…)"),
}
_PTX_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_PTX_LINE = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_SASS_LINE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
_LLVM_PLACE = re.compile(r"^!(\d+) = !DILocation\(line: (\d+)", re.MULTILINE)
_LLVM_USE = re.compile(r"!dbg !(\d+)")
_MANGLED = re.compile(r"_ZN?\d\w*")
#: What Numba writes for a character that a mangled name cannot have.
_ESCAPED = re.compile(r"_([0-9a-f]{2})")
#: Scope of functions that are made while the program runs; every kernel's entry is one.
_DYNAMIC = "<dynamic>"


class CodeForm(NamedTuple):
    """Compiled code in a card.

    Parameters
    ----------
    title : str
        What it is, and for which architecture.
    code : Html
        Its listing.
    lines : frozenset of int
        Lines of the source that it is joined to.
    """

    title: str
    code: Html
    lines: frozenset[int]


def code_forms(target: str, artifact: Artifact, filename: str) -> Iterator[CodeForm]:
    """Yield the forms of compiled code that the target has."""
    for form in artifact.forms_at_hand():
        try:
            text = artifact.text(form)
        except KernelError:  # a tool is missing, or does not know the architecture
            continue
        title, language, call = _FORMS.get(form, (form, None, f"artifact(…).text({form!r})"))
        joins = joined_lines(form, text, filename)
        where = f"{target} {artifact.arch}" if artifact.arch else target
        whole = f"kernel.{call} returns all of it."
        code = listing(short_names(text), language, joins=joins, whole=whole)
        yield CodeForm(f"{title} ({where})", code, frozenset(joins.values()))


def short_names(text: str) -> str:
    """Return code with the names of functions in place of their mangled forms.

    Examples
    --------
    >>> short_names("call @_ZN13_3cdynamic_3e4axpyB2v1B6c8tJTA_3dEf5ArrayIfLi1E1CE.entry(ptr %x)")
    'call @axpy.entry(ptr %x)'
    """
    return _MANGLED.sub(lambda found: _short_name(found[0]), text)


def _short_name(mangled: str) -> str:
    """Return the scopes and the name that a mangled name begins with, joined by dots."""
    rest, parts = mangled.removeprefix("_Z").removeprefix("N"), []
    while length := re.match(r"\d+", rest):
        end = length.end() + int(length[0])
        parts.append(_ESCAPED.sub(lambda code: chr(int(code[1], 16)), rest[length.end() : end]))
        rest = rest[end:]
    return ".".join(part for part in parts if part != _DYNAMIC) or mangled


def joined_lines(form: str, text: str, filename: str) -> dict[int, int]:
    """Return the line of the source of each line of code that says it.

    Parameters
    ----------
    form : str
        ``"ptx"``, ``"sass"`` or ``"llvm"``; others say nothing.
    text : str
        The code.
    filename : str
        The file of the source; lines of others are left out.

    Examples
    --------
    >>> joined_lines("ptx", '.file 1 "/a/b.py"\\n.loc 1 7 0\\nadd\\n.loc 2 9 0\\nret', "b.py")
    {3: 7}
    """
    finder = {"ptx": _of_ptx, "sass": _of_sass, "llvm": _of_llvm}.get(form)
    return {} if finder is None else dict(finder(text, PurePath(filename).name))


def _of_ptx(text: str, name: str) -> Iterator[tuple[int, int]]:
    files = {n for n, path in _PTX_FILE.findall(text) if PurePath(path).name == name}
    line = None
    for number, row in enumerate(text.split("\n"), 1):
        found = _PTX_LINE.match(row)
        if found is not None:
            line = int(found[2]) or None if found[1] in files else None  # 0 is none
        elif line is not None and row.strip() and not row.lstrip().startswith(("//", ".", "}")):
            yield number, line


def _of_sass(text: str, name: str) -> Iterator[tuple[int, int]]:
    line = None
    for number, row in enumerate(text.split("\n"), 1):
        found = _SASS_LINE.match(row)
        if found is not None:
            line = int(found[2]) if PurePath(found[1]).name == name else None
        elif line is not None and row.lstrip().startswith("/*"):
            yield number, line


def _of_llvm(text: str, name: str) -> Iterator[tuple[int, int]]:
    if f'filename: "{name}"' not in text:
        return
    places = dict(_LLVM_PLACE.findall(text))
    for number, row in enumerate(text.split("\n"), 1):
        found = _LLVM_USE.search(row)
        if found is not None and int(places.get(found[1], 0)):
            yield number, int(places[found[1]])
