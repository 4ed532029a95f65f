"""The roofline of a launch: whether memory or arithmetic bounds it from below.

References
----------
S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model for
Multicore Architectures", Communications of the ACM 52 (2009).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from kerneldsl.contract import Device
from kerneldsl.planner.rates import DeviceRates
from kerneldsl.utilities.shown import Shown

__all__ = ["Roofline", "roofline"]

#: A fused multiply-add is two operations.
_FUSED = 2.0


class _Roofline(NamedTuple):
    device: str
    intensity: float
    ridge: float
    memory_s: float
    arithmetic_s: float
    roof: Literal["memory", "arithmetic"]
    memory_bytes_per_s: float
    l2_bytes_per_s: float
    peak_flops_per_s: float


class Roofline(Shown, _Roofline):
    """A launch under the roofs of a device.

    Parameters
    ----------
    device : str
        The device, which may be a described one.
    intensity : float
        Operations on floats for each byte of device memory.
    ridge : float
        The intensity from which on arithmetic is the roof.
    memory_s, arithmetic_s : float
        Seconds that memory, and that arithmetic in fused multiply-adds, takes at least.
    roof : {"memory", "arithmetic"}
        Which takes longer.
    memory_bytes_per_s, l2_bytes_per_s : float
        Available bandwidth of device memory, and bandwidth of the level-2 cache.
    peak_flops_per_s : float
        Operations in a second, in fused multiply-adds of the dtype that most operations have.
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as numbers and text alone."""
        return self._asdict()


def roofline(device: Device, nbytes: float, flops: float, double_flops: float) -> Roofline:
    """Return the roofline of a launch.

    Parameters
    ----------
    device : Device
        The device on which it would run.
    nbytes : float
        Bytes of device memory that it moves.
    flops, double_flops : float
        Operations on float32 and narrower floats, and on float64.
    """
    rates = DeviceRates.from_device(device)
    clocks = rates.multiprocessor_count * rates.clock_hz * _FUSED
    single, double = clocks * rates.fp32_per_clock, clocks * rates.fp64_per_clock
    memory_s = nbytes / rates.memory_bytes_per_s
    arithmetic_s = flops / single + double_flops / double
    peak = double if double_flops > flops else single
    return Roofline(
        device.name,
        (flops + double_flops) / nbytes if nbytes else 0.0,
        peak / rates.memory_bytes_per_s,
        memory_s,
        arithmetic_s,
        "arithmetic" if arithmetic_s > memory_s else "memory",
        rates.memory_bytes_per_s,
        rates.l2_bytes_per_s,
        peak,
    )
