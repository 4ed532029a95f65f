"""The code of a device function that is written in another language, for kernels of a GPU."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from kerneldsl.language.kinds import ArrayKind, ScalarKind
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["CodeForm", "LinkedCode", "code_of", "form_of_binary", "without_byte_order_mark"]


class CodeForm(StrEnum):
    """The language or format of GPU code; its text names it in messages."""

    CUDA = "CUDA C++"
    PTX = "PTX"
    LTO_IR = "LTO-IR"
    CUBIN = "cubin"
    FATBIN = "fat binary"


#: The first bytes of compiled code: an ELF file, NVVM's LTO-IR, a fat binary (``fatbinary.h``).
_HEADS = {
    b"\x7fELF": CodeForm.CUBIN,
    b"\xedCN\x7f": CodeForm.LTO_IR,
    b"\x50\xed\x55\xba": CodeForm.FATBIN,
}


def form_of_binary(code: bytes) -> CodeForm | None:
    """Return the form of compiled code by its first bytes; ``None`` of anything else."""
    return _HEADS.get(code[:4])


def without_byte_order_mark(code: bytes) -> bytes:
    """Remove the mark that some editors write before UTF-8, which NVRTC and ptxas refuse."""
    return code.removeprefix(codecs.BOM_UTF8)


@dataclass(frozen=True, eq=False)
class LinkedCode:
    """A function of a GPU's code, as a kernel calls it."""

    #: Name of the function in the code.
    symbol: str
    #: Types of its parameters; of an array it takes the address of the first element.
    parameters: tuple[ScalarKind | ArrayKind, ...]
    #: Type of its result.
    result: ScalarKind | None
    #: The source, or the compiled code.
    code: bytes
    #: Form of `code`.
    form: CodeForm
    #: Name of the code in messages: its file, or the name it was given.
    name: str
    #: The file, as an absolute path.
    path: str | None = None
    #: Options of that compiler; a value that can be compared and written.
    options: Any = None
    #: Whether the result depends on the arguments alone, and the function does nothing else.
    is_pure: bool = False
    #: Other code that it is linked with; their functions and types do not count.
    beside: tuple[LinkedCode, ...] = ()
    #: Whether it takes the address of its result first, and returns an int32, as numba.cuda's.
    by_address: bool = False
    #: Positions of arrays that are passed as their address alone, as pointers are.
    pointers: frozenset[int] = frozenset()
    #: Whether it may wait for the whole grid, so that launches are cooperative.
    is_cooperative: bool = False
    #: Whether the Python function has the same meaning; else it is for a GPU alone.
    has_body: bool = True

    @property
    def files(self) -> tuple[LinkedCode, ...]:
        """All code that it is linked with, its own first; none of a function without any."""
        return (self, *self.beside) if self.code else self.beside

    def passes_strides(self, number: int) -> bool:
        """Return whether extents and strides of a parameter are passed, if it is an array."""
        return self.by_address and number not in self.pointers

    @property
    def signature(self) -> str:
        """The declared types, as the user writes them."""
        result = "void" if self.result is None else str(self.result)
        return f"{result}({', '.join(map(str, self.parameters))})"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the code; files that it includes are not part of it."""
        import hashlib  # a kernel of CUDA code needs none before its launch

        return hashlib.sha256(self.code).hexdigest()

    def identity(self) -> Iterator[str]:
        """Return what the compiled code depends on, without included files and compilers."""
        yield from (self.symbol, self.signature, self.form, self.digest, str(self.is_pure))
        yield repr(self.options)
        yield str((self.by_address, sorted(self.pointers), self.is_cooperative))
        for each in self.beside:
            yield from (each.form, each.digest, repr(each.options))


def code_of(value: Any) -> LinkedCode | None:
    """Return the code of a ``@kd.func(link=…)`` object; ``None`` of anything else."""
    found = getattr(value, "__kerneldsl_linked__", None)
    return found if isinstance(found, LinkedCode) else None
