"""Options that several commands take."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "ArchOption",
    "JsonOption",
    "KernelArgument",
    "MemberOption",
    "SignatureOption",
    "TargetOption",
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
KernelArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE[:KERNEL]",
        help="A Python file or a module, such as pkg.blas, and a kernel in it. If the file defines "
        "only one kernel, its name is not needed.",
    ),
]
MemberOption = Annotated[
    list[str] | None,
    typer.Option(
        "--member",
        "-m",
        metavar="NAME=VALUE,…",
        help="Member of a kernel with a space, such as block=64,items=4.",
    ),
]
SignatureOption = Annotated[
    str | None,
    typer.Option(
        "--signature",
        "-s",
        help='Types of the arguments, such as "float32, float32[::1]"; not needed if the kernel '
        "declares one signature.",
    ),
]
ArchOption = Annotated[
    str | None, typer.Option("--arch", "-a", help="Architecture, such as sm_90.")
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target", "-t", help="cuda or cpu; by default as the file's suffix requires, else cuda."
    ),
]
