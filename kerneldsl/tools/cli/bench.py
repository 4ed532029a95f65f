"""``kerneldsl bench compare``: the changes between two runs of a benchmark."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kerneldsl.errors import ArgumentValueError
from kerneldsl.tools.cli.output import CommandGroup, JsonOption, print_json, print_table
from kerneldsl.utilities.formatting import format_count, format_percent

if TYPE_CHECKING:
    from kerneldsl.tools.comparison.compare import Change, Comparison

__all__ = ["make_bench_app"]

_EXIT_WORSE = 1
_SHOWN_LEFT_OUT = 3
_BASES = {
    "samples": "ranks of the samples",
    "quartiles": "medians and quartiles",
    "extremes": "extremes alone",
    "other figures": "medians alone, against the other figures",
}


def make_bench_app() -> typer.Typer:
    """Make the commands of ``kerneldsl bench``."""
    app = typer.Typer(cls=CommandGroup, help="Compare results of benchmarks.", no_args_is_help=True)
    app.callback()(_bench)
    app.command("compare")(compare)
    return app


def _bench() -> None:
    """Compare results of benchmarks."""


def compare(
    old: Annotated[Path, typer.Argument(help="JSON file of a benchmark.")],
    new: Annotated[Path, typer.Argument(help="JSON file of a later run.")],
    rate: Annotated[
        float,
        typer.Option(
            "--rate", help="Share of the changes that may be due to chance.", min=1e-9, max=0.5
        ),
    ] = 0.05,
    least: Annotated[
        float,
        typer.Option("--least", help="Ignore smaller changes of the median.", min=0.0, max=1.0),
    ] = 0.01,
    show_all: Annotated[
        bool, typer.Option("--all", help="Show also figures without a change.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Report the figures that became worse or better between two runs, by statistical tests.

    Samples are compared by their ranks, medians by their quartiles. If only medians are stored, a
    figure is reported if its change is an outlier. If a figure is worse, the exit status is 1.
    """
    from kerneldsl.tools.comparison.compare import compare_results

    found = compare_results(_read(old), _read(new), rate=rate, least=least)
    if as_json:
        print_json({**found.to_dict(), "worse": [each.figure for each in found.worse]})
    else:
        _print(found, show_all)
    if found.worse:
        raise typer.Exit(_EXIT_WORSE)


def _read(file: Path) -> Any:
    data = file.read_bytes()
    try:
        return json.loads(gzip.decompress(data) if file.suffix == ".gz" else data)
    except (ValueError, OSError, EOFError) as error:
        raise ArgumentValueError(
            f"{file} is not JSON",
            value=str(file),
            limit=str(error),
            remedy="Give what a benchmark wrote with --json",
        ) from error


def _print(found: Comparison, show_all: bool) -> None:
    shown = [each for each in found.changes if show_all or each.verdict in ("better", "worse")]
    if shown:
        headers = ("figure", "old", "new", "change", "interval", "by chance", "", "judged by")
        print_table(headers, map(_cells, shown))
    counts = {
        verdict: sum(1 for each in found.changes if each.verdict == verdict)
        for verdict in ("worse", "better", "same", "not judged")
    }
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    print(f"{format_count(len(found.changes), 'figure')}: {said}")
    if counts["not judged"]:
        print("Not judged are single medians, too few to say how medians vary here.")
    if found.left_out:
        of = format_count(len(found.left_out), "figure")
        print(f"{of} left out, of which a number is no time or rate: not finite, or not above 0")
        shown_count = len(found.left_out) if show_all else _SHOWN_LEFT_OUT
        for figure, why in list(found.left_out.items())[:shown_count]:
            print(f"  {figure}: {why}")
        if len(found.left_out) > shown_count:
            print("  … (--all shows them)")
    for name, (old, new) in found.machine.items():
        print(f"The machines differ: {name} was {old}, and is {new}")
    for title, names in (("old", found.only_old), ("new", found.only_new)):
        if names:
            print(f"{format_count(len(names), 'figure')} in the {title} file alone")


def _cells(change: Change) -> tuple[object, ...]:
    interval = None
    if change.low is not None and change.high is not None:
        interval = f"{_percent(change.low)} to {_percent(change.high)}"
    return (
        change.figure,
        f"{change.old:.4g}",
        f"{change.new:.4g}",
        _percent(change.ratio),
        interval,
        None if change.probability is None else f"{change.probability:.2g}",
        change.verdict,
        _BASES[change.basis],
    )


def _percent(ratio: float) -> str:
    return format_percent(ratio - 1, "+.1f")
