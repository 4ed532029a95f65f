"""``kerneldsl warm``: run a script, and cache the kernels that it launches.

With ``--arch``, every launch of the script selects a described GPU of that architecture. Its
kernels are compiled for that GPU, and do not run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from kerneldsl.errors import ArgumentValueError, CacheError
from kerneldsl.tools.cli.output import (
    JsonOption,
    ending,
    print_json,
    print_table,
    progress,
    require_script,
    run_alone_remedy,
)

__all__ = ["warm"]

_STANDARD_ERROR = 2
_RUNNER = "kerneldsl.tools.cli.worker"


def warm(
    script: Annotated[Path, typer.Argument(help="A Python script that launches kernels.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments of the script.")] = None,
    arch: Annotated[
        list[str] | None,
        typer.Option(
            "--arch",
            "-a",
            help="Compile for this architecture, such as sm_90, and do not run kernels. The option "
            "may be repeated. Without it the script runs normally.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a script and cache the kernels that it compiles, for example to ship them in an image."""
    from kerneldsl import cache
    from kerneldsl.placement.registry import get_target, target_writing

    require_script(script)
    if not cache.is_on():
        raise CacheError(
            "the cache is off",
            limit="Compiled kernels are stored in the cache",
            remedy="Unset KERNELDSL_CACHE, and see kerneldsl cache info",
        )
    for each in arch or ():
        # An error here is better than one for each launch.
        get_target(target_writing("ptx")).described(each)
    rows = [_run(script, arguments or [], each, as_json) for each in arch or [""]]
    if as_json:
        names = ("arch", "found", "cached", "not_cached")
        runs = [
            dict(zip(names, (each, *row[1:]), strict=True))
            for each, row in zip(arch or (None,), rows, strict=True)
        ]
        print_json({"script": str(script), "runs": runs})
        return
    print_table(("for", "found", "compiled and cached", "not cached"), rows)


def _run(
    script: Path, arguments: list[str], arch: str, is_quiet: bool
) -> tuple[str, int, int, int]:
    import json
    import tempfile

    from kerneldsl.tools.cli.worker import dry_run

    environment = dict(os.environ)
    if arch:
        environment["KERNELDSL_TARGET"] = dry_run()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", _RUNNER, "warm", json.dumps(arch), str(report)]
        command += [str(script), *arguments]
        with progress(f"Running {script}" + (f" for {arch}" if arch else ""), is_quiet=is_quiet):
            # Output of the script is not part of the JSON.
            output = _STANDARD_ERROR if is_quiet else None
            done = subprocess.run(command, env=environment, stdout=output, check=False)
        if done.returncode or not report.exists():
            raise ArgumentValueError(
                f"{script} {ending(done.returncode)}" + (f" for {arch}" if arch else ""),
                value=done.returncode,
                limit="For an architecture that is named, kernels are compiled and do not run, so "
                "results are not right"
                if arch
                else None,
                remedy="Check no results in a script for kerneldsl warm"
                if arch
                else run_alone_remedy(script, arguments),
            )
        stats = json.loads(report.read_text(encoding="utf-8"))
    missed = sum(stats["misses"].values())
    return arch or "this machine", stats["hits"], stats["writes"], max(0, missed - stats["writes"])
