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
        ({"relation": "lt.u64", "step": 4}, lambda r: r < 10),
        ({"relation": "le.u64", "step": 4}, lambda r: r <= 10),
        ({"relation": "ge.u64", "step": 4, "sign": "!"}, lambda r: r < 10),
        ({"relation": "lt.u64", "begin": -3, "step": 4}, lambda r: 0 <= r < 10),
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
        {"relation": "gt.u64", "step": -4, "begin": 30},  # a negative number is a large one
        {"relation": "lt.u64", "bound": -10},
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


_STRIDES = """{{
ld.param.b64 %rd9, [e_param_0];
mov.u32 %r5, {stride};
cvt.u64.u32 %rd5, %r5;
mov.u32 %r1, %tid.x;
cvt.u64.u32 %rd1, %r1;
mov.b64 %rd2, 0;
$L1:
add.s64 %rd3, %rd1, %rd5;
add.s64 %rd1, %rd3, %rd5;
setp.lt.s64 %p1, %rd1, {bound};
@%p1 bra $L1;
$L2:
{skip}
add.s64 %rd1, %rd1, %rd5;
$L3:
add.s64 %rd2, %rd2, 1;
setp.lt.s64 %p1, %rd1, 500;
@%p1 bra $L2;
ret;
}}"""


@pytest.mark.parametrize("stride", ["%ntid.x", "%laneid"])
def test_a_counter_of_two_loops_may_have_a_stride_that_is_positive(stride: str) -> None:
    function = read_function(_STRIDES.format(stride=stride, bound=300, skip="").split("\n"))
    assert function is not None
    found = counter_intervals(function, _FACTS)
    if stride == "%laneid":  # may be 0
        assert "%rd1" not in found
        return
    highest = 0
    for begin in (0, 299, 1023):
        for step in (1, 1023, 1024):
            number = begin
            for bound, turn in ((300, 2 * step), (500, step)):
                number += turn
                while number < bound:
                    number += turn
            highest = max(highest, number)
    assert found["%rd1"][0] == 0
    assert highest <= found["%rd1"][1] <= highest + 4096
    assert found["%rd2"][0] == 0
    assert found["%rd2"][1] >= 500


def test_a_step_that_not_each_turn_makes_limits_no_turns() -> None:
    skip = "setp.eq.s64 %p3, %rd9, 7;\n@%p3 bra $L3;"
    function = read_function(_STRIDES.format(stride="%ntid.x", bound=300, skip=skip).split("\n"))
    assert function is not None
    found = counter_intervals(function, _FACTS)
    assert "%rd1" in found
    assert "%rd2" not in found


def test_a_step_of_an_outer_loop_is_no_begin_that_is_known() -> None:
    """The inner loop goes on where it ended."""
    text = _STRIDES.format(stride="%ntid.x", bound=300, skip="").replace("ret;", "bra.uni $L1;")
    function = read_function(text.split("\n"))
    assert function is not None
    assert "%rd1" not in counter_intervals(function, _FACTS)


def test_a_bound_may_be_the_counter_of_a_later_loop() -> None:
    """As the count of the turns of an unrolled loop, where the loop over the rest begins."""
    text = _LOOP.format(begin=0, step=4, relation="ne.b64", bound="%rd5", sign="")
    text = text.replace("$L1:", "and.b64 %rd5, %rd9, 2147483644;\n$L1:")
    later = "$L2:\nadd.s64 %rd5, %rd5, 1;\nsetp.lt.s64 %p1, %rd5, %rd9;\n@%p1 bra $L2;\nret;"
    function = read_function(text.replace("ret;", later).split("\n"))
    assert function is not None
    found = counter_intervals(function, _FACTS)
    assert found["%rd1"] == (0, 2147483644)
    assert found["%rd5"] == (0, 2147483647)
