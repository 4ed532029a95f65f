"""Room for the frames of deep calls."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable

from kerneldsl.launch.artifact import call_with_room

ROUNDS = 300


def wide() -> None:
    """Take a third of a chunk of 16 KiB for this frame."""


wide.__code__ = wide.__code__.replace(co_stacksize=700)


def _at(depth: int, function: Callable[[], object]) -> None:
    if depth:
        _at(depth - 1, function)
    else:
        function()


def _call_often() -> None:
    for _ in range(ROUNDS):
        wide()


def _at_every_depth() -> None:
    for depth in range(0, 300, 3):
        _at(depth, _call_often)


def _page_faults(function: Callable[[], object]) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    function()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_chunks_of_frames_are_not_taken_again_and_again():
    # Each chunk that is taken is a page that has not been touched. Without room the calls at some
    # of the depths take one in each round.
    if sys.version_info < (3, 14):  # which keeps a chunk for the next call
        assert _page_faults(_at_every_depth) > 5 * ROUNDS
    assert _page_faults(lambda: call_with_room(_at_every_depth)) < ROUNDS


def test_arguments_and_the_result_go_through():
    assert call_with_room(divmod, 17, 5) == (3, 2)
    assert call_with_room(int, "ff", base=16) == 255
