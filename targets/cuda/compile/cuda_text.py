"""A source of CUDA C++: its text, its name, and its place in the user's files."""

from __future__ import annotations

import linecache
import os
from dataclasses import replace

from kerneldsl.errors import SourceLocation
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["CudaText"]

#: A file can be in no such folder, so that a text has no headers beside it.
_NO_FOLDER = "/dev/null"


@dataclass(frozen=True, slots=True)
class CudaText:
    """A source of CUDA C++.

    Parameters
    ----------
    text : str
        The source.
    name : str
        Its name in messages: an absolute path, or a name such as ``<saxpy>`` of a text that is in
        no file.
    written_in : str
        The file of Python that has the text, if it is known.
    """

    text: str
    name: str
    written_in: str = ""

    @property
    def folder(self) -> str | None:
        """The folder of headers beside the source; ``None`` for a text that is in no file."""
        return None if self.name.startswith("<") else os.path.dirname(self.name)

    @property
    def unique_name(self) -> str:
        """The name that NVRTC is given, in which a text has a folder that does not exist."""
        return f"{_NO_FOLDER}/{self.name}" if self.folder is None else self.name

    def locate(self, where: SourceLocation) -> SourceLocation:
        """Return the place in the user's file of a place in this source.

        That is a line of the Python file if the text is written there once, as it is. A text that
        is not found there gets its lines by its own name.
        """
        if where.filename != self.name or self.folder is not None:
            return where
        file = "".join(linecache.getlines(self.written_in)) if self.written_in else ""
        if file.count(self.text) != 1:
            lines = self.text.splitlines(keepends=True)
            # Without a time, which linecache would compare with a file's.
            linecache.cache[self.name] = (len(self.text), None, lines, self.name)
            return where
        before = file[: file.index(self.text)]
        lineno = where.lineno + before.count("\n")
        column = where.col_offset
        if column is not None and where.lineno == 1:
            column += len(before) - before.rfind("\n") - 1
        return replace(where, filename=self.written_in, lineno=lineno, col_offset=column)
