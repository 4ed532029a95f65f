"""The kernels that tests of analyses and types run over, with the kinds of their arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kerneldsl.analysis.rows.expand import expand_rows
from kerneldsl.analysis.separate_tiles import separate_tiles
from kerneldsl.language.kinds import Kind
from tests.conformance.kernels import CASES
from tests.fuzz.kernels import generate
from tests.support.cases import kind_of
from tests.support.python_kernels import unit_of
from tests.support.source import exec_source

__all__ = ["gathered_kernels"]


def gathered_kernels(programs: int) -> Iterator[tuple[str, Any, Sequence[Kind]]]:
    """Yield the conformance kernels, each once for its arguments, and generated programs.

    Parameters
    ----------
    programs : int
        How many programs are generated.

    Yields
    ------
    tuple of str, FunctionUnit, sequence of Kind
        Name, normal form and kinds of the arguments.
    """
    seen = set()
    for case in CASES:
        if (id(case.kernel), case.kinds) not in seen:
            seen.add((id(case.kernel), case.kinds))
            yield (
                case.name,
                expand_rows(separate_tiles(unit_of(case.kernel)), case.kinds),
                case.kinds,
            )
    for seed in range(programs):
        program = generate(seed)
        kernel = exec_source(program.text, "generated")["kernel"]
        kinds = tuple(kind_of(argument) for argument in program.arguments(0))
        yield f"program {seed}", expand_rows(separate_tiles(unit_of(kernel)), kinds), kinds
