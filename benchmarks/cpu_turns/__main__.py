"""Compare the CPU target of two checkouts: kernels are compiled and run by both, in turns.

    git worktree add ../before COMMIT
    python benchmarks/cpu_turns ../before                      # everything
    python benchmarks/cpu_turns ../before lanes.grids cuda_c   # groups, or all that begin so
    python benchmarks/cpu_turns ../before lanes --only stencil --turns 41

Of each sample one line is printed: ratios of processor time, this checkout over the other, of
compiling and of running in one thread, and whether the results have the same bits. Arrays begin at
multiples of 64 bytes in both processes. Run a sample that is slower again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from samples import GROUPS

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
#: Least processor time of one measurement, and most of one sample.
_LEAST_S, _LONGEST_S = 0.003, 1.5


class Worker:
    """A process that runs the samples of a group with one checkout."""

    def __init__(self, checkout: Path, group: str, only: str) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(checkout),
            "NUMBA_NUM_THREADS": "1",
            "KERNELDSL_CACHE": "off",
        }
        self._process = subprocess.Popen(
            [sys.executable, str(_HERE / "worker.py"), group, only],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, command: str) -> Any:
        """Return the answer to a command; raise `EOFError` where the process has crashed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise EOFError(f"a process ended with {self._process.wait()}")
        return json.loads(answer)

    def end(self) -> None:
        """Have the process end."""
        self._process.communicate()


def _measure(workers: list[Worker], turns: int) -> tuple[float, list[float]]:
    """Return the median of ratios, new over old, and the least times of both."""
    once = max(*(worker.ask("time 1") for worker in workers), 1e-7)
    repeats = max(1, math.ceil(_LEAST_S / once))
    turns = max(3, min(turns, int(_LONGEST_S / (once * repeats))))
    times: list[list[float]] = [[], []]
    for number in range(turns):
        for place in (0, 1) if number % 2 else (1, 0):
            times[place].append(workers[place].ask(f"time {repeats}"))
    ratios = [new / old for old, new in zip(*times, strict=True)]
    return statistics.median(ratios), [min(each) for each in times]


def _compare(rows: list[dict[str, Any]], workers: list[Worker], turns: int) -> dict[str, Any]:
    old, new = rows
    row: dict[str, Any] = {"name": new["name"]}
    failed = new.get("failed") or old.get("failed")
    if failed:
        return {**row, "failed": failed}
    row["same"] = old["digest"] == new["digest"]
    if old["kernels"] and new["kernels"]:
        row["compile"] = new["compile"] / old["compile"]
    row["run"], row["seconds"] = _measure(workers, turns)
    return row


def _described(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"FAILED {row['failed']}"
    compiling = f"{row['compile']:.2f}x" if "compile" in row else "    -"
    old, new = row["seconds"]
    bits = "" if row["same"] else "  other bits"
    return (
        f"compile {compiling}  run {row['run']:.3f}x (least {new / old:.3f}x, "
        f"{1e3 * old:.3f} -> {1e3 * new:.3f} ms){bits}"
    )


def _run_group(other: Path, group: str, only: str, turns: int) -> list[dict[str, Any]]:
    workers = [Worker(checkout, group, only) for checkout in (other, _ROOT)]
    found = []
    try:
        while all(rows := [worker.ask("next") for worker in workers]):
            row = {"group": group, **_compare(rows, workers, turns)}
            print(f"{row['name']:46s} {_described(row)}", flush=True)
            found.append(row)
    except EOFError as error:
        print(f"{group}: {error}")
    finally:
        for worker in workers:
            worker.end()
    return found


def _summary(rows: list[dict[str, Any]]) -> str:
    timed = [row for row in rows if "run" in row]
    lines = [f"{len(rows)} samples"]
    for key in ("compile", "run"):
        ratios = [row[key] for row in timed if key in row]
        if ratios:
            mean = math.exp(statistics.mean(map(math.log, ratios)))
            lines.append(f"{key}: geometric mean {mean:.3f}x, largest {max(ratios):.3f}x")
    slower = sorted((row for row in timed if row["run"] > 1 / 0.97), key=lambda row: -row["run"])
    lines += [f"slower: {row['group']} {row['name']} {row['run']:.3f}x" for row in slower]
    lines += [f"other bits: {row['group']} {row['name']}" for row in timed if not row["same"]]
    return "\n".join(lines)


def main() -> None:
    """Run the groups and print a summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", type=Path, help="the other checkout")
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--only", default="", help="part of the names of samples")
    parser.add_argument("--turns", type=int, default=15, help="measurements of each checkout")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    prefixes = tuple(options.groups) or ("",)
    rows: list[dict[str, Any]] = []
    for group in (each for each in GROUPS if each.startswith(prefixes)):
        print(f"== {group}", flush=True)
        rows += _run_group(options.other.resolve(), group, options.only, options.turns)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(_summary(rows))


if __name__ == "__main__":
    main()
