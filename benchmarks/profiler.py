"""Cost of the profiler: of launches in and out of profiles, of the first summary, of the command.

On any machine, on the CPU::

    python benchmarks/profiler.py --against ../before --json benchmarks/results/profiler-cpu.json

`--against` names a checkout of a commit before the profiler; processes of the two take turns, so
that whatever else the machine does meets both. Without it, launches before any profile are compared
with those after one, in one process. Medians are reported, with the samples, each of some hundred
calls, of the processor's time that the calling thread had. A script that takes about a second is
run by itself and by ``kerneldsl profile``, in turns, on one thread; the processor's time of all
their processes is compared. The exit status is 1 where

* nothing is recorded and that costs more than 2 %,
* the activities of a trace of kernels of 1 ms come to less than 97 % of the wall clock,
* the first summary of a process takes 0.1 s or imports Numba, SymPy, SciPy, pandas or matplotlib,
* or ``kerneldsl profile`` takes 1.3 times the script's own time.

On a GPU, `--cuda` does the same.

References
----------
:mod:`kerneldsl.tools.comparison.compare` for the test by ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import kerneldsl as kd

#: What nothing recorded may cost, and what a trace may leave out of the wall clock.
MAX_OVERHEAD, MAX_LEFT_OUT = 0.02, 0.03
#: Seconds of a process's first summary, and what the command may take of the script's own time.
MAX_SUMMARY_S, MAX_COMMAND = 0.1, 1.3
#: What a summary needs none of.
HEAVY = ("numba", "sympy", "scipy", "pandas", "matplotlib")
#: A difference counts where chance makes it less often than this.
PROBABILITY = 0.01
#: Kernels that take so long are judged; in a loop over shorter ones Python itself shows.
LONG_US = 1000
#: Rounds of a kernel's loop until one is long: 1000 on a core, a million on a multiprocessor.
ROUNDS = (10, 100, 1000, 10_000, 100_000, 1_000_000)


@kd.kernel
def axpy(a, x, y, out):
    """Take one scalar and three arrays."""
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def iterate(x, rounds):
    """Take as long as is asked for."""
    i = kd.grid(1)
    if i < x.size:
        value = x[i]
        for _ in range(rounds):
            value = value * np.float32(0.999) + np.float32(1.0)
        x[i] = value


# --------------------------------------------------------------------------- one process


def cases(target: str) -> dict[str, tuple[Callable[[], object], int]]:
    """Return what is called, and how often for one sample."""
    n = 16
    host = np.ones(n, np.float32)
    arrays = [kd.to_device(host) for _ in range(3)] if target == "cuda" else [host] * 3
    launch = axpy.forall(n)
    bound = launch.bind(2.0, *arrays)
    array = kd.to_device(host)

    def by_python() -> None:
        launch._dispatcher.launch(launch._shape, (2.0, *arrays))

    return {
        "launch": (lambda: launch(2.0, *arrays), 2000),
        "prepared launch": (bound, 2000),
        "launch through Python": (by_python, 400),
        "to_device, 64 bytes": (lambda: kd.to_device(host), 400),
        "copy_to_host, 64 bytes": (array.copy_to_host, 400),
        "synchronize": (lambda: kd.synchronize(target), 400),
    }


def sample(call: Callable[[], object], count: int, target: str) -> float:
    """Return the microseconds of a call, of the processor's time that its thread had.

    What else the machine does takes none of that.
    """
    kd.synchronize(target)
    started = time.thread_time_ns()
    for _ in range(count):
        call()
    elapsed = time.thread_time_ns() - started
    kd.synchronize(target)
    return elapsed / count / 1e3


def measure(target: str, rounds: int, *, is_profiler_there: bool) -> dict[str, list[float]]:
    """Return microseconds of each case in each state, in each round."""
    found: dict[str, list[float]] = {}
    with kd.use(target):
        called = cases(target)
        for call, count in called.values():
            sample(call, count, target)  # what is made once has been made
        states = ["before a profile"]
        if is_profiler_there:
            states += ["in a profile", "after a profile"]
        for state in states:
            for _ in range(rounds):
                for name, (call, count) in called.items():
                    is_recorded = state == "in a profile"
                    calls = min(count, 200) if is_recorded else count
                    with kd.profile() if is_recorded else nullcontext():
                        taken = sample(call, calls, target)
                    found.setdefault(f"{name}, {state}", []).append(taken)
    return found


def left_out(target: str, rounds: int) -> Iterator[dict[str, Any]]:
    """Yield how much of the wall clock the activities of traces come to."""
    with kd.use(target):
        x = kd.to_device(np.ones(1 << 12, np.float32))
        launch = iterate.forall(x.size)
        for length in ROUNDS:
            launch(x, length)
            shares = []
            for _ in range(rounds):
                with kd.profile() as p:
                    for _ in range(50):
                        launch(x, length)
                    kd.synchronize(target)
                shares.append(p.recorded_ns / p.wall_ns)
            launches = [each for each in p.activities if each.kind == "launch"]
            times = [each.device_ns for each in launches if each.device_ns is not None]
            kernel_us = statistics.median(times) / 1e3 if times else None
            yield {
                "case": f"50 launches of {length} rounds",
                "kernel_us": kernel_us,
                "recorded_share": statistics.median(shares),
                "shares": shares,
            }
            if kernel_us is not None and kernel_us >= LONG_US:
                return


# --------------------------------------------------------------------------- a script

#: Everything that it needs has been cached by an earlier run.
SCRIPT = """
import sys
import time
import numpy as np
import kerneldsl as kd

@kd.kernel
def iterate(x, rounds):
    i = kd.grid(1)
    if i < x.size:
        value = x[i]
        for _ in range(rounds):
            value = value * np.float32(0.999) + np.float32(1.0)
        x[i] = value

target, launches, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with kd.use(target):
    x = kd.to_device(np.ones(1 << 12, np.float32))
    with kd.profile() if "--summary" in sys.argv else kd.use(target) as p:
        for _ in range(launches):
            iterate.forall(x.size)(x, rounds)
        kd.synchronize(target)
if "--summary" in sys.argv:
    before = set(sys.modules)
    started = time.perf_counter()
    repr(p), str(p.summary())
    print(time.perf_counter() - started, *(set(sys.modules) - before))
"""


def of_script(target: str, turns: int) -> dict[str, Any]:
    """Return the seconds of a script, of the command that profiles it, and of a first summary.

    The first two are of the processor's time, also that of the command's own process.
    """
    found: dict[str, list[float]] = {"script": [], "command": [], "summary": []}
    imported: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.py")
        script.write_text(SCRIPT)
        environment = {**os.environ, "KERNELDSL_CACHE_DIR": str(Path(folder, "cache"))}
        environment["PYTHONPATH"] = str(Path(kd.__file__).parents[1])
        environment["NUMBA_NUM_THREADS"] = "1"

        def run(*command: str) -> tuple[float, str]:
            before = os.times()
            done = subprocess.run(
                [sys.executable, *command],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            after = os.times()
            seconds = after.children_user - before.children_user
            return seconds + after.children_system - before.children_system, done.stdout

        launches = 100
        own = [str(script), target, str(launches), str(100_000)]
        run(str(script), target, "1", "1")  # fills the cache
        base = run(str(script), target, "1", "1")[0]
        each_s = (run(*own)[0] - base) / launches
        own[2] = str(max(1, round(1.0 / max(each_s, 1e-4))))
        for _ in range(turns):
            found["script"].append(run(*own)[0])
            found["command"].append(run("-m", "kerneldsl", "profile", *own)[0])
            seconds, *modules = run(*own, "--summary")[1].split()
            found["summary"].append(float(seconds))
            imported |= {name.partition(".")[0] for name in modules} & {*HEAVY}
    return {"seconds": found, "imported": sorted(imported)}


def judge_script(report: dict[str, Any], verdicts: dict[str, bool]) -> None:
    """Judge the command and the first summary."""
    medians = {name: statistics.median(each) for name, each in report["seconds"].items()}
    ratio = medians["command"] / medians["script"]
    said = f"kerneldsl profile: {ratio:.2f} of the script's own {medians['script']:.2f} s"
    verdicts[said] = ratio < MAX_COMMAND
    verdicts[f"first summary: {medians['summary']:.4f} s"] = medians["summary"] < MAX_SUMMARY_S
    imported = ", ".join(report["imported"]) or "nothing heavy"
    verdicts[f"first summary: {imported} imported"] = not report["imported"]


# --------------------------------------------------------------------------- two checkouts


def in_process(folder: Path, options: argparse.Namespace) -> dict[str, list[float]]:
    """Return what a process of a checkout measures."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child"]
    command += ["--rounds", str(options.rounds), *(["--cuda"] if options.cuda else [])]
    environment = {**os.environ, "PYTHONPATH": str(folder.resolve())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


def compare(old: list[float], new: list[float]) -> tuple[float, float, tuple[float, float]]:
    """Return the ratio of the medians, its probability by chance, and an interval for it."""
    from kerneldsl.tools.comparison.compare import bootstrap_interval, mann_whitney

    ratio = statistics.median(new) / statistics.median(old)
    return ratio, mann_whitney(old, new), bootstrap_interval(old, new, 0.95)


def judged(samples: dict[str, list[float]], verdicts: dict[str, bool]) -> list[dict[str, Any]]:
    """Return the rows of the results, and judge what costs something where nothing is recorded."""
    rows = []
    for name, times in samples.items():
        case, _, state = name.rpartition(", ")
        row: dict[str, Any] = {"case": case, "state": state, "us": times}
        base = samples.get(f"{case}, without the profiler")
        if state == "after a profile":
            base = samples[f"{case}, before a profile"]
        if base is not None and state in ("before a profile", "after a profile"):
            ratio, probability, interval = compare(base, times)
            row |= {"ratio": ratio, "probability": probability, "interval": interval}
            costs = ratio > 1 + MAX_OVERHEAD and probability < PROBABILITY
            of = "no profiler" if state == "before a profile" else "before a profile"
            verdicts[f"{name}: {ratio:.3f} of {of}"] = not costs
        rows.append(row)
        shown = f"{row['ratio']:7.3f}  p {row['probability']:.2g}" if "ratio" in row else ""
        print(f"{name:45} {statistics.median(times):9.3f} µs {shown}", flush=True)
    return rows


def main() -> int:
    """Measure, judge, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--commit", help="what is measured, where there is no git repository")
    parser.add_argument("--against", type=Path, help="a checkout from before the profiler")
    parser.add_argument("--cuda", action="store_true", help="on a GPU")
    parser.add_argument("--turns", type=int, default=5, help="processes of each checkout")
    parser.add_argument("--rounds", type=int, default=11, help="samples in each process")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    target = "cuda" if options.cuda else "cpu"
    if options.child:
        there = hasattr(kd, "profile")
        print(json.dumps(measure(target, options.rounds, is_profiler_there=there)))
        return 0
    from machine import describe_cpu_machine, describe_gpu_machine

    describe = describe_gpu_machine if options.cuda else describe_cpu_machine
    report: dict[str, Any] = {"machine": describe(options.commit), "verdicts": {}}
    own = Path(kd.__file__).parents[1]
    samples: dict[str, list[float]] = {}
    for turn in range(options.turns):
        pair = [own] if options.against is None else [options.against, own]
        for folder in pair if turn % 2 else reversed(pair):
            for name, times in in_process(folder, options).items():
                if folder is not own:
                    name = name.replace("before a profile", "without the profiler")
                samples.setdefault(name, []).extend(times)
    report["rows"] = judged(dict(sorted(samples.items())), report["verdicts"])
    report["traces"] = list(left_out(target, options.rounds))
    for row in report["traces"]:
        share = row["recorded_share"]
        print(f"{row['case']:45} {share:9.2%} recorded")
        if row["kernel_us"] is not None and row["kernel_us"] >= LONG_US:
            said = f"{row['case']}: {share:.2%} of the wall clock is recorded"
            report["verdicts"][said] = share >= 1 - MAX_LEFT_OUT
    report["script"] = of_script(target, options.turns)
    judge_script(report["script"], report["verdicts"])
    for said, holds in report["verdicts"].items():
        print("ok    " if holds else "BROKEN", said)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if all(report["verdicts"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
