"""Options that commands share, and their output: tables, JSON, progress on standard error."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import shlex
import signal
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from kerneldsl.errors import ArgumentValueError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

__all__ = [
    "INTERRUPTED",
    "JsonOption",
    "ending",
    "new_console",
    "print_json",
    "print_message",
    "print_table",
    "progress",
    "progress_bar",
    "require_script",
    "run_alone_remedy",
    "styled",
]


#: Columns of a table that goes into a file or a pipe, where no window sets the width.
_PIPED_WIDTH = 200
#: Below this many columns a table is printed as one cell a line.
_NARROW = 60
#: Statuses of a process that Ctrl-C ended: the signal's, and that of a shell.
INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)
_STYLES = {
    "ok": "green",
    "yes": "green",
    "warning": "yellow",
    "problem": "bold red",
    "no": "dim",
}


class CommandGroup(TyperGroup):
    """A command with commands below it."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for command in self.commands.values():
            # Lines are those of the terminal, not those of the docstring.
            paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
            command.help = "\n\n".join(" ".join(each.split()) for each in paragraphs)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse an option before a command, and name the commands."""
        first = args[0].partition("=")[0] if args else ""
        known = {option for each in self.get_params(ctx) for option in each.opts}
        if first.startswith("--") and first not in {"--", *known}:
            names = ", ".join(name for name, each in self.commands.items() if not each.hidden)
            ctx.fail(f"Write {first} after a command of {ctx.command_path}: {names}")
        return super().parse_args(ctx, args)


def new_console(*, stderr: bool = False) -> Console:
    """Return a console; without colours where the output is no terminal, or ``NO_COLOR`` is set."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    is_sized = stream.isatty() or "COLUMNS" in os.environ
    return Console(
        stderr=stderr,
        highlight=False,
        width=None if is_sized else _PIPED_WIDTH,
        # An old Windows terminal needs special calls; a pipe does not.
        legacy_windows=None if stream.isatty() else False,
    )


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output, in ASCII so that any terminal can show it."""
    print(json.dumps(value, indent=2))


def print_message(kind: str, style: str, said: object) -> None:
    """Print an error or a warning to standard error."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(Text.assemble((f"{kind}: ", style), str(said)))


def run_alone_remedy(script: object, arguments: Sequence[str]) -> str:
    """Return the remedy for a script that fails: how to run it without the command."""
    return f"Run it by itself: {shlex.join([sys.executable, str(script), *arguments])}"


def ending(status: int) -> str:
    """Return how a script's process ended, from its status as `subprocess` reports it."""
    if status in INTERRUPTED:
        return "was interrupted"
    return (
        f"was ended by a signal: {signal.strsignal(-status)}"
        if status < 0
        else f"ended with status {status}"
    )


def require_script(script: Path) -> None:
    """Raise `ArgumentValueError` if the path is not that of a file."""
    if not script.is_file():
        what = f"{script} is a folder" if script.is_dir() else f"there is no file {script}"
        raise ArgumentValueError(what, value=str(script), remedy="Check the path of the script")


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    fixed: Iterable[str] = (),
) -> None:
    """Print a table that fits the terminal: long cells are broken into lines.

    ``None`` is shown as a dash, and words such as ``"ok"`` in colour. Columns with headers in
    `fixed` are never broken into lines.
    """
    console = new_console()
    if console.width < _NARROW and len(headers) > 2:
        _print_records(headers, rows, console.width)
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    kept = set(fixed)
    for header in headers:
        table.add_column(header, no_wrap=header in kept, overflow="fold")
    for row in rows:
        # Text, not a string: names of devices may hold brackets, which are markup in a string.
        table.add_row(*(Text(_shown(cell), styled(cell)) for cell in row))
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    # Padding serves the eye alone; in a file it is trailing space.
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _print_records(headers: Sequence[str], rows: Iterable[Sequence[object]], width: int) -> None:
    """Print one cell a line, for a window in which columns would be too narrow to read."""
    for first, *others in rows:
        print(_shown(first))
        for header, cell in zip(headers[1:], others, strict=True):
            for line in f"{header}: {_shown(cell)}".splitlines():
                print(textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    "))


def _shown(cell: object) -> str:
    return "-" if cell is None else str(cell)


def styled(word: object) -> str:
    """Return the style of a word in a table."""
    return _STYLES.get(word, "") if isinstance(word, str) else ""


@contextmanager
def progress(first: str, *, is_quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show on standard error what is being done, while it is a terminal.

    Give a function that says what is done next.
    """
    if is_quiet or not sys.stderr.isatty():
        yield lambda text: None
        return
    with new_console(stderr=True).status(first) as status:
        yield status.update


@contextmanager
def progress_bar(
    first: str, total: int = 0, *, is_quiet: bool = False
) -> Iterator[Callable[[str, int], None]]:
    """Show on standard error how much of the work is done, while it is a terminal.

    Give a function that says what is done next, and of how many steps.
    """
    if is_quiet or not sys.stderr.isatty():
        yield lambda text, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    # No thread draws the bar: processes are forked meanwhile.
    with Progress(
        *columns, console=new_console(stderr=True), transient=True, auto_refresh=False
    ) as bar:
        task, done = bar.add_task(first, total=total), itertools.count()

        def advance(text: str, total: int) -> None:
            bar.update(task, completed=next(done), total=total, description=text, refresh=True)

        yield advance


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
