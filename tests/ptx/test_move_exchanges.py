"""Exchanges of two values: a choice and a conditional move give the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from targets.cuda.compile.choices import move_exchanges
from tests.ptx.helpers import body_of
from tests.ptx.interpreter import run_ptx
from tests.ptx.pass_kernels import artifact_for_pass

_NUMBERS = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=4, max_size=4)
_PLACES = st.lists(st.permutations(range(4)), min_size=5, max_size=9)


def _network(numbers: list[int], places: list[list[int]]) -> str:
    lines = [f"mov.b32 %r{n}, {number};" for n, number in enumerate(numbers)]
    held, fresh = [0, 1, 2, 3], 4
    for one, other, *_ in places:
        first, second = held[one], held[other]
        lines += [
            f"setp.lt.s32 %p1, %r{second}, %r{first};",
            f"selp.b32 %r{fresh}, %r{second}, %r{first}, %p1;",
            f"selp.b32 %r{fresh + 1}, %r{first}, %r{second}, %p1;",
        ]
        held[one], held[other] = fresh, fresh + 1
        fresh += 2
    return "\n".join(["{", *lines, "ret;", "}"])


@settings(deadline=None)
@given(numbers=_NUMBERS, places=_PLACES)
def test_a_network_gives_the_same(numbers, places) -> None:
    ptx = _network(numbers, places)
    written = move_exchanges(ptx)
    assert written.count("selp.") == len(places)
    assert run_ptx(written) == run_ptx(ptx)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("selp.b32 %r5, %r0, %r1, %p1;", "selp.b32 %r5, %r1, %r0, %p1;"),  # the same choice
        ("selp.b32 %r5, %r0, %r1, %p1;", "selp.b32 %r5, %r0, %r1, %p2;"),
        ("selp.b32 %r5, %r0, %r1, %p1;", "add.s32 %r9, %r8, 1;\nselp.b32 %r5, %r0, %r1, %p1;"),
        ("selp.b32 %r4, %r1, %r0, %p1;", "selp.b32 %r1, %r1, %r0, %p1;"),  # changes an operand
        ("selp.b32 %r5, %r0, %r1, %p1;", "selp.b32 %r0, %r0, %r1, %p1;"),
    ],
)
def test_other_choices_stay(old: str, new: str) -> None:
    five = _network([1, 2, 3, 4], [[0, 1, 2, 3]] * 5)
    assert old in five
    assert move_exchanges(five) != five
    changed = five.replace(old, new)
    assert move_exchanges(changed) == changed


def test_a_network_of_seven_moves_one_value_of_each_exchange() -> None:
    """Golden: the exchanges that end with one value are choices alone."""
    body = body_of(artifact_for_pass("move-exchanges"))
    moved = re.findall(
        r"@!(%p\d+) bra \t(\$KD_exchange\d+);\n\tmov\.b32 \t%r\d+, %r\d+;\n\2:", body
    )
    assert len(moved) == len({predicate for predicate, _ in moved}) == 12
    assert len(re.findall(r"selp\.[bf]32", body)) == 12 + 6
