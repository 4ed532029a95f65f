"""``kerneldsl build``: compile the kernels of a package, to be shipped with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kerneldsl.errors import ArgumentValueError
from kerneldsl.tools.cli.options import JsonOption
from kerneldsl.tools.cli.output import print_json, print_table, progress_bar

__all__ = ["build"]


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
        Path | None,
        typer.Option("--trace", help="A Python script. What its launches compile is shipped, too."),
    ] = None,
    header: Annotated[
        bool,
        typer.Option(
            "--header",
            help="Also write a C library, with a header, into the folder c of the output. Needs a "
            "C compiler.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compile the kernels of a package, so that it ships them.

    Compiles each kernel for the signatures that it declares, and for the launches of a script.
    """
    from kerneldsl.placement.registry import c_library, get_target, target_writing
    from kerneldsl.tools.cli.building import Builder

    if trace is not None and not trace.is_file():
        raise ArgumentValueError(
            f"there is no file {trace}", value=str(trace), remedy="Check the path"
        )
    usual = get_target(target_writing("asm")).compiler.usual_architectures
    levels = usual if cpu is None else _read_list(cpu)
    builder = Builder(package, levels, _read_list(arch or ""))
    if header:
        builder.c_library = c_library(builder.package.__name__)
    jobs = builder.jobs(trace, arguments or [])
    with progress_bar("Compiling", len(jobs), is_quiet=as_json) as advance:
        for job in jobs:
            advance(job.label)
            job.run()
    if not builder.writer.entries:
        name, reason = next(iter(builder.left_out.items()))
        raise ArgumentValueError(
            f"no kernel of {builder.package.__name__} can be shipped",
            value=package,
            limit=f"{name}: {reason}",
        )
    builder.add_sources()
    folder = builder.folder / "_kernels" if output is None else output
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
    rows = [(*key, ", ".join(dict.fromkeys(found))) for key, found in sorted(counts.items())]
    print_table(("kernel", "signature", "launch", "for"), rows)
    for name, reason in builder.left_out.items():
        print(f"not shipped: {name}: {reason}")
    print(f"{folder}: {len(entries)} compiled kernels, {builder.writer.nbytes / 1024:.0f} KiB")
    if header:
        print(f"{folder / 'c'}: {', '.join(c_files)}")


def _read_list(text: str) -> tuple[str, ...]:
    """Return the words of a list, each once."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
