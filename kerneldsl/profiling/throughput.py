"""Bytes and arithmetic of activities, in a second of their devices' time and of what these reach.

The summary's rows, the data frame and the trace all have them from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kerneldsl.profiling.activities import Activity

if TYPE_CHECKING:
    from kerneldsl.profiling.work import Work

__all__ = ["Throughput", "Worked", "throughput", "worked"]

#: An activity with its work.
Worked: TypeAlias = "tuple[Activity, Work | None]"


class Throughput(NamedTuple):
    """Amounts that activities of one kind moved and computed; ``None`` where one is not known.

    Parameters
    ----------
    device_ns : int or None
        Time on the device.
    nbytes : float or None
        Bytes that were copied or allocated, and of launches those that memory moves at least.
    flops : float or None
        Operations on floats, of launches.
    bytes_per_s, flops_per_s : float or None
        The same in a second of the device's time.
    roof_share : float or None
        Time that the device needs at least, of its time.
    """

    device_ns: int | None
    nbytes: float | None
    flops: float | None
    bytes_per_s: float | None
    flops_per_s: float | None
    roof_share: float | None


def worked(activities: Sequence[Activity], works: Sequence[Work | None]) -> list[Worked]:
    """Return activities with the work of each; `works` is empty if it was not requested."""
    return list(zip(activities, works or [None] * len(activities), strict=True))


def throughput(group: Sequence[Worked]) -> Throughput:
    """Add up activities of one kind, each with its work."""
    kind = group[0][0].kind
    device_ns = _sum([activity.device_ns for activity, _ in group])
    nbytes, flops, floor_ns = _sum([activity.nbytes for activity, _ in group]), None, None
    if kind == "launch":
        works = [work for _, work in group]
        nbytes = _sum([work and work.nbytes for work in works])
        flops = _sum([work and work.flops for work in works])
        floor_ns = _sum([work and work.floor_ns for work in works])

    def each_second(amount: float | None) -> float | None:
        return 1e9 * amount / device_ns if amount is not None and device_ns else None

    return Throughput(
        device_ns=None if device_ns is None else int(device_ns),
        nbytes=nbytes,
        flops=flops,
        bytes_per_s=each_second(nbytes) if kind in ("launch", "copy") else None,
        flops_per_s=each_second(flops),
        roof_share=None if floor_ns is None or not device_ns else floor_ns / device_ns,
    )


def _sum(numbers: Sequence[float | None]) -> float | None:
    """Return the sum; ``None`` where a number is not known."""
    known = [each for each in numbers if each is not None]
    return sum(known) if len(known) == len(numbers) else None
