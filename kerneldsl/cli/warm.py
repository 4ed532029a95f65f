"""``kerneldsl warm``: run a script so that what it launches is compiled and kept.

For an architecture that is named, the script runs with every launch going to a described GPU of
that architecture: its kernels are compiled as they would be there, and do not run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from kerneldsl.cli.output import print_table, progress
from kerneldsl.errors import ArgumentValueError, CacheError

__all__ = ["warm"]

#: What the script is started by; the first argument is an architecture or empty.
_RUNNER = """
import dataclasses, json, runpy, sys
import kerneldsl as kd
arch, report, *sys.argv = sys.argv[1:]
if arch:
    target = kd.get_target("null")
    described = target.devices()[0]
    number = int("".join(c for c in arch if c.isdigit()))
    extra = {**described.extra, "compute_capability": divmod(number, 10)}
    target.set_devices(dataclasses.replace(described, arch=arch, extra=extra))
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    with open(report, "w", encoding="utf-8") as file:
        json.dump(kd.cache.stats().to_dict(), file)
"""


def warm(
    script: Annotated[Path, typer.Argument(help="A Python script that launches kernels.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="The script's own.")] = None,
    arch: Annotated[
        list[str] | None,
        typer.Option(
            "--arch",
            "-a",
            help="Compile for this architecture, such as sm_90; kernels do not run. May be given "
            "several times. Without it the script runs as it would by itself.",
        ),
    ] = None,
) -> None:
    """Run a script, and keep what it compiles: for an image that ships its cache."""
    from kerneldsl import cache

    if not script.is_file():
        raise ArgumentValueError(
            f"there is no file {script}", value=str(script), remedy="Check the path"
        )
    if not cache.is_on():
        raise CacheError(
            "the cache is off",
            limit="What is compiled ahead is kept in the cache",
            remedy="Unset KERNELDSL_CACHE, and see kerneldsl cache info",
        )
    rows = [_run(script, arguments or [], each) for each in arch or [""]]
    print_table(("for", "found", "compiled and kept", "not kept"), rows)


def _run(script: Path, arguments: list[str], arch: str) -> tuple[str, int, int, int]:
    import json
    import tempfile

    environment = dict(os.environ)
    if arch:
        environment["KERNELDSL_TARGET"] = "null"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-c", _RUNNER, arch, str(report), str(script), *arguments]
        with progress(f"Running {script}" + (f" for {arch}" if arch else "")):
            done = subprocess.run(command, env=environment, check=False)
        if done.returncode or not report.exists():
            raise ArgumentValueError(
                f"{script} ended with status {done.returncode}" + (f" for {arch}" if arch else ""),
                value=done.returncode,
                limit="For an architecture that is named, kernels are compiled and do not run, so "
                "results are not right"
                if arch
                else None,
                remedy="Check no results in a script for kerneldsl warm"
                if arch
                else f"Run it by itself: {sys.executable} {script}",
            )
        stats = json.loads(report.read_text(encoding="utf-8"))
    missed = sum(stats["misses"].values())
    return arch or "this machine", stats["hits"], stats["writes"], max(0, missed - stats["writes"])
