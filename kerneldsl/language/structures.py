"""Structs of programs as elements: types by ``numba.extending`` with a data model of numbers.

An element is loaded and stored whole, as a vector is. Its name has its members, and the type that
the program registered is known by the name.
"""

from __future__ import annotations

import re
from typing import Any

from kerneldsl.language.element_types import ELEMENT_TYPES, ElementKind, ElementType
from kerneldsl.language.records import Field
from kerneldsl.utilities.modules import imported, is_of_numba

__all__ = ["structure_name", "structure_row", "structure_type"]

#: Packages of Numba with types; a program may have a module below ``numba.cuda``.
_OF_NUMBA = ("numba.core.", "numba.np.", "numba.typed.", "numba.experimental.")
#: Types of programs by the names of their elements.
_types: dict[str, Any] = {}


def structure_name(kind: Any) -> str | None:
    """Return the name of the element type of a program's type; ``None`` if it is no such struct."""
    models = imported("numba.core.datamodel")
    is_numbas = type(kind).__module__.startswith(_OF_NUMBA)
    if models is None or is_numbas or not is_of_numba(kind, "Type"):
        return None
    try:
        model = models.default_manager[kind]
    except KeyError:
        return None
    if not isinstance(model, models.models.StructModel):
        return None
    members = dict(zip(model._fields, map(str, model._members), strict=True))
    if not all(m in ELEMENT_TYPES and ELEMENT_TYPES[m].is_number for m in members.values()):
        return None
    shown = ", ".join(f"{name} {member}" for name, member in members.items())
    found = f"struct({shown}) {kind}"
    _types[found] = kind
    return found


def structure_type(name: str) -> Any:
    """Return the type of the program; ``None`` for the name of another element type."""
    return _types.get(name)


def structure_row(name: str) -> ElementType:
    """Return the element type of a name; raise ``KeyError`` if no type has it."""
    if name not in _types:
        raise KeyError(name)
    end, alignment, fields = 0, 1, []
    for member, dtype in re.findall(r"(\w+) (\w+)[,)]", name):
        inner = ELEMENT_TYPES[dtype]
        start = -(-end // inner.alignment) * inner.alignment
        fields.append(Field(member, dtype, (), start))
        end, alignment = start + inner.nbytes, max(alignment, inner.alignment)
    return ElementType(
        name,
        ElementKind.VECTOR,
        -(-end // alignment) * alignment,
        alignment,
        typestr="",
        struct_code="",
        dlpack_code=-1,
        llvm=f"{{{', '.join(ELEMENT_TYPES[each.dtype].llvm for each in fields)}}}",
        arithmetic=name,
        fields=tuple(fields),
    )
