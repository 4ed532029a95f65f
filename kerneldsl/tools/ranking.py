"""Ranking of devices by their score, or by the time of a small copy and some arithmetic.

The rate of arithmetic is the number of operations divided by their time. It is the device's limit
if its units are never idle. A GPU hides the latency of a chain of multiply-adds, because it has
many threads. A core of a CPU needs about 2 units times 4 cycles = 8 independent vectors (Intel 64
and IA-32 Architectures Optimization Reference Manual, "Fused Multiply-Add"). Here each index has
four chains, which are short, so that several vectors of indices overlap.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any, Literal

from kerneldsl.contract import DeviceInfo, DeviceLike
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, KernelError
from kerneldsl.errors.values import safe_repr
from kerneldsl.kernels.decorators import func, kernel
from kerneldsl.kernels.kernel import Kernel
from kerneldsl.language.intrinsics.places import grid
from kerneldsl.memory.creation import empty, full
from kerneldsl.placement.described import device_info
from kerneldsl.placement.devices import use
from kerneldsl.placement.fallback import fallback
from kerneldsl.placement.scores import Score, score_of, usable_devices
from kerneldsl.streams.waiting import synchronize
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.formatting import AsTable

__all__ = ["Measurement", "RankedDevice", "Ranking", "best_device", "rank_devices", "score"]

#: Seconds of measuring, for all devices together, without compilation.
_BUDGET_SECONDS = 1.0
#: Bytes of an array of the copy: larger than the caches, and much smaller than the memory.
_COPY_BYTES = 128 * 2**20
#: Elements of the arithmetic kernel. A GPU has enough for all threads; a CPU has, for each core, as
#: many as fit into its second cache with their results.
_ARITHMETIC_ELEMENTS = 2**22
_ELEMENTS_OF_A_CORE = 2**17
#: Multiply-adds of an index: in one chain on a GPU, in four of eight each on a CPU.
_FUSED_OPERATIONS = 256
_FUSED_OPERATIONS_ON_HOST = 32
#: Duration of a sample of short launches: so long that the time of waiting for it is negligible.
_SAMPLE_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Measurement:
    """Results of a short measurement on a device."""

    #: Bytes per second that a kernel reads and writes while it copies an array of float32 of up to
    #: 128 MiB.
    copy_bytes_per_s: float
    #: Additions and multiplications per second of a kernel of multiply-adds, over values in the
    #: caches. A multiply-add counts as two.
    float32_operations_per_s: float

    @property
    def figure(self) -> float:
        """The geometric mean of both, by which devices are ranked."""
        return math.sqrt(self.copy_bytes_per_s * self.float32_operations_per_s)


@dataclass(frozen=True, slots=True)
class RankedDevice:
    """A device in a ranking.

    Parameters
    ----------
    info : DeviceInfo
        The device.
    score : Score
        Its score.
    measurement : Measurement or None
        The measurement, if it was requested.
    problem : str or None
        The reason why the device cannot be used or measured. Such devices are last.
    """

    info: DeviceInfo
    score: Score
    measurement: Measurement | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Ranking(AsTable):
    """Devices, the best first.

    Parameters
    ----------
    by : str
        ``"score"`` or ``"benchmark"``.
    entries : tuple of RankedDevice
        The devices.
    """

    by: str
    entries: tuple[RankedDevice, ...]

    @property
    def best(self) -> DeviceInfo:
        """The first device that can be used.

        Raises
        ------
        ArgumentValueError
            If none can be used.
        """
        for entry in self.entries:
            if entry.problem is None:
                return entry.info
        problems = "; ".join(f"{entry.info}: {entry.problem}" for entry in self.entries)
        raise ArgumentValueError(
            "no device of the list can be used",
            value=[str(entry.info) for entry in self.entries],
            limit=problems or "The list of devices is empty",
            remedy="Omit the list: kerneldsl then chooses from all devices, including the CPU",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the ranking as values for JSON."""
        return {
            "by": self.by,
            "devices": [
                {
                    "device": str(entry.info),
                    "name": entry.info.name,
                    "score": entry.score.to_dict(),
                    "copy_bytes_per_s": getattr(entry.measurement, "copy_bytes_per_s", None),
                    "float32_operations_per_s": getattr(
                        entry.measurement, "float32_operations_per_s", None
                    ),
                    "problem": entry.problem,
                }
                for entry in self.entries
            ],
        }

    def _table(self) -> tuple[tuple[str, ...], list[tuple[str | None, ...]]]:
        rows: list[tuple[str | None, ...]] = []
        for entry in self.entries:
            measured = entry.measurement
            figures = (
                (f"{measured.copy_bytes_per_s / 1e9:.4g}" if measured else None),
                (f"{measured.float32_operations_per_s / 1e9:.4g}" if measured else None),
            )
            rows.append(
                (
                    str(entry.info),
                    entry.info.name,
                    entry.info.kind,
                    str(entry.score),
                    *(figures if self.by == "benchmark" else ()),
                    entry.problem or "usable",
                )
            )
        measures = ("copy GB/s", "float32 GFLOP/s") if self.by == "benchmark" else ()
        return ("device", "name", "kind", "score", *measures, ""), rows

    def _caption(self) -> str:
        return f"Devices, the best first, by {self.by}"


def score(device: DeviceLike | None = None) -> Score:
    """Return the score of a device, by which the default device is chosen.

    Parameters
    ----------
    device : str, Device or DeviceInfo, optional
        The device, as for :class:`use`; by default the current one.

    Returns
    -------
    Score
        Its `total`, and the parts. A discrete GPU has 1000 points, an integrated one 500, a share
        of a GPU 100, a CPU 50, and anything else 10. Compute capability, memory and multiprocessors
        together add less than 40.

    Raises
    ------
    UnknownTargetError, TargetUnavailableError, DeviceMismatchError
        As :class:`use` raises them.
    """
    info = device if isinstance(device, DeviceInfo) else device_info(device)
    return score_of(info.device, info.values.get("total_memory_bytes"))


def best_device(
    *, by: Literal["score", "benchmark"] = "score", among: Iterable[DeviceLike] | None = None
) -> DeviceInfo:
    """Return the best device.

    Parameters
    ----------
    by, among
        As for :func:`rank_devices`.

    Raises
    ------
    ArgumentValueError
        If none of the devices can be used, or `by` has another value.
    """
    return rank_devices(by=by, among=among).best


#: No machine has more; a list without an end ends here.
_MAX_DEVICES = 4096


def rank_devices(
    *, by: Literal["score", "benchmark"] = "score", among: Iterable[DeviceLike] | None = None
) -> Ranking:
    """Return devices in order, the best first.

    Parameters
    ----------
    by : {"score", "benchmark"}
        The score (see :func:`score`), or the times of a copy and of an arithmetic kernel. The
        measurement takes about a second for all devices together, and time for compilation.
    among : iterable of str, Device or DeviceInfo, optional
        The devices; by default the GPUs that the CUDA driver shows, and the CPU.
        ``among=kd.devices()`` adds those of other targets.

    Returns
    -------
    Ranking

    Raises
    ------
    ArgumentValueError
        If `by` has another value.
    UnknownTargetError, TargetUnavailableError, DeviceMismatchError
        As :class:`use` raises them.
    """
    if not isinstance(by, str) or by not in ("score", "benchmark"):
        raise ArgumentValueError(
            f"devices cannot be ranked by {safe_repr(by)}",
            value=by,
            limit='by is "score" or "benchmark"',
        )
    if among is None:
        infos = [device.describe() for device in usable_devices()]
    else:
        try:
            listed = (
                None if isinstance(among, (str, DeviceInfo)) else list(islice(among, _MAX_DEVICES))
            )
        except Exception:  # noqa: BLE001 -- a foreign object may raise anything
            listed = None
        if listed is None:
            raise ArgumentTypeError(
                f"among is {safe_repr(among)}",
                value=among,
                limit="It must be a list of devices",
                remedy="Pass among=kd.devices(), or some of these",
            )
        infos = [d if isinstance(d, DeviceInfo) else device_info(d) for d in listed]
    ranked = [
        RankedDevice(info, score(info), problem=info.device.unusable_reason()) for info in infos
    ]
    if by == "benchmark":
        ranked = [_measured(entry, _BUDGET_SECONDS / len(ranked)) for entry in ranked]
    ranked.sort(key=_order)
    ranking = Ranking(by, tuple(ranked))
    logger.debug("devices by %s:\n%s", by, ranking)
    return ranking


def _order(entry: RankedDevice) -> tuple[bool, float]:
    figure = entry.score.total if entry.measurement is None else entry.measurement.figure
    return entry.problem is not None, -figure


# --------------------------------------------------------------------------- measuring


@kernel
def _copy(source, out):  # type: ignore[no-untyped-def]
    i = grid(1)
    if i < out.size:
        out[i] = source[i]


@kernel
def _multiply_add(source, out):  # type: ignore[no-untyped-def]
    i = grid(1)
    if i < out.size:
        x = source[i]
        y = x
        for _ in range(_FUSED_OPERATIONS):
            y = y * x + x
        out[i] = y


@func
def _eight(y, x):  # type: ignore[no-untyped-def]
    y = y * x + x
    y = y * x + x
    y = y * x + x
    y = y * x + x
    y = y * x + x
    y = y * x + x
    y = y * x + x
    return y * x + x


@kernel
def _multiply_add_on_host(source, out):  # type: ignore[no-untyped-def]
    i = grid(1)
    if i < out.size:
        x = source[i]
        double = x + x
        a = _eight(x, x)
        b = _eight(double, x)
        c = _eight(double + x, x)
        d = _eight(double + double, x)
        out[i] = (a + b) + (c + d)


def _measured(entry: RankedDevice, seconds: float) -> RankedDevice:
    if entry.problem is not None:
        return entry
    try:
        measurement = _measure(entry.info, seconds)
    except KernelError as error:
        logger.info("%s was not measured: %s", entry.info, error)
        return RankedDevice(entry.info, entry.score, problem=f"it was not measured: {error}")
    return RankedDevice(entry.info, entry.score, measurement)


def _measure(info: DeviceInfo, seconds: float) -> Measurement:
    room = info.free_memory_bytes // 8
    nbytes = max(4096, min(_COPY_BYTES, room))
    with fallback("never"), use(info):  # else a GPU that fails would show the CPU's figures
        source, out = full(nbytes // 4, 0.5, "float32"), empty(nbytes // 4, "float32")
        copying = _best_seconds(_copy, (source, out), info, seconds / 2)
        arithmetic, fused, n = _multiply_add, _FUSED_OPERATIONS, _ARITHMETIC_ELEMENTS
        if info.device.is_host:
            arithmetic, fused = _multiply_add_on_host, _FUSED_OPERATIONS_ON_HOST
            n = _ELEMENTS_OF_A_CORE * info.device.limits.multiprocessor_count
        n = min(n, source.size)
        computing = _best_seconds(arithmetic, (source[:n], out[:n]), info, seconds / 2)
    return Measurement(2 * nbytes / copying, 2 * fused * n / computing)


def _best_seconds(
    function: Kernel[Any, Any], arrays: tuple[Any, Any], info: DeviceInfo, budget: float
) -> float:
    """Return the shortest time of a launch, over as many samples as fit into the budget."""
    launch = function.forall(arrays[1].size)

    def sample(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            launch(*arrays)
        synchronize(info)
        return (time.perf_counter() - start) / count

    sample(1)  # compiles
    end = time.perf_counter() + budget
    best = sample(1)
    count = max(1, min(100, round(_SAMPLE_SECONDS / best)))
    while time.perf_counter() + count * best < end:
        best = min(best, sample(count))
    return best
