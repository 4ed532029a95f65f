"""Generated programs in the region IR: as they are read, and after its passes.

Both must leave the oracle's arrays, and what analyses say must be true of every value of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kerneldsl.errors import KernelError
from kerneldsl.ir.frontend.reader import NotReadError
from kerneldsl.ir.operations import Function
from tests.fuzz.differences import compare
from tests.fuzz.program import DATA_SETS, Program
from tests.support.regions.numbers import NotInterpretedError
from tests.support.regions.reading import after_passes, as_written, specialized
from tests.support.regions.running import run
from tests.support.regions.watching import AnalysisWatch, watch_of
from tests.support.simt import Launch
from tests.support.source import exec_source
from tests.support.verifier import verify

__all__ = ["REGIONS", "UNREAD", "attempt_regions", "read_functions"]

#: Name of the interpreter among targets.
REGIONS = "regions"
#: Errors of what the front end, or the interpreter, does not know yet.
UNREAD = (NotReadError, NotInterpretedError)


def read_functions(
    kernel: Any, args: tuple[Any, ...], **shape: Any
) -> Iterator[tuple[Function, AnalysisWatch | None]]:
    """Return a kernel as it is read, and after the passes with what analyses say of it."""
    spec = specialized(kernel, args, **shape)
    written = as_written(spec)
    verify(written)
    yield written, None
    after, intervals = after_passes(spec)
    verify(after)
    yield after, watch_of(after, intervals)


def attempt_regions(program: Program, expected: list[list[Any]]) -> tuple[str, str]:
    """Return the kind of outcome, and its detail."""
    if program.is_divergent:
        return "right", ""
    kernel = exec_source(program.text, "generated")["kernel"]
    shape: dict[str, Any] = {"block": program.block}
    if program.grid is None:
        assert program.extents is not None
        shape = {"forall": len(program.extents[0])}
    try:
        for function, watch in read_functions(kernel, tuple(program.arguments(0)), **shape):
            detail = compare(_results(program, function, watch), expected)
            if detail:
                return "mismatch", f"{'read' if watch is None else 'after passes'}: {detail}"
    except UNREAD as reason:
        return "unread", f"{type(reason).__name__}: {reason}"[:80]
    except KernelError as error:
        return "refused", f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - any other error is a finding
        return "crash", f"{type(error).__name__}: {error}"
    return "right", ""


def _results(program: Program, function: Function, watch: AnalysisWatch | None) -> list[list[Any]]:
    found = []
    for data_set in range(DATA_SETS):
        args = program.arguments(data_set)
        run(function, _launch(program, data_set), tuple(args), watch)
        found.append(args)
    return found


def _launch(program: Program, data_set: int) -> Launch:
    if program.grid is not None:
        assert program.block is not None
        return Launch(program.grid, program.block, program.shared_bytes)
    assert program.extents is not None
    return Launch(program.extents[data_set])
