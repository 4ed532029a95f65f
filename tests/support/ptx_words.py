"""What PTX's own words give, bit by bit, from their definitions.

References
----------
PTX ISA, sections "prmt", "lop3", "bfe", "bfi" and "bfind".
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["NV"]


def _bits(value: Any, width: int) -> list[int]:
    return [int(value) >> k & 1 for k in range(width)]


def _number(bits: list[int], kind: Any) -> Any:
    whole = sum(bit << k for k, bit in enumerate(bits))
    return np.array(whole, f"u{len(bits) // 8}").view(kind)[()]


def prmt(a: Any, b: Any, selector: Any) -> Any:
    given = (int(a) & 0xFFFFFFFF).to_bytes(4, "little") + (int(b) & 0xFFFFFFFF).to_bytes(
        4, "little"
    )
    found = []
    for k in range(4):
        number = int(selector) >> 4 * k & 15
        byte = given[number & 7]
        found.append((0xFF if byte & 0x80 else 0) if number & 8 else byte)
    return np.uint32(int.from_bytes(bytes(found), "little"))


def lop3(a: Any, b: Any, c: Any, lut: int) -> Any:
    rows = zip(*(_bits(value, 32) for value in (a, b, c)), strict=True)
    return _number([lut >> (4 * x + 2 * y + z) & 1 for x, y, z in rows], np.uint32)


def _extract(kind: Any) -> Callable[..., Any]:
    width = 8 * np.dtype(kind).itemsize

    def extract(a: Any, position: Any, length: Any) -> Any:
        bits, first, count = _bits(a, width), int(position) & 255, int(length) & 255
        last = min(first + count - 1, width - 1)
        is_signed = np.dtype(kind).kind == "i"
        sign = 0 if not is_signed or count == 0 else bits[last]
        return _number(
            [bits[first + k] if k < count and first + k < width else sign for k in range(width)],
            kind,
        )

    return extract


def _insert(kind: Any) -> Callable[..., Any]:
    width = 8 * np.dtype(kind).itemsize

    def insert(a: Any, b: Any, position: Any, length: Any) -> Any:
        bits, given = _bits(b, width), _bits(a, width)
        first, count = int(position) & 255, int(length) & 255
        for k in range(min(count, width)):
            if first + k < width:
                bits[first + k] = given[k]
        return _number(bits, kind)

    return insert


def _find(kind: Any) -> Callable[..., Any]:
    def find(a: Any) -> Any:
        value = int(np.asarray(a).astype(kind))
        value = ~value if value < 0 else value
        return np.uint32(value.bit_length() - 1 & 0xFFFFFFFF)

    return find


#: Stands in for ``kd.nv``.
NV = SimpleNamespace(
    prmt=prmt,
    lop3=lop3,
    **{f"bfe_u{width}": _extract(np.dtype(f"u{width // 8}").type) for width in (32, 64)},
    **{f"bfe_s{width}": _extract(np.dtype(f"i{width // 8}").type) for width in (32, 64)},
    **{f"bfi_b{width}": _insert(np.dtype(f"u{width // 8}").type) for width in (32, 64)},
    **{f"bfind_u{width}": _find(np.dtype(f"u{width // 8}").type) for width in (32, 64)},
    **{f"bfind_s{width}": _find(np.dtype(f"i{width // 8}").type) for width in (32, 64)},
    ex2_approx_f32=lambda x: np.exp2(np.longdouble(x)),
    lg2_approx_f32=lambda x: np.log2(np.longdouble(x)),
    tanh_approx_f32=lambda x: np.tanh(np.longdouble(x)),
    rcp_approx_f32=lambda x: 1 / np.longdouble(x),
)
