"""``kerneldsl profile``: run a script, and report its launches, copies and waits with times."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from kerneldsl.errors import ArgumentValueError
from kerneldsl.profiling.summary import ProfileSummary, SummaryRow
from kerneldsl.tools.cli.output import (
    INTERRUPTED,
    JsonOption,
    ending,
    new_console,
    print_json,
    print_message,
    print_table,
    require_script,
    run_alone_remedy,
)
from kerneldsl.utilities.formatting import format_percent

__all__ = ["profile"]

_STANDARD_ERROR = 2
#: Exit status of a script that ended without an error and left no profile.
_EXIT_REFUSED = 2
_RUNNER = "kerneldsl.tools.cli.worker"
#: Columns for which a terminal of fewer characters has no room; ``--json`` has them.
_LEFT_OUT, _WIDE = ("min", "max", "GFLOP/s", "of the roof"), 120


def profile(
    script: Annotated[Path, typer.Argument(help="A Python script that launches kernels.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments of the script.")] = None,
    by: Annotated[
        str,
        typer.Option(
            "--by", help="Summarize the time of the host or of the device: host or device."
        ),
    ] = "host",
    streams: Annotated[bool, typer.Option("--streams", help="Show a row for each stream.")] = False,
    work: Annotated[
        bool,
        typer.Option(
            "--work/--no-work",
            help="Count bytes and operations; this takes up to a second for each kernel.",
        ),
    ] = False,
    timeline: Annotated[
        Path | None,
        typer.Option(
            "--timeline",
            help="File to write: .json for Perfetto; .png, .svg or .pdf for a picture.",
        ),
    ] = None,
    nvtx: Annotated[
        bool, typer.Option("--nvtx", help="Mark all activities with NVTX ranges, for Nsight.")
    ] = False,
    cupti: Annotated[
        bool, typer.Option("--cupti", help="Measure times on GPUs with CUPTI instead of events.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a script and report its launches, copies and waits. Options precede the script."""
    require_script(script)
    if by not in ("host", "device"):
        raise ArgumentValueError(f"--by is {by!r}", value=by, limit="It must be host or device")
    file = _read_early(timeline, nvtx=nvtx, cupti=cupti)
    options = {"by": by, "streams": streams, "work": work, "nvtx": nvtx, "cupti": cupti}
    options["timeline"] = file
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", _RUNNER, "profile", json.dumps(options)]
        # Output of the script is not part of the JSON.
        output = _STANDARD_ERROR if as_json else None
        status = _run([*command, str(report), str(script), *(arguments or ())], output)
        text = report.read_text(encoding="utf-8") if report.exists() else None
    refused = None
    if text is not None:
        found = json.loads(text)
        refused = found.pop("refused")
        _show(found, str(script), status, as_json)
    if status or text is None:
        failure = ArgumentValueError(
            f"{script} {ending(status)}",
            value=status,
            limit=None if text else "It left no profile",
            remedy=None if status in INTERRUPTED else run_alone_remedy(script, arguments or ()),
        )
        print_message("error", "bold red", failure)
        # A shell has 128 and the number of the signal for what a signal ends.
        raise typer.Exit(status if status > 0 else 128 - status if status else _EXIT_REFUSED)
    if refused is not None:
        raise ArgumentValueError(
            f"there is no timeline of {script}",
            value=options["timeline"],
            limit=refused,
            remedy="Choose another file with --timeline",
        )


def _read_early(timeline: Path | None, *, nvtx: bool, cupti: bool) -> str | None:
    """Return the file of the timeline, or raise the error that the script's process would raise.

    In that process, it would look like an error of the script. Without these options there is
    nothing to check, and the script does not wait for the imports of profiles.
    """
    if nvtx or cupti:
        from kerneldsl.profiling.profile import profile as make_profile

        make_profile(nvtx=nvtx, cupti=cupti)
    if timeline is None:
        return None
    from kerneldsl.profiling.timeline import read_timeline

    return str(read_timeline(timeline))


def _run(command: list[str], output: int | None) -> int:
    """Run the script's process; meanwhile import the modules that print its summary."""
    with _first_interrupt_passed(), subprocess.Popen(command, stdout=output) as process:
        try:
            import rich.console
            import rich.table  # noqa: F401 -- for `print_table`

            return process.wait()
        except BaseException:  # such as a second interruption
            process.kill()
            raise


@contextmanager
def _first_interrupt_passed() -> Iterator[None]:
    """Ignore a first interruption: the script has it, too, and writes the profile so far.

    An exception where the process has just ended would lose its status.
    """
    before, is_passed = signal.getsignal(signal.SIGINT), False

    def handle(number: int, frame: object) -> None:
        nonlocal is_passed
        if is_passed:
            raise KeyboardInterrupt
        is_passed = True

    if not callable(before):  # interruptions are ignored, by the script too
        yield
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _show(report: dict[str, object], script: str, status: int, as_json: bool) -> None:
    if as_json:
        print_json({"script": script, "status": status, **report})
        return
    rows = report.pop("rows")
    recorded_ns = report.pop("recorded_ns")
    assert isinstance(rows, list)
    assert isinstance(recorded_ns, int)
    summary = ProfileSummary(rows=tuple(SummaryRow(**row) for row in rows), **report)  # type: ignore[arg-type]
    headers, cells = summary._table()
    left_out = _LEFT_OUT if new_console().width < _WIDE else ()
    shown = [place for place, header in enumerate(headers) if header not in left_out]
    rows_shown = [[row[place] for place in shown] for row in cells]
    fixed = [each for each in headers if each not in ("name", "stream")]
    print_table([headers[place] for place in shown], rows_shown, fixed=fixed)
    share = recorded_ns / summary.wall_ns if summary.wall_ns else 0.0
    print(f"{summary._caption()}, {format_percent(share)} of which was recorded")
