"""``python -m tests.fuzz``: run generated programs, or show one.

``--programs 20000 --seed 0 --targets cpu,null --workers 2 --json counts.json`` runs the programs of
the seeds from 0 on; a target ``sm_90`` compiles them for that architecture and has ptxas assemble
them, without a GPU. The target ``regions`` interprets the region IR, and counts what its front end
does not read. ``--show 17`` writes program 17 and what it is launched with, and with
``--shrink cpu`` a smaller one that fails there in the same way. ``--integers`` runs programs of
integers of all types instead (:mod:`tests.fuzz.integer_programs`). ``--python`` runs those with
Python as their oracle (:mod:`tests.fuzz.python_programs`), on ``cpu`` and ``null``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

from tests.fuzz.runs import COMMAND, INTEGER_COMMAND, PYTHON_COMMAND, Report, run_programs


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--targets", default="cpu,null")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--variants", type=float, default=0.5, help="part of the programs that one is tried of"
    )
    parser.add_argument("--thorough", action="store_true", help="try all variants")
    parser.add_argument("--seconds", type=float, help="begin no more programs after this time")
    parser.add_argument("--integers", action="store_true", help="programs of integers alone")
    parser.add_argument("--python", action="store_true", help="programs whose oracle is Python")
    parser.add_argument("--json", type=Path, help="file for the counts and failures")
    parser.add_argument("--commit", help="to be recorded, where git cannot tell")
    parser.add_argument("--show", type=int, metavar="SEED", help="write one program")
    parser.add_argument("--shrink", metavar="TARGET[:VARIANT]", help="make the shown one smaller")
    return parser.parse_args()


class _Progress:
    """Says how far it is once in a while, and each failure at once."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.start = self.last = time.monotonic()
        self.shown = 0

    def __call__(self, report: Report) -> None:
        for outcome in report.failures[self.shown :]:
            text = " ".join(outcome.detail.split())[:300]
            print(f"{outcome.kind:9}{outcome.seed:8} {outcome.target} {outcome.variant}: {text}")
        self.shown = len(report.failures)
        now = time.monotonic()
        if now - self.last > 10 or report.programs == self.total:
            self.last = now
            print(
                f"{report.programs} of {self.total} programs, {len(report.failures)} failures, "
                f"{now - self.start:.0f} s",
                flush=True,
            )


def _show(given: argparse.Namespace) -> None:
    seed, shrink_for = given.show, given.shrink
    if given.python:
        from tests.fuzz.python_programs import generate_python

        found = generate_python(seed)
        print(found.text, f"# launched as {found.grid}, {found.block} or forall {found.total}")
        return
    if given.integers:
        from tests.fuzz.integer_programs import generate_integers

        program_of_integers = generate_integers(seed)
        print(program_of_integers.kernel, program_of_integers.oracle, sep="\n")
        return
    from tests.fuzz.kernels import generate
    from tests.fuzz.shrink import shrink

    program = generate(seed)
    if shrink_for:
        target, _, variant = shrink_for.partition(":")
        program = shrink(program, target, variant or "plain")
    print(program.text)
    print(f"# launched as {program.grid}, {program.block} or forall {program.extents}")
    for parameter in program.parameters:
        print(f"# {parameter}")


def _run(given: argparse.Namespace) -> dict[str, object]:
    """What was run, with what, when."""
    commit = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    found = subprocess.run(commit, capture_output=True, text=True, check=False)
    return {
        "commit": given.commit or found.stdout.strip() or "unknown",
        "date": time.strftime("%Y-%m-%d"),
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "versions": {n: metadata.version(n) for n in ("numba", "llvmlite", "numpy")},
        "first_seed": given.seed,
        "targets": given.targets,
        "variants": 1.0 if given.thorough else given.variants,
    }


def _command(given: argparse.Namespace) -> tuple[str, ...]:
    if given.python:
        return PYTHON_COMMAND
    return INTEGER_COMMAND if given.integers else COMMAND


def main() -> int:
    """Run, print the table, and return 1 if any program failed."""
    given = _arguments()
    if given.show is not None:
        _show(given)
        return 0
    report = run_programs(
        given.seed,
        given.programs,
        targets=given.targets.split(","),
        share=1.0 if given.thorough else given.variants,
        workers=given.workers,
        seconds=given.seconds,
        command=_command(given),
        progress=_Progress(given.programs),
    )
    print(report.table())
    if given.json:
        found = {**_run(given), **report.as_json()}
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
