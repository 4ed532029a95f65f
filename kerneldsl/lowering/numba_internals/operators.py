"""Numba's own way to declare operators and attributes of a new type."""

from __future__ import annotations

from numba.core.typeconv import Conversion
from numba.core.typing.npydecl import supported_ufuncs
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, builtin_registry

__all__ = [
    "AbstractTemplate",
    "AttributeTemplate",
    "Conversion",
    "builtin_registry",
    "supported_ufuncs",
]
