"""Cards of launches, of the plans made for them, and of what was measured or compiled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kerneldsl.contract import Resources
from kerneldsl.errors.values import safe_repr
from kerneldsl.kernels.launches import BoundLaunch, Launch
from kerneldsl.launch.specialization_info import SpecializationInfo
from kerneldsl.launch.timing import Timing
from kerneldsl.planner.block_occupancy import Occupancy
from kerneldsl.planner.formula import PlanFormula
from kerneldsl.planner.plan import LaunchPlan
from kerneldsl.planner.words import compared_rows, headline, plan_facts
from kerneldsl.utilities.formatting import format_bytes, format_count, format_duration
from kerneldsl.utilities.html import Html, card, element, facts_table, fold, items, table

__all__ = [
    "bound_card",
    "formula_card",
    "launch_card",
    "occupancy_card",
    "occupancy_text",
    "plan_card",
    "specializations_rows",
    "specializations_table",
]


def launch_card(launch: Launch[Any]) -> Html:
    """Return the card of a launch: its kernel and shape."""
    return card(f"Launch of {launch.kernel.__qualname__}", _shape(launch))


def bound_card(bound: BoundLaunch) -> Html:
    """Return the card of a launch with its arguments."""
    listed = [(safe_repr(each),) for each in bound.args]
    return card(
        f"Prepared launch of {bound.launch.kernel.__qualname__}",
        _shape(bound.launch),
        table(("arguments",), listed),
    )


def _shape(launch: Launch[Any]) -> Html:
    shape = launch._shape
    return facts_table(
        (
            ("extent", shape.extent),
            ("grid", shape.grid_dim),
            ("block", shape.block_dim or (None if shape.space else "chosen by the planner")),
            ("space", None if shape.space is None else format_count(len(shape.space), "member")),
            ("stream", None if shape.stream is None else safe_repr(shape.stream)),
            (
                "dynamic shared memory",
                format_bytes(shape.shared_bytes) if shape.shared_bytes else None,
            ),
        )
    )


def plan_card(plan: LaunchPlan) -> Html:
    """Return the card of a plan: what was decided, why, and what lost against it."""
    compared = table(*compared_rows(plan)) if plan.considered else Html()
    return card(
        headline(plan),
        items((*plan_facts(plan), *plan.reasons)),
        *(element("p", f"Note: {each}") for each in plan.notes),
        fold(f"Compared with others, {plan.considered_count} plans in all", compared)
        if plan.considered
        else Html(),
    )


def formula_card(formula: PlanFormula) -> Html:
    """Return the card of a plan's formula: its steps, and what its symbols are worth."""
    symbols = ((symbol.name, f"{value:.6g}") for symbol, value in formula.values.items())
    return card(
        "Predicted time of a plan, in nanoseconds",
        table(("step", "is", "in the plan"), formula.lines()),
        fold("Symbols", table(("symbol", "value"), symbols)),
    )


def occupancy_card(found: Occupancy) -> Html:
    """Return the card of an occupancy: what is held, what limits it, what would help."""
    head, *lines = found.explain().splitlines()
    return card(head, items(each.strip() for each in lines))


def occupancy_text(found: Occupancy) -> str:
    """Return what a terminal shows of an occupancy."""
    return found.explain()


def timing_card(timing: Timing) -> Html:
    """Return the card of a measured time."""
    return card(
        f"{format_duration(timing.median_ns)} a launch",
        facts_table(
            (
                ("median", format_duration(timing.median_ns)),
                ("best", format_duration(timing.min_ns)),
                ("samples", f"{timing.samples}, of {timing.launches:,} launches each"),
                ("device", timing.device),
                ("includes", timing.includes),
            )
        ),
    )


def resources_card(resources: Resources) -> Html:
    """Return the card of what a compiled kernel takes."""
    return card(
        "Resources of a kernel",
        facts_table(
            (
                ("registers of a thread", resources.registers),
                ("spilled by a thread", _bytes(resources.spill_bytes)),
                ("local memory of a thread", _bytes(resources.local_bytes)),
                ("static shared memory of a block", _bytes(resources.static_shared_bytes)),
                ("largest block", f"{resources.max_block_threads} threads"),
            )
        ),
    )


def _bytes(count: int | None) -> str | None:
    return None if count is None else format_bytes(count)


def specialization_card(info: SpecializationInfo) -> Html:
    """Return the card of a compiled form of a kernel."""
    return card("Compiled for", specializations_table((info,)))


def specializations_table(infos: Iterable[SpecializationInfo]) -> Html:
    """Return the table of compiled forms."""
    return table(*specializations_rows(infos))


def specializations_rows(
    infos: Iterable[SpecializationInfo],
) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
    """Return the headers and rows of the table of compiled forms."""
    return ("target", "architecture", "arguments", "launch", "block", "compiled in"), (
        (
            info.target,
            info.arch,
            info.signature,
            "grid and block" if info.forall_ndim is None else f"extent of rank {info.forall_ndim}",
            info.block_dim,
            format_duration(info.compile_s * 1e9),
        )
        for info in infos
    )
