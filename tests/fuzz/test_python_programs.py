"""Programs with Python as their oracle have one result, in any order of their threads."""

from __future__ import annotations

import pytest

from tests.fuzz.differences import compare
from tests.fuzz.python_programs import generate_python
from tests.fuzz.python_worker import expected_arguments


@pytest.mark.parametrize("seed", range(8))
def test_threads_may_run_in_any_order(seed: int) -> None:
    """The oracle gives the same arrays with threads, blocks and undefined memory reversed."""
    program = generate_python(seed)
    straight = expected_arguments(program)
    assert not compare(expected_arguments(program, is_reversed=True), straight)
