"""Cards of launches, and of the plans made for them."""

from __future__ import annotations

from typing import Any

from kerneldsl.errors.values import safe_repr
from kerneldsl.kernels.launches import BoundLaunch, Launch
from kerneldsl.planner.block_occupancy import Occupancy
from kerneldsl.planner.formula import PlanFormula
from kerneldsl.planner.plan import LaunchPlan
from kerneldsl.planner.words import compared_rows, headline, plan_facts
from kerneldsl.utilities.formatting import format_bytes
from kerneldsl.utilities.html import Html, card, element, facts_table, fold, items, table

__all__ = [
    "bound_card",
    "formula_card",
    "launch_card",
    "occupancy_card",
    "occupancy_text",
    "plan_card",
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
            ("space", None if shape.space is None else f"{len(shape.space)} members"),
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
