"""Tensor maps of a launch, encoded by the driver.

References
----------
CUDA Driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kerneldsl.contract.tensor_maps import (
    L2_PROMOTION,
    MAP_DTYPES,
    MAP_SWIZZLES,
    TENSOR_MAP_BYTES,
    MapGeometry,
    TensorMap,
    map_geometry,
    pad_for_maps,
)

if TYPE_CHECKING:
    from kerneldsl.contract.abi import ParameterLayout
    from targets.cuda.driver.driver import Driver

__all__ = ["MapEncoder"]

#: Maps that are remembered of each parameter.
_MAX_KNOWN = 64


class MapEncoder:
    """Encodes the tensor maps of one kernel, and remembers them.

    - `driver`: encodes them.
    - `layout`: the parameters of the kernel's arguments.
    """

    def __init__(self, driver: Driver, layout: ParameterLayout, maps: Sequence[TensorMap]) -> None:
        self._driver = driver
        self._packer = layout.packer
        self._maps = [(each, layout.arrays[each.array]) for each in maps]
        self._known: list[dict[MapGeometry, bytes]] = [{} for _ in maps]

    def append(self, parameters: bytes) -> bytes:
        """Return a parameter buffer with the maps of its arrays after it.

        Raises `DriverError` for an array that no map can describe.
        """
        values = self._packer.unpack(parameters)
        found = []
        for (wanted, array), known in zip(self._maps, self._known, strict=True):
            geometry = map_geometry(wanted, array, values)
            encoded = known.get(geometry)
            if encoded is None:
                if len(known) >= _MAX_KNOWN:
                    known.clear()
                encoded = known[geometry] = self._encode(wanted, array.kind.dtype, geometry)
            found.append(encoded)
        return pad_for_maps(parameters, found)

    def _encode(self, wanted: TensorMap, dtype: str, geometry: MapGeometry) -> bytes:
        api = self._driver.api
        made = self._driver.call(
            api.cuTensorMapEncodeTiled,
            api.CUtensorMapDataType(MAP_DTYPES[dtype]),
            len(wanted.axes),
            geometry.address,
            [api.cuuint64_t(each) for each in geometry.extents],
            [api.cuuint64_t(each) for each in geometry.strides],
            [api.cuuint32_t(each) for each in wanted.box],
            [api.cuuint32_t(1)] * len(wanted.box),
            api.CUtensorMapInterleave(0),
            api.CUtensorMapSwizzle(MAP_SWIZZLES[wanted.swizzle]),
            api.CUtensorMapL2promotion(L2_PROMOTION),
            api.CUtensorMapFloatOOBfill(0),
            doing=f"describe an array of shape {geometry.extents[::-1]} for copies",
        )
        return ctypes.string_at(int(made.getPtr()), TENSOR_MAP_BYTES)
