"""Generated programs on the CPU and the null target, against the oracle and against themselves.

``KERNELDSL_FUZZ_PROGRAMS`` sets how many (300 by default, 8 in a quick run), and
``KERNELDSL_TEST_SEED`` repeats a run. What the programs were made of is printed at the end.
``python -m tests.fuzz`` runs more of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.fuzz.runs import INTEGER_COMMAND, PYTHON_COMMAND, run_programs
from tests.support.extent import IS_QUICK
from tests.support.seeds import SEED_VARIABLE, fresh_seed

PROGRAMS = int(os.environ.get("KERNELDSL_FUZZ_PROGRAMS", 4 if IS_QUICK else 300))
#: The programs are run in so many tests, which processes may share.
PARTS = 4
#: Name under which the test's report carries the counts.
COUNTS_PROPERTY = "generated programs"


@pytest.mark.timeout(0 if PROGRAMS > 1000 else 1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_generated_programs(part: int, record_property: Callable[[str, object], None]) -> None:
    """A part of the programs: none is wrong, refused or ends its process."""
    count = -(-PROGRAMS // PARTS)
    first = fresh_seed() + part * count
    print(f"{SEED_VARIABLE}={first - part * count}")
    # Every part has programs of its own; the null target runs those of one.
    targets = ["cpu", "null"] if part == 0 or not IS_QUICK else ["cpu"]
    report = run_programs(first, count, targets=targets, share=0.04 if IS_QUICK else 0.2, workers=1)
    record_property(COUNTS_PROPERTY, {"programs": report.programs, **report.features})
    assert report.programs == count
    assert not report.failures, "\n".join(map(str, report.failures))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("command", [INTEGER_COMMAND, PYTHON_COMMAND], ids=["integers", "python"])
def test_programs_of_other_oracles(command: tuple[str, ...]) -> None:
    """Integers of all types, which differ only with a warning; and what Python itself computes."""
    first = fresh_seed()
    print(f"{SEED_VARIABLE}={first}")
    count = PROGRAMS if IS_QUICK else PROGRAMS * 2
    report = run_programs(
        first,
        count,
        targets=["cpu"] if IS_QUICK else ["cpu", "null"],
        share=0,
        workers=1,
        command=command,
    )
    assert report.programs == count
    assert not report.failures, "\n".join(map(str, report.failures))
