"""The commands of ``kerneldsl``, and those that other packages register.

Each command imports its modules when it runs, so that a list of devices does not wait for a
compiler.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer

from kerneldsl._version import __version__
from kerneldsl.errors import FallbackWarning, KernelError
from kerneldsl.placement.registry import command_names, command_summary, get_command
from kerneldsl.tools.cli import health, machine, output
from kerneldsl.tools.cli.bench import make_bench_app
from kerneldsl.tools.cli.build import build
from kerneldsl.tools.cli.cache import make_cache_app
from kerneldsl.tools.cli.explain import explain
from kerneldsl.tools.cli.output import print_json, print_message, print_table
from kerneldsl.tools.cli.profile import profile
from kerneldsl.tools.cli.run import run_program
from kerneldsl.tools.cli.tune import make_tune_app
from kerneldsl.tools.cli.warm import warm

__all__ = ["make_app", "run"]

#: Exit code for a request that could not be met, as of a usage error.
_EXIT_REFUSED = 2


def _versions(as_json: output.JsonOption = False) -> None:
    """Print the versions of all packages that kernels need, and the devices."""
    from kerneldsl.tools.versions import collect_versions, show_versions

    if as_json:
        print_json(collect_versions())
    else:
        show_versions()


def _passes(as_json: output.JsonOption = False) -> None:
    """List the optimizing passes, which KERNELDSL_DISABLE_PASSES disables by name."""
    from kerneldsl.placement.registry import optimizing_passes

    found = optimizing_passes()
    if as_json:
        print_json({"passes": [each._asdict() for each in found]})
        return
    rows = [(each.name, each.stage, each.purpose) for each in found]
    print_table(("pass", "stage", "purpose"), rows, fixed=("pass",))


def _compile(
    kernel: output.KernelArgument,
    signature: output.SignatureOption = None,
    arch: Annotated[
        list[str] | None,
        typer.Option(
            "--arch",
            "-a",
            help="Architecture, such as sm_90; for NAME.fatbin several, such as sm_80,sm_90.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write, NAME.ptx, NAME.cubin, NAME.fatbin, NAME.s or NAME.ll; without it "
            "PTX (for cpu: assembly) goes to standard output.",
        ),
    ] = None,
    ptx_version: Annotated[
        str | None, typer.Option("--ptx-version", help="PTX ISA version, such as 8.7.")
    ] = None,
    forall: Annotated[
        int | None,
        typer.Option("--forall", help="Compile for launches by forall with this number of axes."),
    ] = None,
    block: Annotated[
        str | None,
        typer.Option(
            "--block",
            help="Block, such as 256 or 32,8, for --target cpu and kernels with tiles or a space.",
        ),
    ] = None,
    member: output.MemberOption = None,
    target: output.TargetOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the names of the files as JSON.")
    ] = False,
) -> None:
    """Compile a kernel to a file, with descriptions of its parameters.

    Needs no GPU. With -o NAME.ptx, NAME.ptx.params.txt and NAME.ptx.params.json describe the
    parameters. NAME.cubin needs ptxas or nvJitLink. NAME.fatbin needs ptxas and fatbinary. It has
    machine code for each architecture, and PTX for newer ones.
    """
    from kerneldsl.tools.cli.compile import compile_to_file

    compile_to_file(
        kernel,
        signature,
        output=output,
        as_json=as_json,
        target=target,
        arch=[name for each in arch or () for name in each.split(",") if name.strip()],
        forall=forall,
        block=block,
        member=member or (),
        ptx_version=ptx_version,
    )


def make_app(extra: tuple[str, ...] = ()) -> typer.Typer:
    """Make the command-line application.

    Commands of the registry that `extra` names are loaded; others are listed, and loaded when they
    are run.
    """
    app = typer.Typer(
        name="kerneldsl",
        cls=output.CommandGroup,
        help="Kernels written in Python, for GPUs and CPUs.",
        context_settings={"help_option_names": ["--help", "-h"]},
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for command in (health.summary, health.doctor, machine.devices):
        app.command(command.__name__)(command)
    # The summary has all of these; their names are those of earlier releases.
    for former in (machine.backends, machine.default, health.status):
        app.command(former.__name__, hidden=True)(former)
    app.command("compile")(_compile)
    app.command("explain")(explain)
    # Arguments after the script belong to the script.
    app.command("profile", context_settings={"allow_interspersed_args": False})(profile)
    app.command("run", context_settings={"allow_interspersed_args": False})(run_program)
    app.command("passes")(_passes)
    app.command("versions", hidden=True)(_versions)
    app.command("warm")(warm)
    app.command("build")(build)
    app.add_typer(make_bench_app(), name="bench")
    app.add_typer(make_cache_app(), name="cache")
    app.add_typer(make_tune_app(), name="tune")
    for name in command_names():
        if name in extra:
            app.command(name)(get_command(name))
        else:
            app.command(name, help=command_summary(name))(_unloaded)
    return app


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"kerneldsl {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Write kernels in Python, for GPUs and CPUs."""


def _unloaded() -> None:
    """Represent a command in the list that is loaded only when it runs."""


def run(arguments: list[str] | None = None) -> None:
    """Run the command line.

    An error of kerneldsl, or a file that cannot be read or written, is one message and exit code 2.
    """
    if sys.stdout is None:  # it was closed before the start, as by `>&-`
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 -- for good
    # A terminal that lacks a character shows another in its place, instead of an error.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    given: list[str] = sys.argv[1:] if arguments is None else arguments
    wanted = next((a for a in given if not a.startswith("-")), "")
    with warnings.catch_warnings():
        warnings.showwarning = partial(_show_warning, warnings.showwarning)
        try:
            make_app((wanted,))(given, prog_name="kerneldsl")
        except KernelError as error:
            print_message("error", "bold red", error)
            raise SystemExit(_EXIT_REFUSED) from error
        except OSError as error:
            print_message("error", "bold red", _file_message(error))
            raise SystemExit(_EXIT_REFUSED) from error


def _file_message(error: OSError) -> str:
    """Return the system's message and its file."""
    file = error.filename2 or error.filename
    return f"{error.strerror or error}" + (f": {os.fsdecode(file)}" if file else "")


def _show_warning(
    otherwise: Callable[..., None],
    message: Warning | str,
    category: type[Warning],
    *where: Any,
    **fields: Any,
) -> None:
    """Show a fallback as a message without a line of code, because the user typed a command."""
    if issubclass(category, FallbackWarning):
        print_message("warning", "yellow", message)
    else:
        otherwise(message, category, *where, **fields)
