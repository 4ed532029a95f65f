"""Every conformance kernel, by topic, each with a launch, inputs and what must come out."""

from __future__ import annotations

from tests.conformance.kernels import (
    arrays,
    atomics,
    barrier_functions,
    barrier_shapes,
    barrier_values,
    barriers,
    control,
    conversions,
    evaluation,
    floats,
    functions,
    ids,
    integers,
    mathematics,
    memory,
    narrow_floats,
    special_values,
    synchronization,
    warps,
)
from tests.support.cases import Case

__all__ = ["CASES", "QUICK_CASES"]

#: Every case of every topic.
CASES: list[Case] = [
    *ids.CASES,
    *arrays.CASES,
    *integers.CASES,
    *floats.CASES,
    *conversions.CASES,
    *narrow_floats.CASES,
    *mathematics.CASES,
    *special_values.CASES,
    *control.CASES,
    *functions.CASES,
    *memory.CASES,
    *barriers.CASES,
    *barrier_shapes.CASES,
    *barrier_values.CASES,
    *barrier_functions.CASES,
    *synchronization.CASES,
    *warps.CASES,
    *atomics.CASES,
    *evaluation.CASES,
]


def _quick() -> list[Case]:
    """Mathematical functions with one dtype each, half of the integer operations, all others."""
    halved = {
        case.name
        for each in (mathematics.CASES, integers.CASES)
        for number, case in enumerate(each)
        if number % 4 in (1, 2)
    }
    return [case for case in CASES if case.name not in halved]


#: Those of a quick run.
QUICK_CASES = _quick()
