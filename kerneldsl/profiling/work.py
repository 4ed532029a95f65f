"""Work of launches that were recorded: bytes and arithmetic by the analysis of `kernel.explain`.

The parameters of a launch are in its buffer, so that arrays' shapes and the numbers are known,
and what arrays hold is not. What the analysis cannot count has no work.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from kerneldsl.contract import Device
from kerneldsl.contract.abi import Parameter
from kerneldsl.errors import KernelError, ToolMissingError
from kerneldsl.explain.explain import explain_kernel
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind
from kerneldsl.profiling.spans import LaunchedCode
from kerneldsl.utilities.environment import logger

__all__ = ["Work", "work_of"]

#: Kinds of launches that are analyzed, those that were made first; others have no work.
_MAX_ANALYZED = 64
#: float64 operations of a CPU in the time of one on float32: half as many fit into a vector.
_DOUBLE_SHARE = 0.5


class Work(NamedTuple):
    """Work of one launch."""

    #: Bytes of arrays that memory gives and takes at least: each sector that is read, and each that
    #: is written, once.
    nbytes: float
    #: Additions, multiplications and divisions of floats; a fused multiply-add is two.
    flops: float
    #: Least time on the device: the longer of moving the bytes and of the arithmetic.
    floor_ns: float | None


class _Array:
    """An array without known elements, as the analysis reads arguments.

    - `described`: address, shape and strides by the protocol.
    """

    def __init__(self, described: dict[str, Any]) -> None:
        self.__cuda_array_interface__ = described


def work_of(codes: Sequence[LaunchedCode | None]) -> list[Work | None]:
    """Return the work of each launch; ``None`` for no launch, or if it cannot be analyzed."""
    known: dict[tuple[Any, ...], Work | None] = {}
    found: list[Work | None] = []
    for code in codes:
        if code is None:
            found.append(None)
            continue
        key = _key(code)
        if key not in known:
            known[key] = _analyze(code) if len(known) < _MAX_ANALYZED else None
        found.append(known[key])
    return found


def _key(code: LaunchedCode) -> tuple[Any, ...]:
    """Return what the work depends on: all but where arrays lie."""
    parameters = code.specialization.layout.parameters
    values = _values(code)
    numbers = tuple(
        value
        for each, value in zip(parameters, values, strict=False)
        if each.dtype not in ("pointer", "offset")
    )
    config = code.config
    shape = (config.grid_dim, config.block_dim, config.extent, config.shared_bytes)
    return code.specialization, code.device, shape, numbers


def _values(code: LaunchedCode) -> list[Any]:
    """Return the values in the parameter buffer; in debug mode it lacks the last pointer."""
    return [
        _read(each, code.parameters)
        for each in code.specialization.layout.parameters
        if each.offset + each.nbytes <= len(code.parameters)
    ]


def _read(parameter: Parameter, buffer: bytes) -> Any:
    element = ELEMENT_TYPES.get(parameter.dtype)
    letter = "Q" if element is None else element.struct_code
    return struct.unpack_from("=" + letter, buffer, parameter.offset)[0]


def _analyze(code: LaunchedCode) -> Work | None:
    """Return the work of a launch; ``None`` where the analysis does not reach."""
    specialization, config, device = code.specialization, code.config, code.device
    values = iter(_values(code))
    arguments = tuple(_argument(kind, values) for kind in specialization.kinds)
    try:
        explanation = explain_kernel(
            device.compiler,
            specialization,
            arguments,
            device,
            block=config.block_dim,
            grid=None if config.extent is not None else config.grid_dim,
            extent=config.extent,
            shared_bytes=config.shared_bytes,
        )
    except ToolMissingError as error:
        logger.debug("the work of launches is not counted: %s", error)
        return None
    except KernelError as error:
        logger.debug("the work of %s is not counted: %s", specialization.unit.qualname, error)
        return None
    nbytes = explanation.dram_read_bytes + explanation.dram_written_bytes
    flops, double = explanation.flops(), explanation.flops("float64")
    if device.is_host:
        floor_ns = _floor_on_host(device, nbytes, flops - double, double)
    else:
        roofline = explanation.roofline
        floor_ns = 1e9 * max(roofline.memory_s, roofline.arithmetic_s)
    return Work(nbytes, flops, floor_ns)


def _argument(kind: Kind, values: Iterator[Any]) -> Any:
    """Take the parameters of an argument, and return it as the analysis reads arguments."""
    if isinstance(kind, ScalarKind):
        if kind.element.is_record:
            for _ in range(0, kind.element.nbytes, 8):
                next(values)
            return None
        return complex(next(values), next(values)) if kind.element.is_complex else next(values)
    if isinstance(kind, ArrayKind):
        pointer, shape = next(values), tuple(next(values) for _ in range(kind.ndim))
        strides = tuple(next(values) for _ in range(kind.ndim)) if kind.layout == "A" else None
        if strides is None and kind.layout == "F":
            strides = _in_fortrans_order(shape, kind.element.nbytes)
        return _Array({"data": (pointer, False), "shape": shape, "strides": strides})
    return tuple(_argument(each, values) for each in kind.elements)


def _in_fortrans_order(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = []
    for extent in shape:
        strides.append(itemsize)
        itemsize *= extent
    return tuple(strides)


# --------------------------------------------------------------------------- the CPU's roofs

_measured: dict[Device, Any] = {}


def _floor_on_host(device: Device, nbytes: float, single: float, double: float) -> float | None:
    """Return what a CPU needs at least, by its copy and its arithmetic as they are measured once.

    The rates are those of `kerneldsl.rank_devices`, which is above this module and is taken by
    name.
    """
    if device not in _measured:
        rank = import_module("kerneldsl.tools.ranking").rank_devices
        _measured[device] = rank(by="benchmark", among=[device]).entries[0].measurement
    rates = _measured[device]
    if rates is None:
        return None
    arithmetic_s = (single + double / _DOUBLE_SHARE) / rates.float32_operations_per_s
    return float(1e9 * max(nbytes / rates.copy_bytes_per_s, arithmetic_s))
