"""Runs many programs in worker processes, and counts what came of them."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.outcomes import KINDS, Outcome
from tests.fuzz.worker import PATIENCE

__all__ = ["COMMAND", "INTEGER_COMMAND", "PYTHON_COMMAND", "Report", "run_programs"]

_ROOT = Path(__file__).parents[2]
#: Programs that one process runs: compiled code is never freed.
_BATCH = 50
COMMAND = (sys.executable, "-m", "tests.fuzz.worker")
INTEGER_COMMAND = (sys.executable, "-m", "tests.fuzz.integer_worker")
PYTHON_COMMAND = (sys.executable, "-m", "tests.fuzz.python_worker")


@dataclass
class Report:
    """What came of the programs so far.

    Attributes
    ----------
    programs : int
        How many have been run.
    seconds : float
        Processor time of the workers for them.
    kinds : Counter
        Runs by (target, variant, kind).
    features : Counter
        Programs by what they are made of.
    failures : list of Outcome
        Every outcome but ``right`` and ``unread``.
    unread : Counter
        Reasons of the outcomes that are ``unread``.
    warned : int
        Runs in which a barrier was warned of that is not divergent.
    """

    programs: int = 0
    seconds: float = 0.0
    kinds: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)
    unread: Counter[str] = field(default_factory=Counter)
    warned: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        self.kinds[outcome.target, outcome.variant, outcome.kind] += 1
        self.warned += outcome.kind == "right" and outcome.detail == "warned"
        if outcome.kind == "unread":
            self.unread[outcome.detail] += 1
        elif outcome.kind != "right":
            self.failures.append(outcome)

    def failed_programs(self, kind: str) -> set[int]:
        """Seeds of the programs with such an outcome."""
        return {o.seed for o in self.failures if o.kind == kind}

    def table(self) -> str:
        """Counts by target, variant and kind, then of features."""
        rows = sorted({key[:2] for key in self.kinds})
        lines = [f"{'':24}" + "".join(f"{kind:>10}" for kind in KINDS)]
        for target, variant in rows:
            counts = "".join(f"{self.kinds[target, variant, kind]:10}" for kind in KINDS)
            lines.append(f"{target + ' ' + variant:24}{counts}")
        lines.append(f"{self.programs} programs, {self.seconds / max(1, self.programs):.2f} s each")
        lines.append(f"{self.warned} runs with a warning of a barrier that does not diverge")
        lines += [f"{n:45}{c:7}  not read" for n, c in self.unread.most_common()]
        lines += [f"{n:45}{c:7}  {c / self.programs:6.1%}" for n, c in self.features.most_common()]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The same, for a file."""
        return {
            "programs": self.programs,
            "processor_seconds": round(self.seconds, 1),
            "runs": [
                {"target": t, "variant": v, "outcome": k, "count": c}
                for (t, v, k), c in sorted(self.kinds.items())
            ],
            "features": dict(self.features.most_common()),
            "unread": dict(self.unread.most_common()),
            "warned": self.warned,
            "failures": [o.as_json() for o in self.failures],
        }


class _Worker:
    """Runs batches from a queue, each in a process, and starts another after one that died."""

    def __init__(
        self,
        batches: queue.Queue[tuple[int, int]],
        command: Sequence[str],
        options: list[str],
        deadline: float | None,
    ) -> None:
        self.batches = batches
        self.command = command
        self.options = options
        self.deadline = deadline

    def work(self, told: queue.Queue[dict[str, Any] | Outcome | None]) -> None:
        while True:
            if self._is_late() or self.batches.empty():
                told.put(None)
                return
            try:
                first, count = self.batches.get_nowait()
            except queue.Empty:
                continue
            end = first + count
            while first < end:
                first = self._batch(first, end - first, told)

    def _is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _batch(self, first: int, count: int, told: queue.Queue[Any]) -> int:
        """Run a batch in a process; return the seed to go on from."""
        environment = {**os.environ, "KERNELDSL_CACHE": "off", "PYTHONPATH": str(_ROOT)}
        environment.pop("KERNELDSL_TARGET", None)
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                [*self.command, str(first), str(count), *self.options],
                cwd=_ROOT,
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
            watch = _Watch(process)
            now: dict[str, Any] = {"seed": first, "target": "start", "variant": ""}
            done, is_ended = first - 1, False
            assert process.stdout is not None
            for line in process.stdout:
                watch.restart()
                said = json.loads(line)
                if "outcomes" in said:
                    done = said["seed"]
                    told.put(said)
                    if self._is_late():
                        is_ended = True
                        process.kill()
                        break
                else:
                    now = said
            watch.stop()
            status = process.wait()
            if is_ended or (done == first + count - 1 and status == 0):
                return first + count
            errors.seek(0)
            text = f"status {status}: {errors.read()[-2000:]}"
        kind = "hang" if watch.has_hung else "crash"
        told.put(Outcome(now["seed"], now["target"], now["variant"], kind, text))
        return int(now["seed"]) + 1


class _Watch:
    """Kills a process that says nothing for too long."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.has_hung = False
        self._start()

    def _start(self) -> None:
        self.timer = threading.Timer(PATIENCE, self._kill)
        self.timer.daemon = True
        self.timer.start()

    def restart(self) -> None:
        """It has said something."""
        self.timer.cancel()
        self._start()

    def stop(self) -> None:
        """It says no more."""
        self.timer.cancel()

    def _kill(self) -> None:
        self.has_hung = True
        self.process.kill()


def run_programs(
    first: int,
    count: int,
    *,
    targets: list[str],
    share: float,
    workers: int,
    seconds: float | None = None,
    command: Sequence[str] = COMMAND,
    progress: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Run the programs of `count` seeds from `first` on.

    Parameters
    ----------
    first, count : int
        Seeds.
    targets : list of str
        Where each runs.
    share : float
        Part of the programs that one variant is tried of; 1 tries all variants.
    workers : int
        Processes at a time.
    seconds : float, optional
        After which no further batch of programs is begun.
    command : sequence of str
        Starts a worker; given the first seed, how many, the targets and the share.
    progress : callable
        Told after each program.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    batches: queue.Queue[tuple[int, int]] = queue.Queue()
    size = max(1, min(_BATCH, -(-count // workers)))
    for start in range(first, first + count, size):
        batches.put((start, min(size, first + count - start)))
    told: queue.Queue[Any] = queue.Queue()
    options = [",".join(targets), str(share)]
    threads = [
        threading.Thread(target=_Worker(batches, command, options, deadline).work, args=(told,))
        for _ in range(workers)
    ]
    for thread in threads:
        thread.start()
    report, running = Report(), workers
    while running:
        said = told.get()
        if said is None:
            running -= 1
            continue
        report.programs += 1
        if isinstance(said, Outcome):
            report.add(said)
        else:
            report.seconds += said["seconds"]
            report.features.update(said["features"])
            for fields in said["outcomes"]:
                report.add(Outcome(**fields))
        progress(report)
    for thread in threads:
        thread.join()
    return report
