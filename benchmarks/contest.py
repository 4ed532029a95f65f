"""Contenders that take turns, their reference, and the bounds that ours is held to.

What ``tiles.py`` and ``library.py`` have in common: a case prepares its arrays, every contender's
result is compared with a float64 reference, from fresh random inputs and outputs filled with NaN,
then they take turns and medians are reported.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kerneldsl as kd

__all__ = ["Bound", "Case", "Mean", "Prepared", "begin", "make_parser", "report"]


@dataclass(frozen=True)
class Bound:
    """A ratio of times that ours must reach.

    Parameters
    ----------
    over : str
        ``"best peer"``, ``"copy"``, or the beginning of the names of contenders.
    at_least : float
        Their time over ours; of ``"copy"`` our share of the bandwidth of a copy, where a case says
        how many bytes it has to move.
    """

    over: str
    at_least: float


@dataclass(frozen=True)
class Mean:
    """A geometric mean of ratios that ours must reach.

    Parameters
    ----------
    of : str
        The beginnings of the names of its cases, with ``" | "`` between them.
    over : str
        As of a `Bound`.
    at_least : float
        The mean.
    but : tuple of str
        Parts of the names of cases that do not count.
    """

    of: str
    over: str
    at_least: float
    but: tuple[str, ...] = ()

    def ratios(self, judged: Iterable[tuple[str, str, dict[str, Any]]]) -> list[float]:
        """Return the ratios of cases, given name, contender and verdict of each."""
        return [
            found["ratio"]
            for name, over, found in judged
            if over == self.over
            and name.startswith(tuple(self.of.split(" | ")))
            and not any(each in name for each in self.but)
        ]


@dataclass(frozen=True)
class Prepared:
    """A case with its arrays.

    Parameters
    ----------
    contenders : dict
        Name to a launch; ours is called ``"ours"``. A launch returns its result, or ``None`` where
        the result is in `out`.
    out : dict
        Name to the array that a contender writes, for poisoning and checking.
    error : callable
        Takes a result, and returns its largest error relative to the reference's largest value.
    tolerance : float
        Of that error.
    moved : int
        Bytes that must be read and written; 0 where memory is not what binds.
    count : int
        Launches of a sample.
    turns : callable, optional
        Samples the contenders' times where they are no device times: as `device_time.in_turns`.
    """

    contenders: dict[str, Callable[[], Any]]
    out: dict[str, Any]
    error: Callable[[Any], float]
    tolerance: float
    moved: int
    count: int = 4
    turns: Callable[..., dict[str, list[float]]] | None = None


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    prepare: Callable[[], Prepared]
    bounds: tuple[Bound, ...]


def measure(case: Case, prepared: Prepared, rounds: int, on_cpu: bool) -> dict[str, float]:
    """Check every contender, then return the median seconds of each."""
    for name, launch in prepared.contenders.items():
        result = launch()
        if result is None or name in prepared.out:
            result = prepared.out[name]
        error = prepared.error(result)
        if not error <= prepared.tolerance:  # NaN fails too
            raise AssertionError(
                f"{case.name}: {name} is off by {error:.3g}, allowed {prepared.tolerance:.3g}"
            )
    if not rounds:
        return {"ours": math.inf}
    if prepared.turns is not None:
        in_turns = prepared.turns
    elif on_cpu:
        from host_time import in_turns
    else:
        from device_time import in_turns
    samples = in_turns(prepared.contenders, rounds, prepared.count)
    return {name: statistics.median(taken) for name, taken in samples.items()}


def verdict(
    bound: Bound, seconds: dict[str, float], moved: int, copy_gbps: float
) -> tuple[float, bool] | None:
    """Return the ratio that a bound speaks of, and whether it is kept; ``None`` without one."""
    mine = seconds["ours"]
    if bound.over == "copy":
        if not moved:
            return None
        ratio = moved / (copy_gbps * 1e9) / mine
    else:
        peers = {name: s for name, s in seconds.items() if not name.startswith("ours")}
        if bound.over != "best peer":
            peers = {name: s for name, s in peers.items() if name.startswith(bound.over)}
        if not peers:
            return None
        ratio = min(peers.values()) / mine
    return ratio, ratio >= bound.at_least


def rows_of(
    cases: Iterable[Case], options: argparse.Namespace, copy_gbps: float
) -> Iterator[dict[str, Any]]:
    """Measure the cases one after the other."""
    on_cpu = options.device == "cpu"
    for case in cases:
        if options.only not in case.name:
            continue
        try:
            prepared = case.prepare()
            seconds = measure(case, prepared, options.rounds, on_cpu)
        except Exception as error:  # noqa: BLE001 - the others are measured all the same
            yield {"case": case.name, "failed": f"{type(error).__name__}: {error}"}
            continue
        verdicts = {}
        for bound in case.bounds:
            judged = verdict(bound, seconds, prepared.moved, copy_gbps)
            if judged is not None:
                ratio, kept = judged
                verdicts[bound.over] = {"ratio": ratio, "at_least": bound.at_least, "kept": kept}
        yield {
            "case": case.name,
            "seconds": seconds,
            "moved_bytes": prepared.moved,
            "verdicts": verdicts,
        }
        del prepared
        gc.collect()


def shown(row: dict[str, Any]) -> str:
    """Return a row of the table, times in microseconds."""
    if "failed" in row:
        return f"{row['case']:22s} FAILED {row['failed']}"
    seconds = row["seconds"]
    ratios = "  ".join(
        f"{each['ratio']:5.2f}x of {over}{'' if each['kept'] else ' MISSED'}"
        for over, each in row["verdicts"].items()
    )
    times = ", ".join(f"{name} {1e6 * s:.1f}" for name, s in seconds.items() if name != "ours")
    return f"{row['case']:22s} {1e6 * seconds['ours']:9.1f} us  {ratios}  ({times})"


def make_parser(description: str) -> argparse.ArgumentParser:
    """Return what reads the options that the benchmarks have in common."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument(
        "--rounds", type=int, default=15, help="samples of each contender; 0 checks"
    )
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    parser.add_argument("--commit", help="what is measured, where there is no git repository")
    parser.add_argument("--json", type=Path, help="file for the figures")
    return parser


def begin(options: argparse.Namespace) -> tuple[dict[str, Any], float]:
    """Choose the device; return the machine and the bandwidth of a copy on it, in GB/s."""
    from machine import describe_cpu_machine, describe_gpu_machine, settle_threads

    if options.device == "cpu":
        settle_threads()
        from host_time import measure_copy as measure_host_copy

        kd.use("cpu")
        machine, copy_gbps = describe_cpu_machine(options.commit), measure_host_copy(15)
    else:
        from device_time import measure_copy

        kd.use("cuda:0")
        machine, copy_gbps = describe_gpu_machine(options.commit), measure_copy(15)
    print(json.dumps(machine, indent=1))
    print(f"copy: {copy_gbps:.0f} GB/s", flush=True)
    return machine, copy_gbps


def report(cases: Iterable[Case], options: argparse.Namespace, means: Iterable[Mean] = ()) -> int:
    """Measure, print and store; return the exit status, 0 where all bounds were kept."""
    machine, copy_gbps = begin(options)
    rows: list[dict[str, Any]] = []
    result = {"machine": machine, "copy_gbps": copy_gbps, "rows": rows}
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
    for row in rows_of(cases, options, copy_gbps):
        rows.append(row)
        print(shown(row), flush=True)
        if options.json:  # a run that is ended early has stored what it measured
            options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    failed = [row["case"] for row in rows if "failed" in row]
    if failed:
        print(f"BROKEN every contender runs and is right: {', '.join(failed)}")
    judged = [(row["case"], over, v) for row in rows for over, v in row.get("verdicts", {}).items()]
    for over, least in sorted({(over, v["at_least"]) for _, over, v in judged}):
        same = [(name, v["kept"]) for name, o, v in judged if (o, v["at_least"]) == (over, least)]
        missed = [name for name, kept in same if not kept]
        text = f"at least {least:g} of {over}"
        print(f"BROKEN {text}: {', '.join(missed)}" if missed else f"kept   {text}")
    is_kept = not failed and all(v["kept"] for _, _, v in judged)
    for mean in means:
        ratios = mean.ratios(judged)
        if ratios:
            found = statistics.geometric_mean(ratios)
            is_kept = is_kept and found >= mean.at_least
            word = "kept  " if found >= mean.at_least else "BROKEN"
            about = f"of {mean.over} over {len(ratios)} cases ({mean.of})"
            print(f"{word} mean {found:.3f}, at least {mean.at_least:g} {about}")
    return 0 if is_kept else 1
