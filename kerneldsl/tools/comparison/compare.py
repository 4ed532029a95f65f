"""Comparing two runs of a benchmark, figure by figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

from kerneldsl.errors import ArgumentValueError
from kerneldsl.tools.comparison.figures import Figure, figures_of
from kerneldsl.tools.comparison.significance import (
    bootstrap_interval,
    false_discovery,
    mann_whitney,
    outlier_scores,
    quartile_interval,
    quartile_test,
)
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import AsDict, format_count

__all__ = ["Change", "Comparison", "compare_results"]

Verdict: TypeAlias = Literal["better", "worse", "same", "not judged"]
#: What a verdict is based on: a test of ranks of the samples, one of medians by their quartiles,
#: extremes that do not overlap, or how the other figures of the run have changed.
Basis: TypeAlias = Literal["samples", "quartiles", "extremes", "other figures"]

#: Fewer samples cannot differ in their ranks beyond chance.
_LEAST_SAMPLES = 4
#: Fewer medians say nothing of how medians vary.
_LEAST_MEDIANS = 8
_OUTLIER = 3.5
#: Of what is known of a machine, what differs between any two runs.
_OF_A_RUN = ("date", "commit")


@dataclass(frozen=True, slots=True)
class Change(AsDict):
    """A figure in two runs.

    Parameters
    ----------
    figure : str
        Where it is in the results.
    old, new : float
        The medians.
    ratio : float
        New to old.
    low, high : float or None
        An interval for the ratio, where samples or their quartiles are stored.
    probability : float or None
        How probable such a difference is by chance, if that can be said.
    basis : str
        What the verdict is based on: ``"samples"``, ``"quartiles"``, ``"extremes"``, or, where
        medians alone are stored, ``"other figures"``.
    verdict : str
        ``"better"``, ``"worse"``, ``"same"`` or ``"not judged"``.
    """

    figure: str
    old: float
    new: float
    ratio: float
    low: float | None
    high: float | None
    probability: float | None
    basis: Basis
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Comparison(AsDict):
    """Two runs of a benchmark.

    Parameters
    ----------
    changes : tuple of Change
        The figures that both have, the worst first.
    only_old, only_new : tuple of str
        Figures that one of them has.
    left_out : mapping
        Figures that both have and that are not compared, since a number in them is no time or rate,
        with that number and whose it is.
    machine : mapping
        What differs between the machines, old and new.
    """

    changes: tuple[Change, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    left_out: Mapping[str, str]
    machine: Mapping[str, tuple[str, str]]

    @property
    def worse(self) -> tuple[Change, ...]:
        """The figures that are worse."""
        return tuple(each for each in self.changes if each.verdict == "worse")


def compare_results(old: Any, new: Any, *, rate: float = 0.05, least: float = 0.01) -> Comparison:
    """Compare the results of two runs.

    Parameters
    ----------
    old, new : object
        What the benchmark wrote as JSON.
    rate : float, optional
        How many of the changes may be by chance.
    least : float, optional
        A smaller change of the median counts as none, however certain it is.

    Raises
    ------
    ArgumentValueError
        If they have no figure in common that can be compared.
    """
    before, after = figures_of(old), figures_of(new)
    common = [path for path in before if path in after]
    if not common:
        raise ArgumentValueError(
            "the two files have no figure in common",
            value=(len(before), len(after)),
            limit=f"One has {len(before)} times and rates, the other {len(after)}",
            remedy="Compare two runs of the same benchmark",
        )
    left_out = {
        path: f"{figure.fault:g} in the {which} file"
        for which, figures in (("new", after), ("old", before))
        for path, figure in figures.items()
        if path in before and path in after and figure.fault is not None
    }
    pairs = [_Pair(path, before[path], after[path]) for path in common if path not in left_out]
    if not pairs:
        path, why = next(iter(left_out.items()))
        raise ArgumentValueError(
            "no figure of the two files can be compared",
            value=why,
            limit="A time or rate is a finite number above 0, and each of "
            f"{format_count(len(left_out), 'figure')} has another: {path}, {why}",
            remedy="Run the benchmark again, with more calls in a sample where its clock is coarse",
        )
    changes = _judged([each.change(1 - rate) for each in pairs], pairs, rate, least)
    is_rate = {each.path: each.new.more_is_better for each in pairs}
    changes.sort(key=lambda each: each.ratio if is_rate[each.figure] else 1 / each.ratio)
    return Comparison(
        tuple(changes),
        tuple(path for path in before if path not in after),
        tuple(path for path in after if path not in before),
        left_out,
        _differences(old, new),
    )


class _Pair(NamedTuple):
    """A figure of two runs."""

    path: str
    old: Figure
    new: Figure

    def change(self, confidence: float) -> Change:
        """Return the change, which is not judged yet."""
        old, new = self.old, self.new
        first, second = old.middle, new.middle
        ratio = second / first
        made = Change(
            self.path, first, second, ratio, None, None, None, "other figures", "not judged"
        )
        if min(len(old.values), len(new.values)) >= _LEAST_SAMPLES:
            low, high = bootstrap_interval(old.values, new.values, confidence)
            probability = mann_whitney(old.values, new.values)
            return replace(made, low=low, high=high, probability=probability, basis="samples")
        if old.quartiles and new.quartiles:
            given = first, old.quartiles, second, new.quartiles
            low, high = quartile_interval(*given, confidence)
            probability = quartile_test(*given)
            return replace(made, low=low, high=high, probability=probability, basis="quartiles")
        if old.extremes and new.extremes:
            return replace(made, basis="extremes")
        return made

    def is_apart(self) -> bool:
        """Return whether the extremes of the two runs do not overlap."""
        old, new = self.old.extremes, self.new.extremes
        assert old is not None
        assert new is not None
        return max(old[0], new[0]) > min(old[1], new[1])


def _judged(
    changes: Sequence[Change], pairs: Sequence[_Pair], rate: float, least: float
) -> list[Change]:
    """Judge changes, each on its basis, those that are tested all together."""
    is_real: dict[str, bool] = {}
    tested = [each for each in changes if each.probability is not None]
    discovered = false_discovery([each.probability or 0.0 for each in tested], rate)
    is_real |= {each.figure: found for each, found in zip(tested, discovered, strict=True)}
    alone = [each for each in changes if each.basis == "other figures"]
    if len(alone) >= _LEAST_MEDIANS:
        scores = outlier_scores([math.log(each.ratio) for each in alone])
        is_real |= {
            each.figure: abs(score) > _OUTLIER for each, score in zip(alone, scores, strict=True)
        }
    judged = []
    for change, pair in zip(changes, pairs, strict=True):
        counts = pair.is_apart() if change.basis == "extremes" else is_real.get(change.figure)
        verdict: Verdict = "same"
        if counts is None:
            verdict = "not judged"
        elif counts and abs(change.ratio - 1) >= least:
            verdict = "better" if (change.ratio > 1) == pair.new.more_is_better else "worse"
        judged.append(replace(change, verdict=verdict))
    return judged


def _differences(old: Any, new: Any) -> dict[str, tuple[str, str]]:
    """Return what differs between the machines of two runs."""
    machines = [each.get("machine") if isinstance(each, Mapping) else None for each in (old, new)]
    before, after = (each if isinstance(each, Mapping) else {} for each in machines)
    return {
        name: (str(before.get(name)), str(after.get(name)))
        for name in dict.fromkeys((*before, *after))
        if name not in _OF_A_RUN and before.get(name) != after.get(name)
    }
