"""Run compute-sanitizer's tools over the selected cases, and over the faults they must find.

``python -m tests.sanitizer.run`` needs a GPU and compute-sanitizer of the CUDA toolkit. The runs
are independent processes and share the cores; each leaves its log in the folder given by ``--out``.
The exit status is 1 when a tool reports something in the cases, does not report its planted fault,
or did not see every case.

Device memory comes straight from the driver meanwhile (``KERNELDSL_POOL=off``): inside a pool the
tools cannot tell where an array ends, nor that its memory was never written.

References
----------
Compute Sanitizer User Manual, sections "Command Line Options" and "Return Codes".
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.sanitizer.planted import PLANTED
from tests.sanitizer.selection import sanitized_cases

__all__ = ["TOOLS", "Job", "Verdict", "find_sanitizer", "judge", "main", "run"]

#: The tools, in the order of their documentation.
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
#: What the sanitizer makes of the exit status when it found something.
FOUND_STATUS = 86
#: Seconds that one run may take.
_LIMIT_S = 300
_ROOT = Path(__file__).resolve().parents[2]
_SUMMARY = re.compile(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (\d+)", re.MULTILINE)
_PASSED = re.compile(r"\b(\d+) passed\b")


@dataclass(frozen=True)
class Job:
    """One run of one tool.

    Parameters
    ----------
    tool : str
        One of `TOOLS`.
    is_planted : bool
        Over the tool's planted fault, not over the cases.
    """

    tool: str
    is_planted: bool

    @property
    def name(self) -> str:
        """Stem of the log's file name."""
        return f"{self.tool}-{'planted' if self.is_planted else 'cases'}"

    def command(self, sanitizer: str) -> list[str]:
        """The command line."""
        under = [
            *(sanitizer, "--tool", self.tool, "--error-exitcode", str(FOUND_STATUS)),
            *("--print-limit", "20", sys.executable, "-m"),
        ]
        if self.is_planted:
            return [*under, "tests.sanitizer.planted", self.tool]
        return [
            *(*under, "pytest", "-q", "-m", "sanitizer", "-p", "no:cacheprovider"),
            "tests/sanitizer/test_cases.py",
        ]


@dataclass(frozen=True)
class Verdict:
    """What a run showed.

    Parameters
    ----------
    job : Job
        The run.
    failure : str or None
        What is wrong, in words; ``None`` where all is as it must be.
    elapsed_s : float
        How long it took.
    """

    job: Job
    failure: str | None
    elapsed_s: float


def find_sanitizer() -> str | None:
    """Path of compute-sanitizer: on the search path, or in the usual place of the toolkit."""
    found = shutil.which("compute-sanitizer")
    if found is None:
        usual = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", "compute-sanitizer")
        found = str(usual) if usual.exists() else None
    return found


def judge(job: Job, status: int, output: str, case_count: int) -> str | None:
    """Say what is wrong with a finished run, or ``None``.

    Parameters
    ----------
    job : Job
        The run.
    status : int
        Its exit status.
    output : str
        All it wrote.
    case_count : int
        How many cases must have passed.
    """
    summary = _SUMMARY.search(output)
    if summary is None:
        return "the tool wrote no summary, so it did not run to its end"
    found = int(summary[1])
    if job.is_planted:
        planted = PLANTED[job.tool]
        missing = [words for words in (planted.report, planted.kernel) if words not in output]
        if status != FOUND_STATUS or not found or missing:
            return f"the planted fault was not found: status {status}, {found} reported" + "".join(
                f", no {words!r} in the log" for words in missing
            )
        return None
    if found or status == FOUND_STATUS:
        return f"{found} reported in the cases"
    if status:
        return f"the cases ended with status {status}"
    passed = _PASSED.search(output)
    if passed is None or int(passed[1]) != case_count:
        return f"{passed[1] if passed else 0} of {case_count} cases passed under the tool"
    return None


def run(job: Job, sanitizer: str, out: Path) -> Verdict:
    """Run one job, write its log and judge it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KERNELDSL_")}
    environment |= {
        "PYTHONPATH": str(_ROOT),
        "KERNELDSL_REQUIRE_GPU": "1",
        "KERNELDSL_POOL": "off",
        # A launch that went to the CPU instead would show the tool nothing.
        "KERNELDSL_FALLBACK": "never",
    }
    begin = time.monotonic()
    try:
        done = subprocess.run(
            job.command(sanitizer),
            cwd=_ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        partial = error.stdout or b""
        text = partial if isinstance(partial, str) else partial.decode(errors="replace")
        (out / f"{job.name}.log").write_text(text)
        return Verdict(job, f"did not end within {_LIMIT_S} s", time.monotonic() - begin)
    (out / f"{job.name}.log").write_text(done.stdout)
    failure = judge(job, done.returncode, done.stdout, len(sanitized_cases()))
    return Verdict(job, failure, time.monotonic() - begin)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every tool over its fault and over the cases; 0 when all is as it must be."""
    parser = argparse.ArgumentParser(prog="python -m tests.sanitizer.run", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu-results/sanitizer"))
    parser.add_argument("--tool", action="append", choices=TOOLS, help="only these tools")
    parser.add_argument("--at-once", type=int, default=8, metavar="N", help="runs at a time")
    given = parser.parse_args(arguments)
    sanitizer = find_sanitizer()
    if sanitizer is None:
        print("compute-sanitizer was not found; it comes with the CUDA toolkit", file=sys.stderr)
        return 1
    given.out.mkdir(parents=True, exist_ok=True)
    jobs = [Job(tool, planted) for tool in given.tool or TOOLS for planted in (True, False)]
    is_right = True
    with ThreadPoolExecutor(given.at_once) as pool:
        for verdict in pool.map(lambda job: run(job, sanitizer, given.out), jobs):
            expected = "found" if verdict.job.is_planted else "nothing found"
            is_right &= verdict.failure is None
            word = expected if verdict.failure is None else f"FAILED: {verdict.failure}"
            print(f"{verdict.job.name:20} {verdict.elapsed_s:6.1f} s  {word}", flush=True)
    print(f"logs in {given.out}" if is_right else f"BROKEN, see the logs in {given.out}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
