"""Intervals of counters in loops of PTX."""

from __future__ import annotations

import pytest

from targets.cuda.compile.addresses.counters import counter_intervals
from targets.cuda.compile.addresses.facts import ParameterFacts
from targets.cuda.compile.addresses.function import read_function

_FACTS = ParameterFacts(extents=frozenset({0}))
_LOOP = """{{
ld.param.b64 %rd9, [e_param_0];
ld.param.b64 %rd8, [e_param_1];
mov.b64 %rd1, {begin};
mov.b64 %rd2, 7;
$L1:
add.s64 %rd1, %rd1, {step};
add.s64 %rd2, %rd2, -3;
setp.{relation} %p1, %rd1, {bound};
@{sign}%p1 bra $L1;
ret;
}}"""


def _intervals(**changes: object) -> dict[str, tuple[int, int]]:
    parts = {"begin": 0, "step": 1, "relation": "ne.b64", "bound": 10, "sign": ""}
    function = read_function(_LOOP.format(**parts | changes).split("\n"))
    assert function is not None
    return dict(counter_intervals(function, _FACTS))


def _walked(begin: int, step: int, is_on) -> tuple[set[int], int]:
    """Return the values of the first counter, and the turns."""
    values, turns = {begin}, 0
    while True:
        begin, turns = begin + step, turns + 1
        values.add(begin)
        if not is_on(begin):
            return values, turns


@pytest.mark.parametrize(
    ("changes", "is_on"),
    [
        ({}, lambda r: r != 10),
        ({"relation": "eq.b64", "sign": "!"}, lambda r: r != 10),
        ({"relation": "lt.s64", "step": 4}, lambda r: r < 10),
        ({"relation": "le.s64", "step": 4}, lambda r: r <= 10),
        ({"relation": "ge.s64", "step": 4, "sign": "!"}, lambda r: r < 10),
        ({"relation": "gt.s64", "step": -4, "begin": 30}, lambda r: r > 10),
        ({"relation": "ne.b64", "step": -1, "begin": 30}, lambda r: r != 10),
        ({"relation": "lt.s64", "begin": 20}, lambda r: r < 10),
    ],
)
def test_counters_stay_in_their_intervals(changes, is_on) -> None:
    found = _intervals(**changes)
    values, turns = _walked(changes.get("begin", 0), changes.get("step", 1), is_on)
    assert found["%rd1"][0] <= min(values)
    assert max(values) <= found["%rd1"][1] <= max(values) + 8
    assert found["%rd2"][0] <= 7 - 3 * turns
    assert found["%rd2"][1] == 7


def test_a_counter_meets_a_bound_that_is_a_multiple_of_its_step() -> None:
    """As the count of the turns of an unrolled loop."""
    even = "and.b64 %rd7, %rd9, 2147483646;\n"
    text = _LOOP.format(begin=0, step=2, relation="ne.b64", bound="%rd7", sign="")
    for before, is_known in ((even, True), (even.replace("46", "47"), False)):
        function = read_function(text.replace("$L1:", before + "$L1:").split("\n"))
        assert function is not None
        found = counter_intervals(function, _FACTS)
        assert found.get("%rd1") == ((0, 2147483646) if is_known else None)


def test_what_is_chosen_from_counters_has_their_interval() -> None:
    text = _LOOP.format(begin=0, step=1, relation="lt.s64", bound=10, sign="")
    text = text.replace("$L1:", "mov.b64 %rd5, -1;\nmov.b64 %rd6, %rd8;\n$L1:")
    text = text.replace(
        "setp", "selp.b64 %rd5, %rd1, %rd5, %p2;\nselp.b64 %rd6, 1, %rd6, %p2;\nsetp", 1
    )
    function = read_function(text.split("\n"))
    assert function is not None
    found = counter_intervals(function, _FACTS)
    assert found["%rd5"] == (-1, found["%rd1"][1])
    assert "%rd6" not in found


def test_a_bound_may_be_an_extent() -> None:
    assert _intervals(relation="lt.s64", bound="%rd9")["%rd1"] == (0, 2**31 - 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"bound": "%rd8", "relation": "lt.s64"},  # any number
        {"begin": "%rd8"},
        {"begin": 11},  # meets the bound after 2**64 turns
        {"step": 3},  # may miss it
        {"relation": "gt.s64"},
        {"relation": "lt.s64", "bound": 2**62},  # may wrap
    ],
)
def test_other_counters_have_none(changes) -> None:
    assert not _intervals(**changes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("add.s64 %rd2", "@%p2 bra $L1;\nadd.s64 %rd2"),  # a turn without the test
        ("$L1:", "$L0:\n$L1:\nsetp.eq.b64 %p3, %rd8, 0;"),  # begins once, with a loop around it
        ("add.s64 %rd1, %rd1, 1;", "add.s64 %rd1, %rd1, 1;\nadd.s64 %rd1, %rd1, 1;"),
        ("add.s64 %rd1, %rd1, 1;", "@%p2 add.s64 %rd1, %rd1, 1;"),
        ("mov.b64 %rd1, 0;", "@%p2 mov.b64 %rd1, 0;"),
        ("%rd1, 10;", "%rd7, %rd1;\nand.b64 %rd7, %rd2, 7;"),  # a bound that changes
    ],
)
def test_other_loops_limit_nothing(old: str, new: str) -> None:
    text = _LOOP.format(begin=0, step=1, relation="ne.b64", bound=10, sign="")
    changed = text.replace(old, new)
    assert changed != text
    if "$L0" in changed:
        changed = changed.replace("ret;", "@%p3 bra $L0;\nret;")
    function = read_function(changed.split("\n"))
    assert function is not None
    assert "%rd1" not in counter_intervals(function, _FACTS)
