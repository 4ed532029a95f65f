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
    special_values,
    synchronization,
)
from tests.support.cases import Case

__all__ = ["CASES"]

#: Every case of every topic.
CASES: list[Case] = [
    *ids.CASES,
    *arrays.CASES,
    *integers.CASES,
    *floats.CASES,
    *conversions.CASES,
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
    *atomics.CASES,
    *evaluation.CASES,
]
