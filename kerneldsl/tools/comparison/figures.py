"""Figures in the JSON of a benchmark: times and rates, with what is known of how they vary.

A benchmark names its figures with their units (``median_s``, ``us``, ``gbps``), at any depth. Rows
of a list are told apart by what is no figure in them: the name, the case, the size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from statistics import median
from typing import Any, NamedTuple

from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Figure", "Quartiles", "figures_of"]

#: Names of rates (more is better) and of times (less is better). Rates come first: they
#: end in "per_s".
_RATE = re.compile(r"(gb_?ps|gb/s|gflops?|tflops?|per_s(econd)?|speed_ratio|speedup)$", re.I)
_TIME = re.compile(r"((^|_)(s|ms|us|ns|seconds?|microseconds)|_s_per_\w+|(^|_)time_ratio)$", re.I)
#: Figures of the machine, and bounds, which nothing of kerneldsl changes.
_NOT_OURS = re.compile(r"(floor|required|bound|limit|peak|budget|predicted)")
#: Numbers that identify a row; others are results.
_IDENTITY = re.compile(
    r"^([nmk]|\w*bytes|sizes?|elements|exponent|extent|shape|block|tile|grid|items|threads|promised"
    r"|batch|columns|axis|axes)$"
)
#: Names of mappings with figures in seconds, by the names of the measured things.
_SAMPLES, _MEDIANS = "samples", "medians"
#: Names of parts of a run that are no figures.
_ABOUT = ("machine", "date", "commit", "verdicts", "versions")


class Quartiles(NamedTuple):
    """First and third quartile of samples, and how many they were."""

    first: float
    third: float
    samples: int


@dataclass
class Figure:
    """A time or a rate."""

    #: The samples; of a figure that is a median alone, that one.
    values: list[float]
    #: Whether larger values are better, as for a rate.
    more_is_better: bool
    #: Quartiles of a median without samples.
    quartiles: Quartiles | None = None
    #: Least and greatest sample, if nothing else is known of the samples.
    extremes: tuple[float, float] | None = None

    @property
    def middle(self) -> float:
        """The median."""
        return median(self.values)

    @property
    def fault(self) -> float | None:
        """A number that is no time or rate: not finite, or not above 0; ``None`` of a sound figure.

        Ratios, ranks and intervals of such a number say nothing.
        """
        spread = (*(self.quartiles or ()), *(self.extremes or ()))
        wrong = [each for each in self.values if not 0 < each < math.inf]
        wrong += [each for each in spread if not math.isfinite(each)]
        return wrong[0] if wrong else None


def figures_of(results: Any) -> dict[str, Figure]:
    """Find the figures in a benchmark's results, by their paths.

    Examples
    --------
    >>> results = {"rows": [{"case": "sum", "n": 8, "us": 2.5, "us_low": 2.0, "us_high": 3.0}]}
    >>> figures_of(results)["rows, sum, n=8: us"].extremes
    (2.0, 3.0)
    """
    finder = _Finder()
    finder.collect((), results, None)
    return finder.found


@dataclass
class _Finder:
    found: dict[str, Figure] = field(default_factory=dict)

    def collect(self, path: tuple[str, ...], value: Any, unit: bool | None) -> None:
        """Look into a value. `unit` says whether more is better of what is in it, if known."""
        if isinstance(value, Mapping):
            self._collect_mapping(path, value, unit)
        elif isinstance(value, list):
            self._collect_list(path, value, unit)
        elif unit is not None and _is_number(value):
            self._add(path, Figure([float(value)], unit))

    def _collect_mapping(
        self, path: tuple[str, ...], fields: Mapping[str, Any], unit: bool | None
    ) -> None:
        taken = set(_ABOUT) if not path else set()
        if isinstance(fields.get(_SAMPLES), Mapping):
            taken.add(_MEDIANS)  # of these very samples
        for name, value in fields.items():
            if _is_number(value) and _direction(name, unit) is not None:
                beside = _spread_names(name, fields)
                taken.update(beside.values())
                if name not in taken:
                    self._add((*path, name), _with_spread(name, fields, beside, unit))
                    taken.add(name)
        for name, value in fields.items():
            if name not in taken and not _NOT_OURS.search(name) and not _is_number(value):
                self.collect((*path, name), value, _direction_within(name, value, unit))

    def _collect_list(self, path: tuple[str, ...], values: list[Any], unit: bool | None) -> None:
        if unit is not None and values and all(map(_is_number, values)):
            self._add(path, Figure([float(each) for each in values], unit))
            return
        for row in values:
            if isinstance(row, Mapping):
                self.collect((*path, *_labels(row)), row, unit)

    def _add(self, path: tuple[str, ...], figure: Figure) -> None:
        *where, name = path
        text = f"{', '.join(where)}: {name}" if where else name
        known = self.found.setdefault(text, figure)
        if known is not figure:  # several rows of one name are samples of it
            known.values += figure.values
            known.quartiles = known.extremes = None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _direction(name: str, otherwise: bool | None) -> bool | None:
    """Return whether more is better of a figure of this name; ``None`` of what is no figure."""
    if _NOT_OURS.search(name):
        return None
    if _RATE.search(name):
        return True
    return False if _TIME.search(name) else otherwise


def _direction_within(name: str, value: Any, otherwise: bool | None) -> bool | None:
    """Return the same for what is in a field; samples without a unit are seconds."""
    found = _direction(name, otherwise)
    is_plain = isinstance(value, Mapping) or (
        isinstance(value, list) and all(map(_is_number, value))
    )
    return False if found is None and name in (_SAMPLES, _MEDIANS) and is_plain else found


def _spread_names(name: str, fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the fields that say how a figure varies, by what they are."""
    wanted = {"low": f"{name}_low", "high": f"{name}_high"}
    if "median" in name:
        wanted |= {"q1": name.replace("median", "q1"), "q3": name.replace("median", "q3")}
        wanted |= {"count": "samples", "min": name.replace("median", "min")}
    return {what: each for what, each in wanted.items() if _is_number(fields.get(each))}


def _with_spread(
    name: str, fields: Mapping[str, Any], beside: Mapping[str, str], unit: bool | None
) -> Figure:
    figure = Figure([float(fields[name])], bool(_direction(name, unit)))
    given = {what: fields[each] for what, each in beside.items()}
    if {"q1", "q3", "count"} <= given.keys() and 1 <= given["count"] < math.inf:
        figure.quartiles = Quartiles(given["q1"], given["q3"], int(given["count"]))
    if {"low", "high"} <= given.keys():
        figure.extremes = (given["low"], given["high"])
    return figure


def _labels(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a row is about: its texts, and the numbers that are named so."""
    for name, value in row.items():
        if name in ("note", "why", "floor", "error"):
            continue
        if isinstance(value, str):
            yield value
        elif not _IDENTITY.match(name):
            continue
        elif isinstance(value, int):
            yield f"{name}={value}"
        elif isinstance(value, list) and value and all(isinstance(each, int) for each in value):
            yield f"{name}={'×'.join(map(str, value))}"
