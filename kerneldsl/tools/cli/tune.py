"""``kerneldsl tune …``: the records of tuning, for a person."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kerneldsl.tools.cli import output
from kerneldsl.tools.cli.output import print_json, print_table
from kerneldsl.utilities.formatting import format_count, format_duration

if TYPE_CHECKING:
    from kerneldsl.tuning.records import LaunchRecords

__all__ = ["make_tune_app"]

_EXIT_WORSE = 1
#: Most names that are listed if a name matches none.
_MOST_NAMES = 10
_KernelOption = Annotated[
    str | None,
    typer.Option("--kernel", "-k", help="Only kernels with this text in their name."),
]
_DeviceOption = Annotated[
    str | None, typer.Option("--device", "-d", help="Only devices with this text in their name.")
]


def make_tune_app() -> typer.Typer:
    """Make the commands below ``kerneldsl tune``."""
    app = typer.Typer(
        cls=output.CommandGroup,
        help="List and move the measurements of tuning, and fit the planner to them.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    commands: dict[str, Callable[..., None]] = {
        "show": _show,
        "export": _export,
        "merge": _merge,
        "fit": _fit,
    }
    for name, command in commands.items():
        app.command(name)(command)
    app.command("list", hidden=True)(_show)  # as of the cache
    return app


def _records(
    kernel: str | None, device: str | None, files: list[Path] | None = None
) -> list[LaunchRecords]:
    """Return records of some kernels and devices, from files or else from the cache."""
    from kerneldsl.tuning.records import read_records
    from kerneldsl.tuning.t4 import read_documents

    found = [r for file in files for r in read_documents(file)[0]] if files else read_records()
    return [
        each
        for each in found
        if (kernel or "") in each.launch.kernel and (device or "") in each.launch.device
    ]


def _show(
    kernel: _KernelOption = None,
    device: _DeviceOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """List tuned launches, with the plan that they use and its gain."""
    from kerneldsl.tuning.t4 import to_document

    records = _records(kernel, device)
    if as_json:
        print_json({"launches": [to_document(each) for each in records]})
        return
    if not records:
        print(_nothing(kernel, device))
        return
    headers = ("kernel", "arguments", "extents to", "device", "plans", "plan", "time", "gain")
    print_table(headers, [_row(each) for each in records])


def _nothing(kernel: str | None, device: str | None) -> str:
    """Print the kernels and devices that have records, if none matches the options."""
    from difflib import SequenceMatcher

    launches = [each.launch for each in _records(None, None)]
    for option, asked, names in (
        ("--kernel", kernel, {each.kernel for each in launches}),
        ("--device", device, {each.device for each in launches}),
    ):
        if asked and names and not any(asked in name for name in names):

            def distance(name: str, asked: str = asked) -> float:
                return -SequenceMatcher(None, asked, name.rpartition(".")[2]).ratio()

            nearest = sorted(sorted(names), key=distance)
            more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            return (
                f"Nothing was tuned for {option} {asked!r}. There are records of, the nearest name "
                f"first: {', '.join(nearest[:_MOST_NAMES])}{more}."
            )
    return "No kernel of that name was tuned on that device." if launches else "Nothing was tuned."


def _row(records: LaunchRecords) -> tuple[object, ...]:
    from kerneldsl.tuning.t4 import configuration_of

    launch, best = records.launch, records.best
    plan = records.chosen or (None if best is None else best.plan)
    first, time = records.first_ns, records.best_ns
    return (
        launch.kernel,
        launch.signature,
        "×".join(map(str, launch.extents)),
        launch.device,
        len(records.plans),
        None
        if plan is None
        else ", ".join(f"{name}={value}" for name, value in configuration_of(plan).items()),
        None if time is None else format_duration(time),
        None if first is None or time is None else f"{first / time:.2f}×",
    )


def _export(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    best: Annotated[
        bool,
        typer.Option(
            "--best",
            help="Write only the chosen plans: a table for the folder `tuned` of a package.",
        ),
    ] = False,
    kernel: _KernelOption = None,
    device: _DeviceOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Write records to a JSON file in the T4 results format, one document for each launch."""
    from kerneldsl.tuning.t4 import write_documents

    count = write_documents(file, _records(kernel, device), best_alone=best)
    if as_json:
        print_json({"launches": count, "file": str(file)})
        return
    print(f"{format_count(count, 'launch', 'launches')} written to {file}")


def _merge(
    files: Annotated[list[Path], typer.Argument(help="Files written by tune export.")],
    as_json: output.JsonOption = False,
) -> None:
    """Import the records of files into the cache.

    If a plan has two records, the more precise one is kept.
    """
    from kerneldsl.tuning.records import merge_records
    from kerneldsl.tuning.t4 import read_documents

    read = [read_documents(file) for file in files]
    refused = sum(count for _, count in read)
    taken, kept = merge_records(each for records, _ in read for each in records)
    if as_json:
        print_json({"taken": taken, "kept": kept, "refused": refused})
        return
    print(
        f"{format_count(taken, 'measurement')} taken in, {kept} were known"
        + (f"; {refused} refused: they are not records with keys" if refused else "")
    )


def _fit(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Files of records; by default those of the cache.")
    ] = None,
    device: _DeviceOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Report the quality of the fit, and store nothing.")
    ] = False,
    as_json: output.JsonOption = False,
) -> None:
    """Fit the planner's constants to the records of each device.

    A fit is stored if it chooses faster plans, or equally fast ones with better predictions. If no
    fit is stored, the exit status is 1.
    """
    from kerneldsl.launch.fitted_models import write_model
    from kerneldsl.planner.fit import fit_model
    from kerneldsl.tools.cli.output import progress

    groups: dict[tuple[str, str], list[Any]] = {}
    for records in _records(None, device, files):
        samples = records.samples()
        if len(samples) > 1:
            at = records.launch.device, records.launch.in_class.driver
            groups.setdefault(at, []).append(samples)
    found = []
    for (name, driver), launches in sorted(groups.items()):
        with progress(f"Fitting the model of {name}", is_quiet=as_json):
            fit = fit_model(launches)
        is_kept = fit.is_better and not dry_run
        if is_kept:
            write_model(name, driver, fit.model)
        found.append((name, fit, is_kept))
    if as_json:
        fits = [
            {"device": name, "is_kept": is_kept, **fit._asdict(), "model": fit.model.to_dict()}
            for name, fit, is_kept in found
        ]
        print_json({"fits": fits})
    elif not found:
        print("Nothing was tuned on a GPU, and only GPUs have a cost model.")
    else:
        headers = ("device", "launches", "plans", "error", "first plan / best", "kept")
        print_table(
            headers,
            [
                (
                    name,
                    fit.launches,
                    fit.samples,
                    f"{fit.error_before:.3f} → {fit.error:.3f}",
                    f"{fit.first_choice_before:.3f} → {fit.first_choice:.3f}",
                    "yes" if is_kept else "no",
                )
                for name, fit, is_kept in found
            ],
        )
    if not any(fit.is_better for _, fit, _ in found):
        raise typer.Exit(_EXIT_WORSE)
