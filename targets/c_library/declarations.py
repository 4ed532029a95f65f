"""Declarations of compiled kernels in a C header: arguments as structures, and launches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kerneldsl.contract.abi import RECORD_WORD_BYTES, ParameterLayout
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind, TupleKind, format_signature
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["ArgumentField", "Declaration", "array_types", "c_name", "fields_of"]

_TYPES = {
    "bool": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
    "complex64": "kd_complex64",
    "complex128": "kd_complex128",
    **{f"int{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
}
#: Keywords of C and C++, in lower case; a parameter of such a name gets an underscore.
_KEYWORDS = """
    alignas alignof and asm auto bool break case catch char class const constexpr continue
    default delete do double else enum explicit export extern false float for friend goto
    if inline int long mutable namespace new not nullptr operator or private protected
    public register restrict return short signed sizeof static struct switch template this
    throw true try typedef typename union unsigned using virtual void volatile while xor
"""
_RESERVED = frozenset(_KEYWORDS.split())


def c_name(text: str) -> str:
    """Return a name that C and C++ take.

    Examples
    --------
    >>> c_name("x"), c_name("int"), c_name("größe"), c_name("a.b")
    ('x', 'int_', 'gr__e', 'a_b')
    """
    name = re.sub(r"[^0-9A-Za-z_]", "_", text)
    return f"{name}_" if name in _RESERVED else name


class ArgumentField(NamedTuple):
    """A member of the structure of a kernel's arguments."""

    #: Name and C type of the member.
    name: str
    type: str
    #: Number of elements of a member that is an array in C.
    elements: int | None
    #: Bytes from the start of the structure.
    offset: int
    #: The argument, or the part of a tuple, that it is.
    kind: Kind


def fields_of(layout: ParameterLayout) -> tuple[ArgumentField, ...]:
    """Return the members of the structure of a kernel's arguments, in order.

    Each part of a tuple is a member: C would pad a structure in a structure.
    """
    places = {each.name: each.offset for each in layout.parameters}
    found: list[ArgumentField] = []
    taken: set[str] = set()
    for name, kind in zip(layout.names, layout.kinds, strict=True):
        for spelled, path, part in _parts(name, name, kind):
            chosen = c_name(spelled)
            while chosen in taken:
                chosen += "_"
            taken.add(chosen)
            type_, elements, first = _member(part)
            found.append(ArgumentField(chosen, type_, elements, places[path + first], part))
    return tuple(found)


def _parts(spelled: str, path: str, kind: Kind) -> Iterator[tuple[str, str, Kind]]:
    """Return the arguments that no tuple contains: their names in C and in the layout."""
    if not isinstance(kind, TupleKind):
        yield spelled, path, kind
        return
    for number, element in enumerate(kind.elements):
        member = kind.names[number] if kind.names else str(number)
        yield from _parts(f"{spelled}_{member}", f"{path}[{number}]", element)


def _member(kind: Kind) -> tuple[str, int | None, str]:
    """Return type and number of elements of a member, and the end of its first parameter's name."""
    if isinstance(kind, ArrayKind):
        return _array_type(kind), None, ".data"
    assert isinstance(kind, ScalarKind)
    if kind.element.is_record:
        return "uint64_t", -(-kind.element.nbytes // RECORD_WORD_BYTES), ".bytes[0]"
    return _element_type(kind.dtype), None, ".real" if kind.element.is_complex else ""


def _element_type(dtype: str) -> str:
    known = _TYPES.get(dtype)
    if known is None:
        row = ELEMENT_TYPES[dtype]
        known = {"q": "int64_t", "B": "uint8_t"}.get(row.struct_code, "void")
    return known


def _array_type(kind: ArrayKind) -> str:
    if kind.ndim == 0:
        return f"{_element_type(kind.dtype)} *"
    dtype = kind.dtype if kind.dtype in _TYPES else _element_type(kind.dtype)
    return f"kd_{dtype}_{kind.ndim}{'s' if kind.layout == 'A' else ''}"


def array_types(fields: Sequence[ArgumentField]) -> dict[str, str]:
    """Return the definition of each type of array among some members, by its name."""
    found: dict[str, str] = {}
    for each in fields:
        kind = each.kind
        if not isinstance(kind, ArrayKind) or kind.ndim == 0:
            continue
        strides = f" int64_t strides[{kind.ndim}];" if kind.layout == "A" else ""
        found[each.type] = (
            f"#ifndef {each.type.upper()}_DEFINED\n#define {each.type.upper()}_DEFINED\n"
            f"typedef struct {{\n    {_element_type(kind.dtype)} *data;\n"
            f"    int64_t shape[{kind.ndim}];\n"
            + (f"    {strides.strip()} /* in bytes */\n" if strides else "")
            + f"}} {each.type};\n#endif\n"
        )
    return found


@dataclass(frozen=True)
class Declaration:
    """A kernel as a header declares it."""

    #: Name of its functions.
    name: str
    #: Module and name in Python.
    kernel: str
    #: Parameters of the kernel.
    layout: ParameterLayout
    #: The block that its code for the CPU is for.
    block: tuple[int, int, int] | None
    #: Whether launches pass dynamic shared memory.
    uses_dynamic_shared: bool

    def text(self) -> str:
        fields = fields_of(self.layout)
        members = "".join(f"    {_written(each)};{_comment(each.kind)}\n" for each in fields)
        checks = "".join(
            f"KD_CHECK_OFFSET({self.name}_args, {each.name}, {each.offset});\n" for each in fields
        )
        signature = format_signature(self.layout.kinds)
        ndim = self.layout.mode.forall_ndim
        launched = f"forall, {ndim}-D" if ndim else "kernel[grid, block]"
        return (
            f"/* {self.kernel}({signature})\n * Launched as {launched}.{self._block_text()} */\n"
            f"typedef struct {{\n{members or '    char unused;'}}} {self.name}_args;\n"
            f"{checks}\n"
            f"extern const kd_kernel {self.name}_kernel;\n\n"
            f"{self._function('cpu')}\n\n{self._function('cuda')}\n"
        )

    def _block_text(self) -> str:
        if self.block is None:
            return ""
        return f" On the CPU, its block has {' x '.join(map(str, self.block))} threads."

    def _function(self, target: str) -> str:
        """Return the function that launches it on the CPU or a GPU."""
        ndim = self.layout.mode.forall_ndim
        last, given = ("int threads", "threads") if target == "cpu" else ("void *stream", "stream")
        parameters, shape = [], []
        if ndim:
            parameters += [f"int64_t n{axis}" for axis in range(ndim)]
            extent = ", ".join(f"n{axis}" for axis in range(ndim))
            shape.append(f"    shape.extent[0] = {extent};\n" if ndim == 1 else "")
            if ndim > 1:
                shape += [f"    shape.extent[{axis}] = n{axis};\n" for axis in range(ndim)]
        else:
            parameters.append("kd_dim3 grid")
            shape.append("    shape.grid = grid;\n")
            if target == "cuda" or self.block is None:
                parameters.append("kd_dim3 block")
                shape.append("    shape.block = block;\n")
        if self.uses_dynamic_shared:
            parameters.append("int64_t shared_bytes")
            shape.append("    shape.shared_bytes = shared_bytes;\n")
        listed = ", ".join([f"const {self.name}_args *args", *parameters, last])
        return (
            f"static inline kd_status {self.name}_{target}({listed})\n{{\n"
            f"    kd_shape shape = {{{{0, 0, 0}}, {{0, 0, 0}}, {{0, 0, 0}}, 0}};\n"
            f"{''.join(shape)}"
            f"    return kd_launch_{target}(&{self.name}_kernel, args, &shape, {given});\n}}"
        )


def _written(field: ArgumentField) -> str:
    space = "" if field.type.endswith("*") else " "
    end = "" if field.elements is None else f"[{field.elements}]"
    return f"{field.type}{space}{field.name}{end}"


def _comment(kind: Kind) -> str:
    if isinstance(kind, ArrayKind) and kind.layout == "F":
        return " /* in Fortran's order */"
    dtype = kind.dtype if isinstance(kind, ArrayKind | ScalarKind) else ""
    return "" if dtype in _TYPES and not dtype.endswith("float16") else f" /* {dtype} */"
