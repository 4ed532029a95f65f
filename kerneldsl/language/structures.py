"""Structs of programs as elements: types by ``numba.extending`` with a data model of numbers.

An element is loaded and stored whole, as a vector is. Its name has its members, and the type that
the program registered is known by the name.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.utilities.modules import imported, is_of_numba

__all__ = ["structure_name", "structure_type"]

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
    stem = f"struct({shown}) {kind}"
    # Types of one name that are not equal get numbers, so that each is found by its own name.
    names = (stem if number == 1 else f"{stem} {number}" for number in count(1))
    return next(name for name in names if _types.setdefault(name, kind) == kind)


def structure_type(name: str) -> Any:
    """Return the type of the program; ``None`` for the name of another element type."""
    return _types.get(name)
