"""Generated programs in the region IR, interpreted: the oracle's arrays, bit by bit.

The intervals and the uniformity that analyses find are compared with every value of the run.
``python -m tests.fuzz --targets regions`` runs more programs.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.fuzz.kernels import generate
from tests.fuzz.outcomes import expected_results
from tests.fuzz.regions import REGIONS, attempt_regions
from tests.fuzz.runs import COMMAND, INTEGER_COMMAND, run_programs
from tests.support.extent import IS_QUICK
from tests.support.seeds import SEED_VARIABLE, fresh_seed


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("command", "programs"),
    [(COMMAND, 10 if IS_QUICK else 300), (INTEGER_COMMAND, 20 if IS_QUICK else 600)],
    ids=["general", "integers"],
)
def test_regions_give_the_arrays_of_the_oracle(command: Sequence[str], programs: int) -> None:
    """All programs are read and interpreted, before and after the passes."""
    first = fresh_seed()
    print(f"{SEED_VARIABLE}={first}")
    report = run_programs(first, programs, targets=[REGIONS], share=0, workers=1, command=command)
    assert report.programs == programs
    assert not report.failures, "\n".join(map(str, report.failures))
    assert not report.unread, f"not read: {report.unread}"


def test_an_index_of_a_vector_is_checked_in_debug_mode() -> None:
    """The bound is the number of its parts."""
    program = generate(3101957799)
    assert program.features >= {"debug", "vector"}
    assert attempt_regions(program, expected_results(program)) == ("right", "")
