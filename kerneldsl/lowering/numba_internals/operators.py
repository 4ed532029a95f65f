"""Numba's own way to declare operators for a new type of number."""

from __future__ import annotations

from numba.core.typeconv import Conversion
from numba.core.typing.npydecl import supported_ufuncs
from numba.core.typing.templates import AbstractTemplate, builtin_registry

__all__ = ["AbstractTemplate", "Conversion", "builtin_registry", "supported_ufuncs"]
