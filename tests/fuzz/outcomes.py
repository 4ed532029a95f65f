"""Runs one program on a target, and says what came of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any
from unittest.mock import patch

import kerneldsl as kd
from kerneldsl.errors import BarrierDivergenceWarning, KernelError
from kerneldsl.ir.frontend.origins import Origins
from targets.cuda.compile.ptxas import assemble
from tests.fuzz import oracle
from tests.fuzz.differences import compare
from tests.fuzz.program import DATA_SETS, Array, Program, Scalar
from tests.fuzz.regions import REGIONS, attempt_regions
from tests.fuzz.variants import choose_variants
from tests.support.source import exec_source

__all__ = ["KINDS", "Outcome", "check_program", "expected_results", "run_program"]

#: ``refused``: an error of kerneldsl; ``crash``: another one, or the end of the process; ``hang``:
#: no end; ``unread``: the region IR's front end, or its interpreter, has not learned it yet.
KINDS = ("right", "mismatch", "crash", "hang", "refused", "unread")


@dataclass(frozen=True)
class Outcome:
    """What came of a program on a target, as it is or changed.

    Parameters
    ----------
    seed : int
        Of the program.
    target, variant : str
        Where, and with which change; ``"plain"`` with none.
    kind : str
        One of :data:`KINDS`.
    detail : str
        The error or the difference.
    """

    seed: int
    target: str
    variant: str
    kind: str
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        """The fields."""
        return asdict(self)


def expected_results(program: Program, *, is_reversed: bool = False) -> list[list[Any]]:
    """Return the arguments as the oracle leaves them, of each data set."""
    found = []
    for data_set in range(DATA_SETS):
        args = program.arguments(data_set)
        if program.grid is None:
            assert program.extents is not None
            grid, block = program.extents[data_set], (1,)
        else:
            assert program.block is not None
            grid, block = program.grid, program.block
        oracle.run(
            program.text,
            grid,
            block,
            tuple(args),
            shared_bytes=program.shared_bytes,
            is_reversed=is_reversed,
        )
        found.append(args)
    return found


def is_computed(target: str) -> bool:
    """Return whether a target computes; for an architecture, as ``sm_90``, it is compiled alone."""
    return target != "null" and not target.startswith("sm_")


def assemble_program(program: Program, arch: str) -> None:
    """Compile a program to PTX for an architecture, which ptxas must accept; it takes no GPU."""
    kernel = exec_source(program.text, "generated")["kernel"]
    shape: dict[str, Any] = {"block": program.block}
    if program.block is None:
        assert program.extents is not None
        shape = {"forall": len(program.extents[0])}
    assemble(kernel.ptx(*program.arguments(0), arch=arch, **shape), arch, optimize=False)


def _literals_of_int64(program: Program) -> AbstractContextManager[Any]:
    """Leave literals int64, in programs that name uint64.

    The oracle types each operation by itself, and so cannot know that a literal is a uint64 because
    of what is assigned to its variable later. Programs of :mod:`tests.fuzz.integer_programs` have
    literals beside uint64.
    """
    names_wide = "np.uint64" in program.text or any(
        isinstance(each, Array | Scalar) and each.dtype == "uint64" for each in program.parameters
    )
    if not names_wide:
        return nullcontext()
    never: Any = lambda *arguments: False
    return patch.multiple(Origins, is_converted=never, are_wide=never)


def run_program(program: Program, target: str) -> list[list[Any]]:
    """Launch with each data set on a target, and return the arguments as they are afterwards."""
    if target.startswith("sm_"):
        assemble_program(program, target)
        return []
    kernel = exec_source(program.text, "generated")["kernel"]
    found = []
    for data_set in range(DATA_SETS):
        args = program.arguments(data_set)
        with kd.use(target):
            if program.grid is None:
                assert program.extents is not None
                kernel.forall(*program.extents[data_set])(*args)
            else:
                kernel[program.grid, program.block, None, program.shared_bytes](*args)
            kd.synchronize()
        found.append(args)
    return found


def _attempt(program: Program, target: str, expected: list[list[Any]]) -> tuple[str, str]:
    """Kind and detail of one run."""
    if target == REGIONS:
        with _literals_of_int64(program):
            return attempt_regions(program, expected)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with _literals_of_int64(program):
                got = run_program(program, target)
        except KernelError as error:
            if program.is_divergent:
                return "right", ""
            return "refused", f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 - any other error is a finding
            return "crash", f"{type(error).__name__}: {error}"
    is_warned = any(issubclass(w.category, BarrierDivergenceWarning) for w in caught)
    if program.is_divergent:
        return ("right", "") if is_warned else ("mismatch", "the divergent barrier was accepted")
    detail = compare(got, expected) if is_computed(target) else ""
    return ("mismatch", detail) if detail else ("right", "warned" if is_warned else "")


def check_program(
    program: Program,
    targets: list[str],
    *,
    share: float,
    begin: Callable[[str, str], None] = lambda target, variant: None,
) -> Iterator[Outcome]:
    """Run a program on each target, as it is and changed.

    Parameters
    ----------
    program : Program
        What to run.
    targets : list of str
        Where.
    share : float
        Part of the programs that one variant is tried of; 1 tries all variants.
    begin : callable
        Told the target and the variant before each run, which may end the process.
    """
    is_compared = any(map(is_computed, targets)) and not program.is_divergent
    expected = expected_results(program) if is_compared else []
    for target in targets:
        begin(target, "plain")
        outcome = Outcome(program.seed, target, "plain", *_attempt(program, target, expected))
        yield outcome
        if outcome.kind != "right" or program.is_divergent:
            continue
        for variant in choose_variants(program, target, share=share):
            begin(target, variant.name)
            with variant.context():
                found = _attempt(variant.changed(program), target, expected)
            yield Outcome(program.seed, target, variant.name, *found)
