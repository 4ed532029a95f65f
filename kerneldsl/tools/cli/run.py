"""``kerneldsl run``: run a Python program with numba.cuda replaced by kerneldsl."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["run_program"]

#: The folder of a ``sitecustomize`` that Python imports when it starts.
_AT_START = Path(__file__).parents[2] / "compat" / "at_start"


def run_program(
    program: Annotated[str, typer.Argument(help="A Python script; with -m, a module.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments of the program.")] = None,
    module: Annotated[
        bool, typer.Option("-m", help="Run a module, as python -m does, such as pytest.")
    ] = False,
    numpy_as_cupy: Annotated[
        bool, typer.Option("--numpy-as-cupy", help="Let NumPy stand in for CuPy, on a CPU.")
    ] = False,
) -> None:
    """Run a program with kerneldsl as numba.cuda. Options precede the program.

    Python processes that the program starts have kerneldsl as numba.cuda, too.
    """
    # Python looks in this folder first. A checkout of kerneldsl there is the one that runs.
    folder = Path.cwd() if module else Path(program).absolute().parent
    copies = [str(folder)] if (folder / "kerneldsl" / "drop_in.py").is_file() else []
    path = [str(_AT_START), *copies, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    if numpy_as_cupy:
        environment["KERNELDSL_NUMPY_AS_CUPY"] = "1"
    command = [sys.executable, *(["-m"] if module else []), program, *(arguments or ())]
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)
