"""Statistics of the memory of a pool and of a device."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import format_bytes, format_count, format_percent, html_table

__all__ = ["MemoryStatistics", "PoolStatistics"]


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """Statistics of a pool.

    Parameters
    ----------
    device : str
        The device, such as ``"cuda:0"``.
    name : str
        Name of the pool; ``"default"`` for the default pool of the device.
    in_use_bytes : int
        Bytes of live arrays, as requested.
    reserved_bytes : int
        Bytes that the pool holds of the device, in use or cached. The driver allocates whole pages.
    peak_bytes : int
        Largest value of `in_use_bytes` so far.
    largest_bytes : int
        Largest single allocation so far.
    limit_bytes : int or None
        Limit of `in_use_bytes`; ``None`` for no limit.
    allocation_count, free_count : int
        Numbers of allocations and of frees. Arrays without elements are not allocated.
    hit_count : int
        Allocations that needed no more memory from the device.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> pool = kd.MemoryPool()
    >>> pool.stats().allocation_count
    0
    """

    device: str
    name: str
    in_use_bytes: int
    reserved_bytes: int
    peak_bytes: int
    largest_bytes: int
    limit_bytes: int | None
    allocation_count: int
    free_count: int
    hit_count: int

    @property
    def hit_ratio(self) -> float:
        """Share of allocations without more memory from the device; 1 if there were none."""
        return self.hit_count / self.allocation_count if self.allocation_count else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return every value by its name, for JSON."""
        return {**asdict(self), "hit_ratio": self.hit_ratio}

    def __str__(self) -> str:
        limit = "" if self.limit_bytes is None else f" of at most {format_bytes(self.limit_bytes)}"
        return (
            f"pool {self.name!r} on {self.device}: {format_bytes(self.in_use_bytes)} in use"
            f"{limit}, {format_bytes(self.reserved_bytes)} reserved, peak "
            f"{format_bytes(self.peak_bytes)}; "
            f"{format_count(self.allocation_count, 'allocation')}, "
            f"{format_percent(self.hit_ratio, '.0f')} hits, "
            f"{format_count(self.free_count, 'free')}"
        )

    def _repr_html_(self) -> str:
        return html_table(_HEADERS, [_row(self)], f"memory pool on {self.device}")


#: Headers of the columns of a pool.
_HEADERS = ("pool", "in use", "reserved", "peak", "limit", "allocations", "frees", "hits")


def _row(pool: PoolStatistics) -> tuple[object, ...]:
    return (
        pool.name,
        format_bytes(pool.in_use_bytes),
        format_bytes(pool.reserved_bytes),
        format_bytes(pool.peak_bytes),
        None if pool.limit_bytes is None else format_bytes(pool.limit_bytes),
        pool.allocation_count,
        pool.free_count,
        format_percent(pool.hit_ratio, ".0f"),
    )


@dataclass(frozen=True, slots=True)
class MemoryStatistics:
    """Statistics of the memory of a device, over all its pools.

    Parameters
    ----------
    device : str
        The device, such as ``"cuda:0"``.
    total_bytes, free_bytes : int or None
        The memory of the device and its free part; ``None`` if the target cannot report it.
    in_use_bytes, reserved_bytes, peak_bytes, largest_bytes : int
        As in `PoolStatistics`, over all pools of the device. The peak is that of their sum.
    allocation_count, free_count, hit_count : int
        As in `PoolStatistics`, including deleted pools.
    pinned_bytes, managed_bytes : int
        Page-locked host memory and managed memory of live arrays.
    pools : tuple of PoolStatistics
        The present pools.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> x = kd.zeros(1000)
    >>> kd.memory_stats().in_use_bytes >= x.nbytes
    True
    """

    device: str
    total_bytes: int | None
    free_bytes: int | None
    in_use_bytes: int
    reserved_bytes: int
    peak_bytes: int
    largest_bytes: int
    allocation_count: int
    free_count: int
    hit_count: int
    pinned_bytes: int
    managed_bytes: int
    pools: tuple[PoolStatistics, ...]

    @property
    def hit_ratio(self) -> float:
        """Share of allocations without more memory from the device; 1 if there were none."""
        return self.hit_count / self.allocation_count if self.allocation_count else 1.0

    @property
    def elsewhere_bytes(self) -> int | None:
        """Bytes in use by other processes, other libraries and contexts."""
        if self.total_bytes is None or self.free_bytes is None:
            return None
        return max(self.total_bytes - self.free_bytes - self.reserved_bytes, 0)

    def to_dict(self) -> dict[str, Any]:
        """Return every value by its name, for JSON."""
        return {
            **asdict(self),
            "hit_ratio": self.hit_ratio,
            "elsewhere_bytes": self.elsewhere_bytes,
            "pools": [pool.to_dict() for pool in self.pools],
        }

    def __str__(self) -> str:
        lines = [f"memory of {self.device}: {format_bytes(self.in_use_bytes)} in use"]
        if self.total_bytes is not None and self.free_bytes is not None:
            lines[0] += (
                f"; {format_bytes(self.free_bytes)} of {format_bytes(self.total_bytes)} free"
            )
        return "\n  ".join([*lines, *map(str, self.pools)])

    def _repr_html_(self) -> str:
        caption, *_ = str(self).splitlines()
        return html_table(_HEADERS, map(_row, self.pools), caption)
