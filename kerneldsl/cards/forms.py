"""The forms of a kernel's compiled code in its card, joined to the source by line.

Code tells its lines where the kernel was compiled with ``lineinfo=True``: PTX by ``.loc``, the
disassembler by comments, LLVM by debug locations.

References
----------
PTX ISA 8.7, sections 11.5.3 ".file" and 11.5.4 ".loc"; LLVM Language Reference, "DILocation".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import NamedTuple

from kerneldsl.cards.code import listing
from kerneldsl.contract import Artifact
from kerneldsl.errors import KernelError
from kerneldsl.utilities.html import Html, fold

__all__ = ["CodeForm", "code_forms", "joined_lines"]

#: Form of code to its title, what Pygments calls its language, and the call that returns all of it.
_FORMS = {
    "ptx": ("PTX", "ptx", "ptx(…)"),
    "sass": ("SASS", None, 'artifact(…).text("sass")'),
    "source": ("Python that is compiled", "python", "cpu_source(…)"),
    "llvm": ("LLVM IR", "llvm", "llvm(…)"),
    "asm": ("Assembly", "gas", "asm(…)"),
}
_PTX_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_PTX_LINE = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_SASS_LINE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
_LLVM_PLACE = re.compile(r"^!(\d+) = !DILocation\(line: (\d+)", re.MULTILINE)
_LLVM_USE = re.compile(r"!dbg !(\d+)")


class CodeForm(NamedTuple):
    """Compiled code in a card.

    Parameters
    ----------
    fold : Html
        The code, folded.
    lines : frozenset of int
        Lines of the source that it is joined to.
    """

    fold: Html
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
        shown = fold(f"{title} ({where})", listing(text, language, joins=joins, whole=whole))
        yield CodeForm(shown, frozenset(joins.values()))


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
