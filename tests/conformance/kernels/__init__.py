"""Every conformance kernel, by topic, each with a launch, inputs and what must come out."""

from __future__ import annotations

from tests.conformance.kernels import (
    arithmetic,
    arrays,
    atomics,
    barrier_functions,
    barrier_values,
    barriers,
    control,
    functions,
    ids,
    mathematics,
    memory,
    synchronization,
)
from tests.support.cases import Case

__all__ = ["CASES"]

#: Every case of every topic.
CASES: list[Case] = [
    *ids.CASES,
    *arrays.CASES,
    *arithmetic.CASES,
    *mathematics.CASES,
    *control.CASES,
    *functions.CASES,
    *memory.CASES,
    *barriers.CASES,
    *barrier_values.CASES,
    *barrier_functions.CASES,
    *synchronization.CASES,
    *atomics.CASES,
]
