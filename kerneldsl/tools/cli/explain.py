"""``kerneldsl explain``: the memory accesses of a launch, without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from kerneldsl.errors import ArgumentValueError
from kerneldsl.tools.cli import output
from kerneldsl.tools.cli.output import print_json, progress

__all__ = ["explain"]


def explain(
    kernel: output.KernelArgument,
    signature: output.SignatureOption = None,
    block: Annotated[
        str | None, typer.Option("--block", help="Block, such as 256 or 32,8.")
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            "--grid", help="Grid; by default it covers the largest array that is written."
        ),
    ] = None,
    forall: Annotated[
        str | None,
        typer.Option("--forall", help="Extent of a launch by forall, such as 1000,1000."),
    ] = None,
    size: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            metavar="NAME=VALUE,…",
            help="A parameter's value, or the shape of an array, such as a=1000,1000.",
        ),
    ] = None,
    arch: output.ArchOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Explain a launch: accesses, bank conflicts, branches, arithmetic, and suggested changes.

    Needs no GPU. If a value is missing, it is assumed, and the assumption is shown.
    """
    from kerneldsl.tools.cli.find import find_kernel, read_dims, signature_arguments

    def dims(text: str | None, option: str) -> tuple[int, ...] | None:
        return None if text is None else read_dims(text, option)

    found = find_kernel(kernel)
    with progress(f"Explaining {kernel}", is_quiet=as_json):
        explanation = found.explain(
            *signature_arguments(found, signature),
            block=dims(block, "--block"),
            grid=dims(grid, "--grid"),
            forall=dims(forall, "--forall"),
            sizes=_read_sizes(size or ()),
            arch=arch,
        )
    if as_json:
        print_json(explanation.to_dict())
    else:
        print(explanation)


def _read_sizes(given: Sequence[str]) -> dict[str, Any]:
    """Read ``NAME=VALUE,…``; one number is a value or the length of an array."""
    sizes: dict[str, Any] = {}
    for text in given:
        name, _, values = text.partition("=")
        try:
            numbers = tuple(int(part) for part in values.split(","))
        except ValueError as error:
            raise ArgumentValueError(
                f"--size is {text!r}",
                value=text,
                limit="It must be NAME=VALUE, with several values of an array with several axes",
            ) from error
        sizes[name] = numbers[0] if len(numbers) == 1 else numbers
    return sizes
