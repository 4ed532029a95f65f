"""The forms of GPU code that a program brings along."""

from __future__ import annotations

import codecs
from enum import StrEnum

__all__ = ["CodeForm", "form_of_binary", "without_byte_order_mark"]


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
