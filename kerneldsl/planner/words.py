"""The planner in words: a plan in a line, or on a page; what limits an occupancy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from textwrap import indent
from typing import TYPE_CHECKING

from kerneldsl.contract import ElementMapping
from kerneldsl.planner.block_limits import (
    block_limits,
    dynamic_share,
    least,
    preferred_carveout,
    register_limit,
)
from kerneldsl.planner.cost import BOUND_WORDS
from kerneldsl.utilities.formatting import (
    format_count,
    format_decimal_bytes,
    format_duration,
    format_percent,
    text_table,
)

if TYPE_CHECKING:
    from kerneldsl.planner.block_occupancy import Occupancy
    from kerneldsl.planner.plan import LaunchPlan, PlanAlternative

__all__ = [
    "compared_rows",
    "explain_occupancy",
    "explain_plan",
    "headline",
    "name_limiters",
    "plan_facts",
    "plan_rows",
    "summarize_occupancy",
]


def name_limiters(names: Iterable[str]) -> str:
    """Say which resources allow no more blocks.

    Examples
    --------
    >>> name_limiters(("warps", "shared_memory"))
    'warps and shared memory'
    """
    return " and ".join(map(_spaced, names))


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def headline(plan: LaunchPlan) -> str:
    """Say in one line what is launched."""
    over = "" if plan.extent is None else f" over {_dims(plan.extent)}"
    if plan.host is not None:
        chosen = [_host(plan), *(f"{name} {value}" for name, value in plan.parameters)]
        return f"{plan.kernel}{over} on {plan.device}: {', '.join(chosen)}."
    parts = [
        f"{format_count(plan.grid_blocks, 'block')} of {_dims(plan.block_dim)} "
        f"thread{'s' * (math.prod(plan.block_dim) != 1)}"
    ]
    if plan.mapping.item_count > 1:
        parts.append(_mapping(plan.mapping))
    if plan.cluster_dim is not None:
        one = math.prod(plan.cluster_dim) == 1
        parts.append(f"clusters of {_dims(plan.cluster_dim)} block{'' if one else 's'}")
    if plan.is_cooperative:
        parts.append("cooperative")
    parts += [f"{name} {value}" for name, value in plan.parameters if name != "block"]
    # A device that is only described is called by its architecture.
    where = plan.device if plan.arch in plan.device else f"{plan.device} ({plan.arch})"
    return f"{plan.kernel}{over} on {where}: {', '.join(parts)}."


def explain_plan(plan: LaunchPlan) -> str:
    """Say in words what was decided, why, and what lost against it.

    The headline; what the plan does to the device; the alternatives as a table; notes.
    """
    lines = [headline(plan)]
    lines += [f"  {each}" for each in (*plan_facts(plan), *plan.reasons)]
    if plan.considered:
        lines.append(f"  {_compared(plan.considered_count)} the best of the others:")
        lines.append(indent(text_table(*compared_rows(plan)), "    "))
    lines += [f"  Note: {note}" for note in plan.notes]
    return "\n".join(lines)


def plan_facts(plan: LaunchPlan) -> list[str]:
    """Return what the plan does to the device, a sentence each."""
    found = []
    if plan.occupancy is not None:
        by = name_limiters(plan.limiters)
        spills = f", {format_count(plan.spill_bytes, 'byte')} spilled" if plan.spill_bytes else ""
        found.append(
            f"Occupancy {format_percent(plan.occupancy, '.0f')}: a multiprocessor holds "
            f"{format_count(plan.active_blocks or 0, 'block')} at once, limited by {by} "
            f"({format_count(plan.registers or 0, 'register')} a thread{spills})."
        )
    if plan.carveout_bytes:
        found.append(
            f"Shared memory: {format_count(plan.shared_bytes, 'dynamic byte')} a block; the blocks "
            f"of a multiprocessor need a carve-out of {plan.carveout_bytes}."
        )
    if plan.waves is not None and plan.tail_efficiency is not None:
        found.append(
            f"Waves {plan.waves:.2f}"
            + (
                f"; tail efficiency {format_percent(plan.tail_efficiency, '.0f')}."
                if plan.waves > 1
                else ": all blocks run at once."
            )
        )
    if plan.bytes_in_flight and plan.bytes_to_saturate:
        found.append(
            f"Bytes in flight {format_decimal_bytes(plan.bytes_in_flight)}; "
            f"{format_decimal_bytes(plan.bytes_to_saturate)} saturate memory."
        )
    if plan.predicted_ns is not None and plan.bound is not None:
        moved = f" for {format_decimal_bytes(plan.bytes_moved)}" if plan.bytes_moved else ""
        found.append(
            f"Predicted {format_duration(plan.predicted_ns)}{moved}, limited by "
            f"{BOUND_WORDS[plan.bound]}."
        )
    return found


def compared_rows(plan: LaunchPlan) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """List what was compared, the taken plan first, after a heading."""
    head, rows = plan_rows((plan, *plan.considered))
    reasons = ("taken", *(other.why for other in plan.considered))
    return (*head, ""), [(*row, why) for row, why in zip(rows, reasons, strict=True)]


def plan_rows(
    plans: Sequence[LaunchPlan | PlanAlternative],
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """List the differences between plans of one launch, after a heading."""
    names = tuple(name for name, _ in plans[0].parameters)
    rows: list[tuple[str, ...]] = []
    for each in plans:
        values = dict(each.parameters)
        own = (_dims(each.block_dim), _dims(each.mapping.items), str(each.mapping.vector))
        rows.append(
            (
                *(tuple(str(values.get(name, "")) for name in names) if names else own),
                "–" if each.predicted_ns is None else format_duration(each.predicted_ns),
            )
        )
    # The values of a space's members describe them completely.
    return (*(names or ("block", "items", "vector")), "predicted"), rows


def _host(plan: LaunchPlan) -> str:
    assert plan.host is not None
    if not plan.host.is_parallel:
        return "in the calling thread"
    return f"{format_count(plan.host.threads, 'thread')}, {plan.host.chunk} at a time"


def _mapping(mapping: ElementMapping) -> str:
    text = f"{_dims(mapping.items)} items a thread"
    if mapping.vector > 1:
        text += f" in vectors of {mapping.vector}"
    elif mapping.items[0] > 1:
        text += " a block apart" if mapping.order == "strided" else " side by side"
    return text


def _dims(dims: tuple[int, ...]) -> str:
    """Return the extents as a person writes them: trailing ones left out."""
    kept = list(dims)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "×".join(map(str, kept))


def _compared(count: int) -> str:
    verb = "was" if count == 1 else "were"
    return f"{format_count(count, 'plan')} {verb} compared. This one, and"


def summarize_occupancy(found: Occupancy) -> str:
    """Say in one sentence what a multiprocessor holds and what limits it."""
    by = name_limiters(found.limiters)
    threads = format_count(found.block_threads, "thread")
    if not found.active_blocks:
        return f"No block of {threads} fits on a multiprocessor, because of {by}."
    return (
        f"{format_count(found.active_blocks, 'block')} of {threads} at once, {found.active_warps} "
        f"of {found.device.max_warps_per_multiprocessor} warps: occupancy "
        f"{format_percent(found.fraction, '.0f')}, "
        f"limited by {by}."
    )


def explain_occupancy(found: Occupancy) -> str:
    """Say in words what a multiprocessor holds.

    It lists the resources in use, then a line for each limit with the blocks that it permits. The
    last line is the change that makes one more block fit.

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
    lines += [f"  {_spaced(name)}: {_REASONS[name](found)}." for name in found.limiters]
    alone = ", ".join(
        f"{_spaced(name)} {blocks}"
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
            f"  The kernel was compiled for blocks of {format_count(largest, 'thread')} at most; "
            "the launch would be refused."
        )
    if found.device.rules_of is not None:
        lines.append(
            "  Compute capability {}.{} is newer than the model; it is taken to allocate like "
            "{}.{}.".format(*found.device.compute_capability, *found.device.rules_of)
        )
    return "\n".join(lines)


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
    fitting = each // per_warp
    return (
        f"{taken}; {format_count(fitting, 'warp')} {'fits' if fitting == 1 else 'fit'} into each "
        f"of {partitions} partitions of {each}"
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


def _counted(what: str) -> Callable[[Occupancy], str]:
    """Explain a resource that is counted alone; `what` are those of a block."""

    def explain(found: Occupancy) -> str:
        available = getattr(found.device, f"max_{what}_per_multiprocessor")
        return (
            f"a block takes {getattr(found.kernel, what)} of {available} that a multiprocessor has"
        )

    return explain


_REASONS: dict[str, Callable[[Occupancy], str]] = {
    "warps": _warps,
    "registers": _registers,
    "shared_memory": _shared_memory,
    "blocks": _blocks,
    "barriers": _counted("barriers"),
    "virtual_resources": _counted("virtual_resources"),
}


def _remedy(found: Occupancy) -> str:
    """Return the change that makes one more block fit, if one resource alone prevents it."""
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
