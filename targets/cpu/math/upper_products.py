"""Keep the upper bits of wide products from a rule of LLVM's that loses them.

LLVM 22 multiplies 16-bit numbers that were widened to 64 bits by an instruction for the upper 16
bits of each product, wherever the product is shifted right and cut to 16 bits. By 32 bits or more
it then shifts those 16 bits by 16 or more, which is undefined, and drops what would be stored
(docs/upstream.md). `kd.mulhi` of narrow integers is such a product.

In an optimized module, vectors are therefore not cut by an instruction: the lowest 16 bits of each
element are picked out of the vector's words, which the rule does not look through.

References
----------
LLVM, ``lib/Target/X86/X86ISelLowering.cpp``, ``combinePMULH``.
"""

from __future__ import annotations

import re
from typing import Any

import llvmlite.binding as llvm

__all__ = ["has_upper_products", "keep_upper_products"]

#: The upper half of a product of 32-bit numbers, as `kd.mulhi` is lowered.
_UPPER_HALF = re.compile(r"= lshr i64 %\S+, 32$", re.MULTILINE)

#: A shift of 32 bits or more, of every element of a vector.
_SHIFT = re.compile(r"= [al]shr (?:exact )?<\d+ x i64> [^,]+, splat \(i64 (?:3[2-9]|[4-6]\d)\)")
_CUT = re.compile(
    r"^(?P<result> +(?P<name>%\S+) = )trunc (?:n[us]w )*<(?P<count>\d+) x i64> (?P<value>\S+) "
    r"to <(?P=count) x i16>",
    re.MULTILINE,
)


def has_upper_products(text: str) -> bool:
    """Return whether a module that is not optimized yet needs upper halves of products.

    LLVM's pipeline evaluates equal products once before it simplifies them. Simplified before, a
    product whose lower half is needed in another place becomes one of 32 bits, the upper half
    takes a second one, and vectors of both widths are shuffled all the time.
    """
    return _UPPER_HALF.search(text) is not None


def keep_upper_products(module: Any) -> Any:
    """Return an optimized module, or what takes its place where the rule would apply."""
    if not module.triple.startswith(("x86_64", "i686")):
        return module
    text = str(module)
    if _SHIFT.search(text) is None:
        return module
    kept, count = _CUT.subn(_picked, text)
    if not count:
        return module
    made = llvm.parse_assembly(kept)
    made.name = module.name
    return made


def _picked(found: re.Match[str]) -> str:
    """Return the instructions that pick the lowest of each element's four words."""
    count = int(found["count"])
    words = f"<{4 * count} x i16>"
    # A name of its own leaves LLVM's numbers of the other values as they are.
    own = f"%kerneldsl.words.{found.start()}"
    picked = ", ".join(f"i32 {4 * number}" for number in range(count))
    return (
        f"  {own} = bitcast <{count} x i64> {found['value']} to {words}\n"
        f"{found['result']}shufflevector {words} {own}, {words} poison, "
        f"<{count} x i32> <{picked}>"
    )
