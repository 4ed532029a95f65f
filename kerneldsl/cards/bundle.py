"""Forms in which a notebook shows a value: plain text, and a card in HTML."""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping
from importlib import import_module
from typing import Any

from kerneldsl.utilities.modules import imported

__all__ = ["CARDS", "is_html_shown", "mimebundle"]

_logger = logging.getLogger("kerneldsl.cards")

_HTML, _PLAIN = "text/html", "text/plain"

#: Class to the function that makes its card, in a module of this package. A subclass has the card
#: of the nearest of its bases.
CARDS = {
    "kerneldsl.cards.magics.Code": "magics.code_card",
    "kerneldsl.contract.code.Resources": "launches.resources_card",
    "kerneldsl.contract.device.Device": "objects.device_card",
    "kerneldsl.contract.info.DeviceInfo": "objects.info_card",
    "kerneldsl.explain.accesses.AccessReport": "explanations.access_card",
    "kerneldsl.explain.explanation.Explanation": "explanations.explanation_card",
    "kerneldsl.explain.explanation.Finding": "explanations.finding_card",
    "kerneldsl.explain.roofline.Roofline": "explanations.roofline_card",
    "kerneldsl.kernels.kernel.DeviceFunction": "kernels.function_card",
    "kerneldsl.kernels.kernel.Kernel": "kernels.kernel_card",
    "kerneldsl.kernels.launches.BoundLaunch": "launches.bound_card",
    "kerneldsl.kernels.launches.Launch": "launches.launch_card",
    "kerneldsl.launch.specialization_info.SpecializationInfo": "launches.specialization_card",
    "kerneldsl.launch.timing.Timing": "launches.timing_card",
    "kerneldsl.memory.arrays.DeviceArray": "objects.array_card",
    "kerneldsl.planner.formula.PlanFormula": "launches.formula_card",
    "kerneldsl.planner.block_occupancy.Occupancy": "launches.occupancy_card",
    "kerneldsl.planner.plan.LaunchPlan": "launches.plan_card",
    "kerneldsl.planner.space.Member": "objects.member_card",
    "kerneldsl.planner.space.Space": "objects.space_card",
    "kerneldsl.profiling.profile.Profile": "tables.profile_card",
    "kerneldsl.streams.streams.Stream": "objects.stream_card",
    "kerneldsl.utilities.formatting.AsTable": "tables.table_card",
    "kerneldsl.utilities.shown.ShownTuple": "explanations.tuple_card",
}
#: Classes with the text of ``print`` as their plain text, since their repr is one line.
_PRINTED = (
    "kerneldsl.explain.explanation.Explanation",
    "kerneldsl.explain.explanation.Finding",
    "kerneldsl.planner.formula.PlanFormula",
)
#: Function that writes the text for a terminal, by class; a card cannot be unfolded there.
_IN_TERMINALS = {
    "kerneldsl.kernels.kernel.Kernel": "kernels.kernel_text",
    "kerneldsl.planner.block_occupancy.Occupancy": "launches.occupancy_text",
    "kerneldsl.profiling.profile.Profile": "tables.profile_text",
    "kerneldsl.utilities.shown.ShownTuple": "explanations.tuple_text",
}


def mimebundle(
    thing: Any, include: Container[str] | None = None, exclude: Container[str] | None = None
) -> dict[str, str]:
    """Return the forms of a value that are wanted; never raises.

    - `thing`: an object of a class in `CARDS`.
    - `include`, `exclude`: MIME types that are wanted, and those that are not.
    - returns: MIME type to text.

    References
    ----------
    IPython documentation, "Integrating your objects with IPython", section "Rich display".
    """

    def is_wanted(kind: str) -> bool:
        return (include is None or kind in include) and not (exclude and kind in exclude)

    found = {_PLAIN: _plain_text(thing)} if is_wanted(_PLAIN) else {}
    if is_wanted(_HTML) and (include is not None or is_html_shown()):
        card = _card(thing, CARDS)
        if card is not None:
            found[_HTML] = card
    return found


def _card(thing: Any, makers: Mapping[str, str]) -> str | None:
    """Return the text of a card, or ``None`` if it fails: the plain text is shown then."""
    try:
        return str(_maker(type(thing), makers)(thing))
    except Exception:
        _logger.debug("the card of a %s fails", type(thing).__name__, exc_info=True)
        return None


def _plain_text(thing: Any) -> str:
    card = None if is_html_shown() else _card(thing, _IN_TERMINALS)
    if card is not None:
        return card
    try:
        return str(thing) if set(_names(type(thing))) & {*_PRINTED} else repr(thing)
    except Exception:  # noqa: BLE001 -- a foreign object in it may raise anything
        return object.__repr__(thing)


def _maker(kind: type, makers: Mapping[str, str] = CARDS) -> Any:
    """Return the function that makes the card of a class."""
    module, _, function = next(makers[n] for n in _names(kind) if n in makers).partition(".")
    return getattr(import_module(f"kerneldsl.cards.{module}"), function)


def _names(kind: type) -> list[str]:
    return [f"{each.__module__}.{each.__qualname__}" for each in kind.__mro__]


def is_html_shown() -> bool:
    """Return whether there may be a reader of HTML: IPython in a terminal says that it has none."""
    ipython = imported("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is None or _HTML in shell.display_formatter.active_types
