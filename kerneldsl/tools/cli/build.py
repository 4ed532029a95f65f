"""``kerneldsl build``: compile the kernels of a package, to be shipped with it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerneldsl.errors import ArgumentValueError
from kerneldsl.tools.cli.output import (
    JsonOption,
    print_json,
    print_table,
    progress_bar,
    require_script,
)

if TYPE_CHECKING:
    from kerneldsl.tools.cli.building import Builder

__all__ = ["build"]

#: Kernels that a line names.
_MOST_SHOWN = 8


def build(
    package: Annotated[
        str,
        typer.Argument(help="A package that can be imported, or its folder.", metavar="PACKAGE"),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Arguments of the script of --trace.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to write; by default _kernels in the package."),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(
            "--arch",
            "-a",
            help="Architectures of GPUs, separated by commas, such as sm_80,sm_90,sm_120.",
        ),
    ] = None,
    cpu: Annotated[
        str | None,
        typer.Option(
            "--cpu",
            help="Levels of processors, separated by commas; by default all. An empty text for "
            "none.",
        ),
    ] = None,
    trace: Annotated[
        list[Path] | None,
        typer.Option(
            "--trace",
            help="A Python script. What its launches compile is shipped, too. The option may be "
            "repeated.",
        ),
    ] = None,
    header: Annotated[
        bool,
        typer.Option(
            "--header",
            help="Also write a C library, with a header, into the folder c of the output. Needs a "
            "C compiler.",
        ),
    ] = False,
    workers: Annotated[
        int,
        typer.Option(
            "--jobs", "-j", help="Processes that compile; by default one for each processor.", min=0
        ),
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Compile the kernels of a package, so that it ships them.

    Compiles each kernel for the signatures that it declares, and for the launches of a script.
    """
    from kerneldsl.launch.recorded import recording
    from kerneldsl.placement.registry import c_library, get_target, target_writing
    from kerneldsl.shipping.writer import require_writable
    from kerneldsl.tools.cli.building import Builder
    from kerneldsl.tools.cli.tasks import do_tasks, usable_processors

    scripts = trace or []
    for script in scripts:
        require_script(script)
    usual = get_target(target_writing("asm")).compiler.usual_architectures
    levels = usual if cpu is None else _read_list(cpu)
    workers = workers or usable_processors()
    with ExitStack() as during:
        during.enter_context(recording())  # neither the cache nor the package itself is read
        if as_json:  # what scripts print is no part of the JSON
            during.enter_context(redirect_stdout(sys.stderr))
        builder = Builder(package, levels, _read_list(arch or ""))
        folder = builder.folder / "_kernels" if output is None else output
        require_writable(folder)
        if header:
            builder.c_library = c_library(builder.package.__name__)
        show = during.enter_context(progress_bar("Compiling", is_quiet=as_json))
        do_tasks(builder, builder.tasks(scripts, arguments or [], workers), workers, show)
    builder.note_unused()
    if not builder.writer.entries:
        raise _nothing(builder)
    builder.add_sources()
    builder.writer.write(folder)
    c_files = builder.c_library.write(folder / "c") if header else ()
    entries = builder.writer.entries
    if as_json:
        files = sorted(builder.writer.contents())
        print_json(
            {
                "package": builder.package.__name__,
                "folder": str(folder),
                "entries": [
                    {
                        "kernel": each.kernel,
                        "signature": each.signature,
                        "launch": each.launch,
                        "arch": each.arch,
                        "files": dict(each.files),
                    }
                    for each in builder.writer.manifest().entries
                ],
                "files": files,
                "c_files": sorted(c_files),
                "bytes": builder.writer.nbytes,
                "left_out": builder.left_out,
            }
        )
        return
    counts: dict[tuple[str, str, str], list[str]] = {}
    for each in entries:
        counts.setdefault((each.kernel, each.signature, each.launch), []).append(each.arch)
    order = (*builder.levels, *builder.architectures)
    rows = [
        (*key, ", ".join(arch for arch in order if arch in found))
        for key, found in sorted(counts.items())
    ]
    print_table(("kernel", "signature", "launch", "for"), rows)
    _print_left_out(builder.left_out)
    print(f"{folder}: {len(entries)} compiled kernels, {builder.writer.nbytes / 1024:.0f} KiB")
    if header:
        print(f"{folder / 'c'}: {', '.join(c_files)}")


def _print_left_out(left_out: Mapping[str, str]) -> None:
    """Say what is not shipped; names with one reason are in one line."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        shown = ", ".join(names[:_MOST_SHOWN])
        rest = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
        print(f"not shipped: {shown}{rest}: {reason}")


def _nothing(builder: Builder) -> ArgumentValueError:
    """Return the error for a package that has nothing to ship."""
    name = builder.package.__name__
    for kernel, reason in builder.left_out.items():
        return ArgumentValueError(
            f"no kernel of {name} can be shipped", value=name, limit=f"{kernel}: {reason}"
        )
    return ArgumentValueError(
        f"{name} has no kernels to compile",
        value=name,
        limit="Kernels are compiled for the signatures that they declare, and for the launches of "
        "a script",
        remedy="Write @kd.kernel(signature=…), or name a script that launches the kernels: "
        "--trace script.py",
    )


def _read_list(text: str) -> tuple[str, ...]:
    """Return the words of a list, each once."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
