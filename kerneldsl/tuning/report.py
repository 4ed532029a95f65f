"""Result of tuning a launch: a value, a table and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from kerneldsl.launch.measured import Measured, PlanChoices
from kerneldsl.planner.plan import LaunchPlan
from kerneldsl.tuning.t4 import SCHEMA_VERSION, configuration_of, t4_result
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import format_count, format_duration, html_table, text_table

__all__ = ["TunedPlan", "TuningReport"]

#: Plans that the table shows.
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class TunedPlan:
    """A plan that was measured.

    Parameters
    ----------
    plan : PlanChoices
        Block, mapping, member, sharing.
    predicted_ns : float or None
        Its time by the cost model.
    measured : Measured
        Its time.
    was_known : bool
        Whether it had been measured before, and was not measured again.
    """

    plan: PlanChoices
    predicted_ns: float | None
    measured: Measured
    was_known: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class TuningReport:
    """Result of tuning a launch. Made by :meth:`kerneldsl.Launch.tune`.

    Parameters
    ----------
    plan : LaunchPlan
        The plan that launches of this kind take from now on. It can be given to a launch:
        ``kernel.forall(n, plan=report.plan)``.
    tried : tuple of TunedPlan
        Every plan that was measured, in the order of measuring; the first is the cost model's.
    total_count : int
        Plans that there are.
    elapsed_s : float
        Seconds that tuning took.
    is_complete : bool
        Whether the search came to its end; ``False`` where the budget was spent before. True where
        nothing was to be measured.
    software : dict
        Versions of what compiled and ran the kernel.
    """

    plan: LaunchPlan
    tried: tuple[TunedPlan, ...]
    total_count: int
    elapsed_s: float
    is_complete: bool
    software: dict[str, str]

    @property
    def best(self) -> TunedPlan:
        """The plan that was chosen, with its time."""
        chosen = self.plan
        for each in self.tried:
            plan = each.plan
            if (plan.block_dim, plan.mapping, plan.parameters, plan.host) == (
                chosen.block_dim,
                chosen.mapping,
                chosen.parameters,
                chosen.host,
            ):
                return each
        raise AssertionError("the chosen plan was measured")

    @property
    def speedup(self) -> float:
        """Time of the cost model's choice over that of the plan that was chosen."""
        first, best = self.tried[0].measured.median_ns, self.best.measured.median_ns
        if first is None or best is None:
            return float("nan")
        return first / best

    def to_dict(self) -> dict[str, Any]:
        """Return everything as dictionaries, tuples and numbers, for JSON."""
        return asdict(self)

    def to_t4(self) -> dict[str, Any]:
        """Return the measurements in the T4 results format of autotuning tools.

        See :mod:`kerneldsl.tuning.t4`; ``kerneldsl tune export`` writes all that is recorded.
        """
        return {
            "schema_version": SCHEMA_VERSION,
            "metadata": {
                "kernel": self.plan.kernel,
                "device": self.plan.device,
                "extent": list(self.plan.extent or ()),
                **self.software,
            },
            "results": [t4_result(each.plan, each.measured) for each in self.tried],
        }

    def __str__(self) -> str:
        known = sum(each.was_known for each in self.tried)
        head = (
            f"{self.plan.kernel} over {self.plan.extent} on {self.plan.device}: measured "
            f"{len(self.tried) - known} of {self.total_count} plans in {self.elapsed_s:.1f} s"
            + (f", {known} were known" if known else "")
            + ("" if self.is_complete else "; the budget was spent before the search ended")
            + f". The best is {self.speedup:.2f} times as fast as the first plan of the model."
        )
        return head + "\n" + text_table(_HEADERS, self._rows())

    def __repr__(self) -> str:
        plans = format_count(len(self.tried), "plan")
        return f"<TuningReport of {self.plan.kernel}: {plans}, {self.plan}>"

    def _repr_html_(self) -> str:
        return html_table(_HEADERS, self._rows())

    def _rows(self) -> Iterator[tuple[str, ...]]:
        """Return the plans, the fastest first."""
        order = sorted(self.tried, key=lambda each: each.measured.median_ns or float("inf"))
        for each in order[:_SHOWN]:
            yield _row(each, "*" if each is self.best else "")


_HEADERS = ("", "plan", "measured", "predicted", "note")


def _row(each: TunedPlan, mark: str) -> tuple[str, ...]:
    measured, predicted = each.measured, each.predicted_ns
    return (
        mark,
        ", ".join(f"{name}={value}" for name, value in configuration_of(each.plan).items()),
        "-" if measured.median_ns is None else format_duration(measured.median_ns),
        "-" if predicted is None else format_duration(predicted),
        measured.problem or ("known" if each.was_known else ""),
    )
