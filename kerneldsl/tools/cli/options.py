"""Options that several commands take."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["ArchOption", "JsonOption", "KernelArgument", "SignatureOption", "TargetOption"]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
KernelArgument = Annotated[
    str, typer.Argument(metavar="FILE:KERNEL", help="A Python file and a kernel in it.")
]
SignatureOption = Annotated[
    str | None,
    typer.Option(
        "--signature",
        "-s",
        help='Types of the arguments, such as "float32, float32[::1]"; may be left out where the '
        "kernel declares one.",
    ),
]
ArchOption = Annotated[
    str | None, typer.Option("--arch", "-a", help="Architecture, such as sm_90.")
]
TargetOption = Annotated[
    str | None, typer.Option("--target", "-t", help="cuda, the default, or cpu.")
]
