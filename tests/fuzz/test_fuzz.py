"""Generated kernels on every target that computes, bit for bit against the oracle.

``KERNELDSL_FUZZ_EXAMPLES`` sets how many programs are generated (200 by default); what they held is
printed at the end of the run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings

import kerneldsl as kd
from kerneldsl.registry import get_target
from tests.fuzz import oracle
from tests.fuzz.programs import Program, programs
from tests.support.arrays import assert_same_bits, poisoned, random_array
from tests.support.source import exec_source

EXAMPLES = int(os.environ.get("KERNELDSL_FUZZ_EXAMPLES", "200"))
#: The programs are generated in so many tests, which processes may share.
PARTS = 4
#: At least this part of the programs holds each of these.
SHARE = 0.2
REQUIRED = ("barrier", "shared array", "device function")

#: Name under which the test's report carries the counts.
COUNTS_PROPERTY = "generated kernels"

counts: Counter[str] = Counter()


def make_arguments(program: Program) -> tuple[Any, ...]:
    """Return inputs, poisoned outputs, accumulators and the trip count."""
    rng = np.random.default_rng(program.seed)
    inputs = []
    for dtype in program.inputs:
        values = random_array(rng, program.size, dtype)
        if dtype.startswith(("int", "uint")) and rng.integers(2):
            values = (values % 100).astype(dtype)
        elif dtype.startswith("float"):
            values *= np.array(10.0).astype(dtype) ** rng.integers(-2, 6)
        inputs.append(values)
    outputs = [poisoned(program.size, d) for d in program.outputs]
    accumulators = [random_array(rng, 4, d) for d in program.accumulators]
    return (*inputs, *outputs, *accumulators, program.steps)


def computing_targets() -> list[str]:
    """The targets whose results are compared."""
    return [n for n in ("cpu", "cuda") if get_target(n).unavailable_reason() is None]


def check(program: Program, target: str) -> None:
    """Run a program on a target and compare every array with the oracle's."""
    expected = make_arguments(program)
    oracle.run(program.text, program.grid, program.block, (*expected[:-1], np.int64(expected[-1])))
    got = make_arguments(program)
    kernel = exec_source(program.text, "generated")["kernel"]
    with kd.use(target):
        kernel[program.grid, program.block](*got)
        kd.synchronize()
    for position, (a, b) in enumerate(zip(got, expected, strict=True)):
        if isinstance(a, np.ndarray):
            assert_same_bits(a, b, f"argument {position} on {target}")


def describe(program: Program) -> str:
    """Source, launch and a script that runs the program again."""
    return (
        f"{program.text}\n# kernel[{program.grid}, {program.block}], "
        f"{program.size} elements, steps={program.steps}\n# to run it again:\n"
        f"# from tests.fuzz.test_fuzz import Program, check\n# check({program!r}, 'cpu')"
    )


@settings(
    max_examples=-(-EXAMPLES // PARTS),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
    database=None,
    print_blob=True,
)
@given(program=programs())
def run_programs(program: Program) -> None:
    """Check one program after the other; the first failure is made smaller and shown."""
    counts["programs"] += 1
    counts.update(program.features())
    try:
        for target in computing_targets():
            check(program, target)
    except BaseException:
        note(describe(program))
        raise


@pytest.mark.timeout(0 if EXAMPLES > 1000 else 600)
@pytest.mark.parametrize("part", range(PARTS))
def test_generated_kernels(part: int, record_property: Callable[[str, object], None]) -> None:
    """A part of the programs, and what they held: each required feature in at least a fifth."""
    counts.clear()
    run_programs()
    record_property(COUNTS_PROPERTY, dict(counts))
    assert counts["programs"] * PARTS >= EXAMPLES
    for feature in REQUIRED:
        assert counts[feature] >= SHARE * counts["programs"], feature
