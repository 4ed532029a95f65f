"""Calls of inlined functions, in the lines of PTX.

LLVM writes the line of a function that is inlined, and not the one of its call. Profilers show both
if PTX has them. :mod:`kerneldsl.lowering.numba_internals.debug_info` gives each such call a column,
by which its lines are found here.

References
----------
PTX ISA, section "Debugging Directives: .loc".
"""

from __future__ import annotations

import re

from targets.cuda.architectures import PtxVersion

__all__ = ["with_calls"]

#: The first version in which a line may have the one of a call.
_SINCE = (7, 2)
_LINE = re.compile(r"^\t\.loc\t(\d+) (\d+) (\d+)$", re.M)
_FILE = re.compile(r'^\t\.file\t(\d+) "(.*)"$', re.M)
_NODE = re.compile(r"^!(\d+) = (?:distinct )?!DI(Location|Subprogram|File)\((.*)\)$", re.M)
_FIELD = re.compile(r'(\w+): (?:!(\d+)|(\d+)|"([^"]*)")')


def with_calls(ptx: str, llvm: str, version: PtxVersion) -> str:
    """Return PTX in which lines of inlined functions have those of their calls.

    - `llvm`: the module that it was written from.
    """
    if version < _SINCE or "inlinedAt" not in llvm:
        return ptx
    nodes = {number: dict(_fields(text)) for number, _, text in _NODE.findall(llvm)}
    files = {path: number for number, path in _FILE.findall(ptx)}
    texts = _Lines(nodes, files)
    ptx = _LINE.sub(texts.written, ptx)
    return ptx + texts.names()


def _fields(text: str) -> list[tuple[str, str]]:
    return [(name, node or number or word) for name, node, number, word in _FIELD.findall(text)]


class _Lines:
    """Writes lines; `nodes` are those of LLVM, and `files` the numbers of paths."""

    def __init__(self, nodes: dict[str, dict[str, str]], files: dict[str, str]) -> None:
        self._nodes, self._files = nodes, files
        self._labels: dict[str, str] = {}
        self._before: set[str] = set()
        inlined = (each for each in nodes.values() if "inlinedAt" in each and self._is_known(each))
        #: Inlined nodes by the place of their line; only lines with a column have one.
        self._inlined = {self._place(each): each for each in inlined}

    def written(self, found: re.Match[str]) -> str:
        node = self._inlined.get(found[0].strip())
        return found[0] if node is None else self._with_call(node)

    def _with_call(self, node: dict[str, str]) -> str:
        call = self._nodes[node["inlinedAt"]]
        line = f"\t{self._place(call)}" if "inlinedAt" not in call else self._with_call(call)
        # A place must be there before what is inlined at it.
        first = "" if line in self._before else f"{line}\n"
        self._before.add(line)
        name = self._nodes[node["scope"]]["name"]
        label = self._labels.setdefault(name, f"$L__info_string{len(self._labels)}")
        place = self._place(call).removeprefix(".loc\t")
        return f"{first}\t{self._place(node)}, function_name {label}, inlined_at {place}"

    def _is_known(self, node: dict[str, str]) -> bool:
        """Return whether PTX has the files of a place and of the calls around it."""
        call = node.get("inlinedAt")
        return self._path(node) in self._files and (
            call is None or self._is_known(self._nodes[call])
        )

    def _path(self, node: dict[str, str]) -> str:
        file = self._nodes[self._nodes[node["scope"]]["file"]]
        return f"{file.get('directory')}/{file['filename']}"

    def _place(self, node: dict[str, str]) -> str:
        return f".loc\t{self._files[self._path(node)]} {node['line']} {node.get('column', '0')}"

    def names(self) -> str:
        """Return the section with the names of functions that lines have."""
        if not self._labels:
            return ""
        lines = ["\t.section\t.debug_str", "\t{"]
        for name, label in self._labels.items():
            lines += [f"{label}:", *(f".b8 {byte}" for byte in (*name.encode(), 0))]
        return "\n".join([*lines, "\t}", ""])
