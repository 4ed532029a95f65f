"""The command ``kerneldsl demo``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from kerneldsl_demo import pictures
from kerneldsl_demo.pipeline import SIGMA, STAGES, Outcome, reference, run_stage
from stdlib_kernels.arrays import to_host

__all__ = ["command"]

#: Exit status where a result differs from the reference.
EXIT_DIFFERS = 1


def command(
    image: Annotated[
        Path | None, typer.Argument(help="An image file; a built-in photograph by default.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pictures.")] = Path(
        "demo-output"
    ),
    target: Annotated[str | None, typer.Option(help="Device: cpu, cuda or cuda:1.")] = None,
    size: Annotated[
        int | None,
        typer.Option(min=1, max=32768, help="Scale the longer side to this many pixels."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Process a photograph with kernels, compare the result with NumPy and SciPy, and time it."""
    source = image if image is not None else pictures.default_image()
    picture = pictures.read(source, size)
    _make_folder(output)
    if target is None:
        report, arrays = _run(picture, as_json)
    else:
        with kd.use(target):
            report, arrays = _run(picture, as_json)
    report = {"image": str(source), "shape": list(picture.shape), **report}
    report["files"] = [str(path) for path in _write(output, arrays)]
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        _print(report)
    if not all(stage["passed"] for stage in report["stages"]):
        raise typer.Exit(EXIT_DIFFERS)


def _make_folder(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentValueError(
            f"the folder {str(output)!r} cannot be made: {error.strerror}",
            value=output,
            remedy="Choose another with --output",
        ) from error


def _run(picture: pictures.Picture, is_quiet: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run every stage where `kd.use` or the environment says, and report."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    place = kd.current_target()
    name, _, index = place.partition(":")
    device = kd.devices(name)[int(index or 0)]
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn())
    outcomes: list[Outcome] = []
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=is_quiet
    ) as progress:
        task = progress.add_task("NumPy and SciPy", total=len(STAGES) + 1)
        expected = reference(picture, SIGMA)
        progress.advance(task)
        arrays: dict[str, Any] = {"input": picture if name == "cpu" else kd.to_device(picture)}
        for stage in STAGES:
            progress.update(task, description=f"{stage.name} on {place}")
            outcomes.append(run_stage(stage, arrays, expected[stage.name]))
            progress.advance(task)
    report = {
        "target": place,
        "device": device.name,
        "arch": device.arch,
        "version": kd.__version__,
        "stages": [outcome.as_dict() for outcome in outcomes],
    }
    return report, {k: to_host(v) for k, v in arrays.items()}


def _write(output: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> list[Path]:
    """Write each picture, and one sheet with all of them."""
    shown = {name: arrays[name] for name in ("input", "grey", "blur", "edges")}
    shown["equalized"] = arrays["equalize"]
    plot = pictures.draw_histogram(arrays["histogram"])
    order = [shown[k] for k in ("input", "grey", "equalized", "blur", "edges")]
    shown["contact-sheet"] = pictures.contact_sheet([*order, plot])
    paths = []
    for name, picture in shown.items():
        path = output / f"{name}.png"
        pictures.write(path, picture)
        paths.append(path)
    return paths


def _print(report: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    height, width = report["shape"][:2]
    console.print(f"{report['image']}, {width} × {height} pixels")
    console.print(
        f"ran on [bold]{report['target']}[/]: {report['device']} ({report['arch']})", emoji=False
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("stage", no_wrap=True)
    for header in ("launches", "first call", "later", "Mpixel/s", "error", "allowed"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=len("differs"))
    for stage in report["stages"]:
        table.add_row(
            stage["stage"],
            str(len(stage["launched"])),
            f"{stage['first_call_s'] * 1e3:.0f} ms",
            f"{stage['call_s'] * 1e3:.3f} ms",
            f"{width * height / stage['call_s'] / 1e6:,.0f}",
            f"{stage['max_error']:.2g}",
            f"{stage['tolerance']:.2g}" if stage["tolerance"] else "exact",
            "[green]ok[/]" if stage["passed"] else "[red]differs[/]",
        )
    console.print(table)
    console.print(
        "later: median of several calls; errors: largest difference from NumPy and SciPy, in grey "
        "levels"
    )
    compiled = [item for stage in report["stages"] for item in stage["compile_s"].items()]
    total = sum(seconds for _, seconds in compiled)
    names = ", ".join(f"{name} {seconds * 1e3:.0f}" for name, seconds in compiled)
    console.print(f"compiled {len(compiled)} kernels in {total:.2f} s (ms: {names})")
    for path in report["files"]:
        console.print(f"wrote {path}")
