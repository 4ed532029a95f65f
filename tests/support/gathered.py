"""The kernels that tests of analyses and types run over, with the kinds of their arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kerneldsl.language.kinds import Kind
from tests.conformance.kernels import CASES
from tests.fuzz.kernels import generate
from tests.support.cases import kind_of
from tests.support.extent import sample
from tests.support.python_kernels import unit_of
from tests.support.source import exec_source

__all__ = ["gathered_kernels"]


def gathered_kernels(programs: int, quick: int) -> Iterator[tuple[str, Any, Sequence[Kind]]]:
    """Yield the conformance kernels, each once for its arguments, and generated programs.

    Parameters
    ----------
    programs : int
        How many programs are generated.
    quick : int
        How many of both a quick run takes, at even distances.

    Yields
    ------
    tuple of str, FunctionUnit, sequence of Kind
        Name, normal form and kinds of the arguments.
    """
    cases: dict[Any, Any] = {}
    for case in CASES:
        cases.setdefault((id(case.kernel), case.kinds), case)
    for each in sample([*cases.values(), *range(programs)], quick):
        if isinstance(each, int):
            program = generate(each)
            name, kernel = f"program {each}", exec_source(program.text, "generated")["kernel"]
            kinds = tuple(kind_of(argument) for argument in program.arguments(0))
        else:
            name, kernel, kinds = each.name, each.kernel, each.kinds
        yield name, unit_of(kernel), kinds
