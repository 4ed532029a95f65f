"""Inspection of the namespace: devices, dtypes, capabilities."""

from __future__ import annotations

from typing import Any

import kerneldsl as kd
from stdlib_kernels.array_api import dtypes

__all__ = ["Info", "__array_namespace_info__"]

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]
_ALL = _KINDS["bool"] + _KINDS["numeric"]


class Info:
    """The devices, dtypes and capabilities of the namespace.

    Examples
    --------
    >>> from stdlib_kernels import array_api as xp
    >>> info = xp.__array_namespace_info__()
    >>> sorted(info.dtypes(kind="real floating"))
    ['float32', 'float64']
    """

    def capabilities(self) -> dict[str, Any]:
        """Return the supported optional features, and the largest number of axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> kd.Device:
        """Return the device of arrays that are made without a device."""
        return kd.empty(0).device

    def devices(self) -> list[kd.Device]:
        """Return the usable devices of this machine."""
        default = self.default_device()
        known = (kd.empty(0, device=str(each)).device for each in kd.devices())
        return [default, *(each for each in known if each is not default)]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """Return the dtypes of arrays that are made without a dtype, equal on every device."""
        return {
            "real floating": dtypes.float64,
            "complex floating": dtypes.complex128,
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """Return dtypes by name, also of one or several kinds, equal on every device."""
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = _ALL if kind is None else [name for each in kinds for name in _KINDS[each]]
        return {name: getattr(dtypes, name) for name in names}


def __array_namespace_info__() -> Info:
    """Return an object that describes the namespace."""
    return Info()
