"""Functions that LLVM calls with vectors: products of bytes, and prefetches.

They are calls while LLVM optimizes a kernel. A call has variants for vectors, by the names that
OpenMP gives them, so LLVM writes a loop over neighbouring threads with vectors. Afterwards all
functions are defined, and inlined.

The instruction for products multiplies bytes without a sign with bytes that have one, in words of
four, and its sums wrap around. Bytes of the other kind become those by 128, which is their highest
bit. What that adds is subtracted.

Data that is used once comes from memory. Between two loads a core computes, and it looks only some
hundred instructions ahead. So a vector that is loaded with the hint "streaming" also prefetches
what is `AHEAD` bytes further on, into the cache of the first level.

References
----------
Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 2, "VPDPBUSD" and
"PREFETCHh". LLVM, "Vector Function ABI Variant".
"""

from __future__ import annotations

import re
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.numba_internals.llvm_modules import run_named_passes
from targets.cpu.codegen.levels import features_in_use

__all__ = ["add_products", "define_calls", "most_words", "prefetch_after", "with_variants"]

#: Prefix of names of functions for products; then "s" or "u" for the bytes of each factor.
_PRODUCT = "kerneldsl.dot4."
#: Prefix of names of functions for prefetches; then the distance of the lanes' addresses in bytes.
_PREFETCH = "kerneldsl.prefetch."
#: Distance of a prefetch: as many bytes as the rows that a block of the library reads side by side.
AHEAD = 1 << 13
#: LLVM's names of extensions that multiply bytes, and the most words that an instruction takes.
_EXTENSIONS = (({"avx512vnni", "avx512vl"}, 16), ({"avxvnni", "avx2"}, 8))
_WIDTHS = (4, 8, 16)
_CALL = re.compile(r'call (?:i32|void) @"(kerneldsl\.(?:dot4|prefetch)\.\w+)"\([^)]*\)')
_OF_PRODUCTS = "nofree norecurse nosync nounwind willreturn memory(none)"
#: Attributes of prefetches: they read no memory that LLVM knows, and must not be eliminated.
_OF_PREFETCHES = "nofree norecurse nosync nounwind willreturn memory(inaccessiblemem: readwrite)"
#: Number of the first group of attributes; Numba's have lower ones.
_FIRST_GROUP = 1000
_USED = "llvm.compiler.used"

#: Operands of the instruction by the signs of a call's factors, and those of its correction.
_FACTORS = {
    "us": ("%a", "%b", None),
    "su": ("%b", "%a", None),
    "ss": ("%flipped", "%b", ("%flip", "%b")),
    "uu": ("%a", "%flipped", ("%a", "%flip")),
}
_FLIPPED = {"ss": "%a", "uu": "%b"}


#: Words of the vectors that LLVM prefers on every processor.
_USUAL_WORDS = 8


def most_words() -> int:
    """Return the most words that the processor that is compiled for multiplies at once, or 0."""
    features = features_in_use()
    return next((words for names, words in _EXTENSIONS if names <= features), 0)


def add_products(
    builder: ir.IRBuilder, args: tuple[ir.Value, ...], signs: tuple[bool, bool]
) -> ir.Value:
    """Add the products of the bytes of two words, or vectors of words, to a third."""
    kind = args[-1].type
    name = _PRODUCT + "".join("s" if each else "u" for each in signs)
    if isinstance(kind, ir.VectorType):
        name += f".v{kind.count}"
    call = ir.FunctionType(kind, [kind] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, call, name), args)


def prefetch_after(builder: ir.IRBuilder, place: ir.Value, size: int) -> None:
    """Prefetch what is after an element of a size, where LLVM loads neighbours as a vector."""
    bits = ir.IntType(64)
    call = ir.FunctionType(ir.VoidType(), [bits])
    function = cgutils.get_or_insert_function(builder.module, call, f"{_PREFETCH}{size}")
    builder.call(function, [builder.add(builder.ptrtoint(place, bits), bits(AHEAD))])


def with_variants(text: str) -> str:
    """Return the text of a module with the variants of its calls."""
    names = sorted(set(_CALL.findall(text)))
    if not names:
        return text
    groups = {name: _FIRST_GROUP + number for number, name in enumerate(names)}
    lines = [_CALL.sub(lambda call: f"{call[0]} #{groups[call[1]]}", text)]
    every = list[str]()
    for name, group in groups.items():
        is_product = name.startswith(_PRODUCT)
        arguments = "vvv" if is_product else f"l{name.removeprefix(_PREFETCH)}"
        widths = [width for width in _WIDTHS if not is_product or width <= most_words()]
        variants = ",".join(f"_ZGV_LLVM_N{n}{arguments}_{name}({name}.v{n})" for n in widths)
        attributes = _OF_PRODUCTS if is_product else _OF_PREFETCHES
        attributes += f' "vector-function-abi-variant"="{variants}"'
        lines.append(f"attributes #{group} = {{ {attributes} }}")
        for width in widths:
            variant = f'@"{name}.v{width}"'
            every.append(f"ptr {variant}")
            if f"{variant}(" not in text:
                kind = f"<{width} x i32>"
                said = f"{kind} {variant}({kind}, {kind}, {kind})"
                lines.append(f"declare {said if is_product else f'void {variant}(i64)'}")
    array = f'[{len(every)} x ptr] [{", ".join(every)}], section "llvm.metadata"'
    if most_words() > _USUAL_WORDS and any(each.startswith(_PRODUCT) for each in names):
        # LLVM takes half of the widest vectors for all code of some processors.
        wide = f'"prefer-vector-width"="{32 * most_words()}"'
        lines[0] = re.sub(r"(?m)^define .*?\)(?= *(?:!dbg .*)?$)", rf"\g<0> {wide}", lines[0])
    return "\n".join([*lines, f"@{_USED} = appending global {array}", ""])


def define_calls(module: Any, builder: Any) -> None:
    """Define the functions that an optimized module declares, and inline them."""
    for variable in module.global_variables:
        if variable.name == _USED:
            variable.name, variable.linkage = "kerneldsl.used", "internal"
    for name in [each.name for each in module.functions]:
        if name.startswith(_PRODUCT):
            module.link_in(llvm.parse_assembly(_product(name)))
        elif name.startswith(_PREFETCH):
            module.link_in(llvm.parse_assembly(_prefetch(name)))
    dead_code, simplify = "global_dead_code_eliminate", "instruction_combine"
    # The second simplification merges an address that lanes share for a load and its prefetch. It
    # then is computed once, not in vectors.
    names = dead_code, "always_inliner", simplify, "new_gvn", simplify, dead_code
    run_named_passes(module, builder, *names)


def _prefetch(name: str) -> str:
    """Return the text of a module that defines a prefetch; that of one element does nothing."""
    line = "  call void @llvm.prefetch.p0(ptr %place, i32 0, i32 3, i32 1)"
    return f"""
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define linkonce_odr void @"{name}"(i64 %address) alwaysinline {_OF_PREFETCHES} {{
  %place = inttoptr i64 %address to ptr
{line if ".v" in name else ""}
  ret void
}}
"""


def _product(name: str) -> str:
    """Return the text of a module that defines a product."""
    signs, _, width = name.removeprefix(_PRODUCT).partition(".v")
    count = int(width or 4)
    words, chars = f"<{count} x i32>", f"<{4 * count} x i8>"
    one, two, excess = _FACTORS[signs]
    instruction = f"llvm.x86.avx512.vpdpbusd.{32 * count}"
    lines = [
        f"  %flip = bitcast {words} splat (i32 {0x80808080 - (1 << 32)}) to {chars}",
        *(f"  %{each} = bitcast {words} %{each}.words to {chars}" for each in "ab"),
    ]
    if signs in _FLIPPED:
        lines.append(f"  %flipped = xor {chars} {_FLIPPED[signs]}, %flip")
    call = f"call {words} @{instruction}({words}"
    lines.append(f"  %sum = {call} %total.words, {chars} {one}, {chars} {two})")
    if excess:
        lines += [
            f"  %excess = {call} zeroinitializer, {chars} {excess[0]}, {chars} {excess[1]})",
            f"  %less = sub {words} %sum, %excess",
        ]
    found = "%less" if excess else "%sum"
    kind = words if width else "i32"
    given = "%{}.words" if width else "%{}.word"
    parameters = ", ".join(f"{kind} {given.format(each)}" for each in ("a", "b", "total"))
    if not width:  # the first of four
        lines = [
            *(
                f"  %{each}.words = insertelement {words} zeroinitializer, i32 %{each}.word, i32 0"
                for each in ("a", "b", "total")
            ),
            *lines,
            f"  %first = extractelement {words} {found}, i32 0",
        ]
        found = "%first"
    return "\n".join(
        [
            f"declare {words} @{instruction}({words}, {chars}, {chars})",
            f'define linkonce_odr {kind} @"{name}"({parameters}) alwaysinline {_OF_PRODUCTS} {{',
            *lines,
            f"  ret {kind} {found}",
            "}",
            "",
        ]
    )
