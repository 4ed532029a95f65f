"""An occupancy in words: what is held, what limits it, and what would let one block more in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kerneldsl.planner.block_limits import (
    block_limits,
    dynamic_share,
    least,
    preferred_carveout,
    register_limit,
)

if TYPE_CHECKING:
    from kerneldsl.planner.occupancy import Occupancy

__all__ = ["explain_occupancy", "summarize_occupancy"]

#: Fields of `BlockLimits` as a person says them.
_NAMES = {
    "warps": "warps",
    "registers": "registers",
    "shared_memory": "shared memory",
    "blocks": "blocks",
    "barriers": "barriers",
    "virtual_resources": "virtual resources",
}


def summarize_occupancy(found: Occupancy) -> str:
    """Say in one sentence what a multiprocessor holds and what limits it.

    Parameters
    ----------
    found : Occupancy
        What was computed.

    Returns
    -------
    str
        One line.
    """
    by = " and ".join(_NAMES[name] for name in found.limiters)
    threads = _count(found.block_threads, "thread")
    if not found.active_blocks:
        return f"No block of {threads} fits on a multiprocessor, because of {by}."
    return (
        f"{_count(found.active_blocks, 'block')} of {threads} at once, {found.active_warps} of "
        f"{found.device.max_warps_per_multiprocessor} warps: occupancy {found.fraction:.0%}, "
        f"limited by {by}."
    ).replace("%", " %")


def explain_occupancy(found: Occupancy) -> str:
    """Say in words what a multiprocessor holds.

    Parameters
    ----------
    found : Occupancy
        What was computed.

    Returns
    -------
    str
        What is held; a line for each limit that counts; what each limit alone would allow; what
        would let one block more in, where something would.

    Examples
    --------
    >>> from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, occupancy
    >>> hopper = DeviceOccupancyLimits.for_compute_capability((9, 0))
    >>> print(occupancy(hopper, KernelResources(registers=80), 160).explain())
    4 blocks of 160 threads at once, 20 of 64 warps: occupancy 31 %, limited by registers.
      registers: a warp takes 2560 (80 a thread); 6 warps fit into each of 4 partitions of 16384.
      Allowed by each limit alone: warps 12, registers 4, shared memory 228, blocks 32, barriers 64.
      One more block would fit with 72 registers a thread or fewer.
    """
    lines = [summarize_occupancy(found)]
    lines += [f"  {_NAMES[name]}: {_REASONS[name](found)}." for name in found.limiters]
    alone = ", ".join(
        f"{_NAMES[name]} {blocks}"
        for name, blocks in zip(found.limits._fields, found.limits, strict=True)
        if blocks is not None
    )
    lines.append(f"  Allowed by each limit alone: {alone}.")
    remedy = _remedy(found)
    if remedy:
        lines.append(f"  {remedy}.")
    largest = found.kernel.max_threads_per_block
    if found.block_threads > largest:
        lines.append(
            f"  The kernel was compiled for blocks of {_count(largest, 'thread')} at most; the "
            "launch would be refused."
        )
    if found.device.rules_of is not None:
        lines.append(
            "  Compute capability {}.{} is newer than the model; it is taken to allocate like "
            "{}.{}.".format(*found.device.compute_capability, *found.device.rules_of)
        )
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _warps(found: Occupancy) -> str:
    device = found.device
    if found.block_threads > device.max_threads_per_block:
        return f"a block can have {device.max_threads_per_block} threads"
    return (
        f"a block takes {found.warps_per_block} of the {device.max_warps_per_multiprocessor} "
        "that a multiprocessor holds"
    )


def _registers(found: Occupancy) -> str:
    device, registers = found.device, found.kernel.registers
    if registers > device.max_registers_per_thread:
        return f"{registers} a thread, where a thread can have {device.max_registers_per_thread}"
    per_warp = found.registers_per_block // found.warps_per_block
    partitions = device.register_partitions
    taken = f"a warp takes {per_warp} ({registers} a thread)"
    if not found.limits.registers and per_warp:
        rounded = -(-found.warps_per_block // partitions) * partitions
        demand = rounded * per_warp
        if demand > device.max_registers_per_block:
            return (
                f"{taken}, and a block of {found.warps_per_block} warps counts as {rounded}: "
                f"{demand}, where a block can have {device.max_registers_per_block}"
            )
    each = device.max_registers_per_multiprocessor // partitions
    return (
        f"{taken}; {_count(each // per_warp, 'warp')} {'fits' if each // per_warp == 1 else 'fit'} "
        f"into each of {partitions} partitions of {each}"
    )


def _shared_memory(found: Occupancy) -> str:
    device, kernel = found.device, found.kernel
    parts = [
        f"{kernel.static_shared_bytes} static",
        f"{found.dynamic_shared_bytes} dynamic",
    ]
    if device.reserved_shared_memory_per_block:
        parts.append(f"{device.reserved_shared_memory_per_block} reserved by the driver")
    taken = f"a block takes {found.shared_bytes_per_block} bytes ({', '.join(parts)})"
    if found.limits.shared_memory:
        room = max(
            preferred_carveout(device, kernel), device.carveout_for(found.shared_bytes_per_block)
        )
        return f"{taken} of the {room} that a multiprocessor gives to shared memory"
    cap = kernel.max_dynamic_shared_bytes
    if cap is None:
        return (
            f"{taken}; without opting in it can have {device.max_shared_memory_per_block} beside "
            "what is reserved"
        )
    if found.dynamic_shared_bytes > cap:
        return f"{taken}; the kernel has opted in to {cap} dynamic"
    return (
        f"{taken}; opted in it can have {device.max_shared_memory_per_block_optin} beside what is "
        "reserved"
    )


def _blocks(found: Occupancy) -> str:
    return f"a multiprocessor holds {found.device.max_blocks_per_multiprocessor} of any size"


def _barriers(found: Occupancy) -> str:
    return (
        f"a block takes {found.kernel.barriers} of "
        f"{found.device.max_barriers_per_multiprocessor} that a multiprocessor has"
    )


def _virtual_resources(found: Occupancy) -> str:
    return (
        f"a block takes {found.kernel.virtual_resources} of "
        f"{found.device.max_virtual_resources_per_multiprocessor} that a multiprocessor has"
    )


_REASONS: dict[str, Callable[[Occupancy], str]] = {
    "warps": _warps,
    "registers": _registers,
    "shared_memory": _shared_memory,
    "blocks": _blocks,
    "barriers": _barriers,
    "virtual_resources": _virtual_resources,
}


def _remedy(found: Occupancy) -> str:
    """What would let one block more in, where one resource alone stands against it."""
    wanted = found.active_blocks + 1
    more = "One more block would fit" if found.active_blocks else "A block would fit"
    if found.limiters == ("registers",):
        for registers in range(min(found.kernel.registers - 1, 255), 0, -1):
            allowed = register_limit(found.device, registers, found.warps_per_block)[0]
            if allowed is None or allowed >= wanted:
                return f"{more} with {registers} registers a thread or fewer"
    if found.limiters == ("shared_memory",):
        nbytes = _dynamic_bytes_for(found, wanted)
        if nbytes is not None:
            return f"{more} with {nbytes} bytes of dynamic shared memory or fewer"
    return ""


def _dynamic_bytes_for(found: Occupancy, blocks: int) -> int | None:
    without, _, _ = block_limits(found.device, found.kernel, found.block_threads, 0)
    if least(without) < blocks:
        return None
    nbytes = dynamic_share(found.device, found.kernel, blocks)
    # A small carve-out grows with what a block takes, so that the answer need not be a smaller one.
    return nbytes if nbytes < found.dynamic_shared_bytes else None
