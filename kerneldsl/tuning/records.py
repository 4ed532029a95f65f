"""Records of tuning in the cache: read together, by launch, and taken in from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, field
from typing import Any

from kerneldsl.cache.disk import disk_cache
from kerneldsl.cache.entry import Entry
from kerneldsl.cache.inventory import read_entries
from kerneldsl.cache.key import Key
from kerneldsl.launch.measured import (
    ABOUT,
    SECTION,
    Measured,
    PlanChoices,
    read_measured,
    read_plan,
    write_choice,
    write_measurement,
)
from kerneldsl.launch.tuned_launch import TunedLaunch
from kerneldsl.planner.choose import TIE
from kerneldsl.planner.fit import ModelInputs, Sample
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.untrusted import parse_json

__all__ = [
    "LaunchRecords",
    "PlanRecord",
    "about_plan",
    "merge_records",
    "read_records",
    "record_of",
]


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """A plan that was measured, as it is recorded."""

    #: Key of the record in the cache.
    key: Key
    #: The plan.
    plan: PlanChoices
    #: Measured time, or the reason why there is none.
    measured: Measured
    #: Position among the plans of the launch by the cost model; 0 is the planner's choice.
    order: int
    #: Time by the cost model.
    predicted_ns: float | None = None
    #: State of the device's last-level cache: ``"warm"`` or ``"cold"``.
    cache: str = "warm"
    #: Inputs of the cost model.
    model: ModelInputs | None = None


@dataclass(slots=True)
class LaunchRecords:
    """Records of one launch."""

    #: The launch that was tuned.
    launch: TunedLaunch
    #: Digest of the key under which its choice is found.
    digest: str
    #: Measured plans, in the order of the cost model.
    plans: list[PlanRecord] = field(default_factory=list)
    #: The key itself; ``None`` where nothing was chosen yet, as after a kill.
    choice_key: Key | None = None
    #: The plan that launches take.
    chosen: PlanChoices | None = None

    @property
    def best(self) -> PlanRecord | None:
        """The fastest plan; of equal ones that which the cost model puts first."""
        times = [(each.measured.median_ns, each) for each in self.plans]
        valid = [(time, each) for time, each in times if time is not None]
        if not valid:
            return None
        limit = min(time for time, _ in valid) * (1.0 + TIE)
        return min(
            (each for time, each in valid if time <= limit),
            key=lambda each: (each.order, each.key.digest),
        )

    @property
    def best_ns(self) -> float | None:
        """Time of the chosen plan, or of the fastest if none is chosen."""
        for each in self.plans:
            if each.plan == self.chosen and each.measured.median_ns is not None:
                return each.measured.median_ns
        best = self.best
        return None if best is None else best.measured.median_ns

    @property
    def first_ns(self) -> float | None:
        """Time of the planner's own choice, if it was measured."""
        return next((each.measured.median_ns for each in self.plans if each.order == 0), None)

    def samples(self) -> list[Sample]:
        """Return the plans to which the cost model can be fitted."""
        return [
            Sample(each.model, each.measured.median_ns)
            for each in self.plans
            if each.model is not None and each.measured.median_ns is not None
        ]


def read_records() -> list[LaunchRecords]:
    """Return every record in the cache, by kernel and launch. Older ones say too little."""
    cache = disk_cache()
    found: dict[str, LaunchRecords] = {}
    for store in (cache.user, cache.site):
        if store is None:
            continue
        for _, entry in read_entries(store):
            if isinstance(entry, Entry) and ABOUT in entry.sections:
                _take_in(found, Key.decode(entry.key), entry.sections)
    return _in_order(found.values())


def _take_in(found: dict[str, LaunchRecords], key: Key, sections: Mapping[str, bytes]) -> None:
    """Add what an entry holds; what is not as it should be is left out."""
    try:
        about, value = (parse_json(sections[name]) for name in (ABOUT, SECTION))
        launch, digest = TunedLaunch.from_dict(about["launch"]), str(about["choice"])
        records = found.get(digest) or LaunchRecords(launch, digest)
        if key.components.get("entry") == "choice":
            records.choice_key, records.chosen = key, read_plan(value)
        else:
            plan, measured = read_plan(about["plan"]), read_measured(value)
            if plan is None or measured is None:
                return
            records.plans.append(record_of(key, plan, measured, about))
    except (KeyError, TypeError, ValueError, AttributeError):
        return
    found[digest] = records


def record_of(
    key: Key, plan: PlanChoices, measured: Measured, about: Mapping[str, Any]
) -> PlanRecord:
    """Return a record from what is beside a measurement.

    - raises `KeyError`, `TypeError`, `ValueError` if it is not that.
    """
    model, predicted = about.get("model"), about.get("predicted_ns")
    return PlanRecord(
        key,
        plan,
        measured,
        int(about["order"]),
        None if predicted is None else float(predicted),
        str(about.get("cache", "warm")),
        None if model is None else ModelInputs.from_dict(model, plan.block_dim, plan.mapping),
    )


def about_plan(records: LaunchRecords, record: PlanRecord) -> dict[str, Any]:
    """Return what is beside a measurement in the cache."""
    return {
        **_about_launch(records),
        "order": record.order,
        "plan": asdict(record.plan),
        "predicted_ns": record.predicted_ns,
        "cache": record.cache,
        "model": None if record.model is None else record.model.to_dict(),
    }


def _about_launch(records: LaunchRecords) -> dict[str, Any]:
    """Return what is beside a choice in the cache."""
    return {"launch": records.launch.to_dict(), "choice": records.digest}


def _in_order(records: Iterable[LaunchRecords]) -> list[LaunchRecords]:
    """Return records by kernel, device and extents, and their plans by the model's order."""
    found = list(records)
    for each in found:
        each.plans.sort(key=lambda plan: (plan.cache, plan.order, plan.key.digest))
    return sorted(found, key=_launch_order)


def _launch_order(each: LaunchRecords) -> tuple[Any, ...]:
    launch = each.launch
    return launch.device, launch.kernel, launch.signature, launch.extents, each.digest


def merge_records(others: Iterable[LaunchRecords]) -> tuple[int, int]:
    """Take records into the cache; return how many measurements came in, and how many stayed.

    Of two measurements of one plan, the one with the narrower interval counts. So the order in
    which files are merged does not matter. The choices of the launches are made again.
    """
    known = {each.digest: each for each in read_records()}
    taken = kept = 0
    for other in others:
        own = known.setdefault(other.digest, LaunchRecords(other.launch, other.digest))
        at = {each.key.digest: number for number, each in enumerate(own.plans)}
        for record in other.plans:
            number = at.get(record.key.digest)
            if number is not None and _width(own.plans[number]) <= _width(record):
                kept += 1
                continue
            write_measurement(record.key, record.measured, about_plan(own, record))
            if number is None:
                own.plans.append(record)
            else:
                own.plans[number] = record
            taken += 1
        own.choice_key = own.choice_key or other.choice_key
        best = own.best
        if own.choice_key is not None and best is not None:
            write_choice(own.choice_key, best.plan, _about_launch(own))
    return taken, kept


def _width(record: PlanRecord) -> tuple[float, float]:
    """Return the width of the interval of a time, and the time, to order equal ones."""
    measured = record.measured
    if measured.median_ns is None:
        return float("inf"), 0.0
    return (measured.high_ns - measured.low_ns) / measured.median_ns, measured.median_ns
