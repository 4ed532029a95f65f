"""Score of a device, computed from its description.

The kind of a device comes first: discrete GPU 1000, integrated GPU 500, share of a GPU 100, CPU 50,
other 10. Compute capability, memory and multiprocessors add less than 40 points together. This is
less than the smallest step between kinds, so that they only rank devices of one kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from kerneldsl.contract import Device, DeviceKind
from kerneldsl.placement.registry import get_target, hardware_targets
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "KIND_POINTS",
    "Score",
    "best_device_of",
    "score_of",
    "usable_devices",
]

KIND_POINTS: dict[DeviceKind, int] = {
    "discrete": 1000,
    "integrated": 500,
    "virtual": 100,
    "cpu": 50,
    "other": 10,
}
# Each part grows with its quantity and stays below its points: points · q / (q + half), which is
# half of the points at `half`.
_CAPABILITY_POINTS, _HALF_CAPABILITY = 15, 10
_MEMORY_POINTS, _HALF_MEMORY_GIB = 12, 64
_MULTIPROCESSOR_POINTS, _HALF_MULTIPROCESSORS = 12, 128


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a device, in its parts.

    Parameters
    ----------
    device : str
        The device, such as ``"cuda:0"``.
    kind : str
        Its kind.
    kind_points : float
        1000 for a discrete GPU, 500 for an integrated one, 100 for a share of a GPU, 50 for a CPU,
        10 for anything else.
    compute_capability_points : float
        15 · c / (c + 10) for compute capability c, such as 8.6; 0 without one.
    memory_points : float
        12 · m / (m + 64) for m GiB of memory.
    multiprocessor_points : float
        12 · n / (n + 128) for n multiprocessors, or cores.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> found = kd.score("cpu")
    >>> found.kind_points, found.total > 50
    (50, True)
    """

    device: str
    kind: DeviceKind
    kind_points: float
    compute_capability_points: float
    memory_points: float
    multiprocessor_points: float

    @property
    def total(self) -> float:
        """The sum of the parts."""
        return self.kind_points + (
            self.compute_capability_points + self.memory_points + self.multiprocessor_points
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the parts and the total as values for JSON."""
        return {**asdict(self), "total": self.total}

    def _rows(self) -> list[tuple[str, str]]:
        return [
            (f"kind ({self.kind})", f"{self.kind_points:.1f}"),
            ("compute capability", f"{self.compute_capability_points:.1f}"),
            ("memory", f"{self.memory_points:.1f}"),
            ("multiprocessors", f"{self.multiprocessor_points:.1f}"),
            ("total", f"{self.total:.1f}"),
        ]

    def __str__(self) -> str:
        return f"{self.total:.1f}"

    def __repr__(self) -> str:
        from kerneldsl.utilities.formatting import (
            text_table,  # a launch needs the score, and no tables
        )

        return text_table((self.device, "points"), self._rows())

    def _repr_html_(self) -> str:
        from kerneldsl.utilities.formatting import html_table

        return html_table(("part", "points"), self._rows(), f"Score of {self.device}")


def score_of(device: Device, total_memory_bytes: int | None = None) -> Score:
    """Score a device.

    Parameters
    ----------
    device : Device
        The device with the attributes that its target reports without a full description.
    total_memory_bytes : int, optional
        Its memory, if the target reports that only in the full description.
    """
    major, minor = device.extra.get("compute_capability", (0, 0))
    memory = total_memory_bytes or device.extra.get("total_memory_bytes", 0)
    return Score(
        str(device),
        device.kind,
        KIND_POINTS.get(device.kind, KIND_POINTS["other"]),
        _saturating(_CAPABILITY_POINTS, major + minor / 10, _HALF_CAPABILITY),
        _saturating(_MEMORY_POINTS, memory / 2**30, _HALF_MEMORY_GIB),
        _saturating(
            _MULTIPROCESSOR_POINTS, device.limits.multiprocessor_count, _HALF_MULTIPROCESSORS
        ),
    )


def _saturating(points: float, quantity: float, half: float) -> float:
    return points * quantity / (quantity + half)


def usable_devices() -> Iterator[Device]:
    """Return the devices with hardware that can run kernels here, in their order.

    Targets of third parties are not among them; users must name them. A search for installed
    targets would take 0.06 s at the first launch of every program.
    """
    for name in hardware_targets():
        yield from (d for d in get_target(name).devices() if d.unusable_reason() is None)


def best_device_of(candidates: Iterator[Device]) -> Device:
    """Return the device with the highest score; among equal ones, the first."""
    return max(candidates, key=lambda device: score_of(device).total)
