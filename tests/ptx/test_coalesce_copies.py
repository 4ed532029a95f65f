"""Copies at the end of loops of PTX: values are computed where the copies would bring them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from targets.cuda.compile.coalesce_copies import coalesce_copies
from tests.ptx.interpreter import run_ptx

_LOOP = """.entry e()
{{
mov.b64 %rd1, {one};
mov.b64 %rd2, {two};
mov.b64 %rd6, 0;
mov.b64 %rd7, 0;
$L1:
{lines}
mov.b64 %rd1, %rd3;
add.s64 %rd6, %rd6, 1;
setp.lt.s64 %p1, %rd6, 3;
@%p1 bra $L1;
ret;
}}"""
_NAMES = [f"%rd{n}" for n in (1, 2, 4, 5, 7)]
_OPERANDS = st.sampled_from([*_NAMES, "3"])


@st.composite
def _lines(draw) -> list[str]:
    """Return lines of which one defines what is copied, and others may read it after that."""
    lines = ["mov.b64 %rd4, 1;", "mov.b64 %rd5, %rd1;"]
    count, place = draw(st.integers(1, 6)), draw(st.integers(0, 3))
    for n in range(count):
        name = "%rd3" if n == min(place, count - 1) else draw(st.sampled_from(_NAMES[1:]))
        readable = [*_NAMES, "3", *["%rd3"] * (n > place)]
        one, two = (draw(st.sampled_from(readable)) for _ in range(2))
        operation = draw(st.sampled_from(["add.s64", "mul.lo.s64"]))
        lines.append(f"{operation} {name}, {one}, {two};")
    return lines


@settings(deadline=None)
@given(one=st.integers(-9, 9), two=st.integers(-9, 9), lines=_lines())
def test_what_is_computed_is_the_same(one, two, lines) -> None:
    ptx = _LOOP.format(one=one, two=two, lines="\n".join(lines))
    expected, found = run_ptx(ptx), run_ptx(coalesce_copies(ptx))
    assert expected is not None
    assert found is not None
    assert {"%rd1", "%rd2", "%rd4", "%rd6", "%rd7"} <= found.keys()
    for name in found:
        assert found[name] == expected[name]


def _written(*lines: str) -> str:
    return coalesce_copies(_LOOP.format(one=1, two=2, lines="\n".join(lines)))


def test_what_reads_the_old_value_comes_first() -> None:
    written = _written("add.s64 %rd3, %rd1, %rd2;", "mul.lo.s64 %rd4, %rd1, 3;")
    assert "mul.lo.s64 %rd4, %rd1, 3;\nadd.s64 %rd1, %rd1, %rd2;\nadd.s64 %rd6" in written


def test_accesses_are_made_while_the_variable_has_the_old_value() -> None:
    address = "shl.b64 %rd4, %rd1, 2;", "add.s64 %rd5, %rd2, %rd4;"
    access = "ld.global.b64 %rd9, [%rd5];"
    for lines in (
        (address[0], "add.s64 %rd3, %rd1, %rd2;", address[1], access),
        ("add.s64 %rd3, %rd1, %rd2;", *address, access),
    ):
        written = _written(*lines)
        assert "\n".join([*address, access, "add.s64 %rd1, %rd1, %rd2;"]) in written


@pytest.mark.parametrize(
    "lines",
    [
        ("add.s64 %rd3, %rd1, %rd2;", "add.s64 %rd4, %rd1, %rd3;"),  # reads both
        ("add.s64 %rd3, %rd1, %rd2;", "add.s64 %rd4, %rd3, 1;", "st.global.b64 [%rd9], %rd1;"),
        ("add.s64 %rd3, %rd1, %rd2;", "mul.lo.s64 %rd2, %rd1, 3;"),  # changes an operand
        ("@%p2 add.s64 %rd3, %rd1, %rd2;",),
        ("add.s64 %rd4, %rd3, 1;", "add.s64 %rd3, %rd1, %rd2;"),  # reads that of the last turn
        ("ld.global.b64 %rd3, [%rd1];", "// begin inline asm"),
    ],
)
def test_other_copies_stay(lines: tuple[str, ...]) -> None:
    assert "mov.b64 %rd1, %rd3;" in _written(*lines)


_HEAD = """.entry e()
{{
mov.b64 %rd1, {one};
mov.b64 %rd2, {two};
mov.b64 %rd4, 1;
mov.b64 %rd6, 0;
mov.b64 %rd7, 0;
$L1:
mov.b64 %rd3, %rd1;
{lines}
{jump}
{more}
$L2:
add.s64 %rd6, %rd6, 1;
setp.lt.s64 %p1, %rd6, 3;
@%p1 bra $L1;
ret;
}}"""
_AT_HEAD = st.builds(
    "{} {}, {}, {};".format,
    st.sampled_from(["add.s64", "mul.lo.s64"]),
    st.sampled_from(["%rd1", "%rd2", "%rd4", "%rd7"]),
    st.sampled_from(["%rd1", "%rd2", "%rd3", "%rd3", "%rd4", "5"]),
    st.sampled_from(["%rd1", "%rd2", "%rd3", "%rd3", "%rd4", "5"]),
)
_JUMPS = [
    "",
    "setp.lt.s64 %p2, %rd3, 3;\n@%p2 bra $L2;",
    "setp.lt.s64 %p2, %rd4, 3;\n@%p2 bra $L2;",
]


@settings(deadline=None)
@given(
    one=st.integers(-9, 9),
    two=st.integers(-9, 9),
    lines=st.lists(_AT_HEAD, max_size=5),
    jump=st.sampled_from(_JUMPS),
    more=st.lists(_AT_HEAD, max_size=3),
)
def test_what_is_computed_without_a_copy_at_the_head_is_the_same(
    one, two, lines, jump, more
) -> None:
    ptx = _HEAD.format(one=one, two=two, lines="\n".join(lines), jump=jump, more="\n".join(more))
    expected, found = run_ptx(ptx), run_ptx(coalesce_copies(ptx))
    assert expected is not None
    assert found is not None
    assert expected.keys() - found.keys() <= {"%rd3"}
    for name in found.keys() - {"%rd3"}:
        assert found[name] == expected[name]


def _of_head(*lines: str) -> str:
    return coalesce_copies(_HEAD.format(one=1, two=2, lines="\n".join(lines), jump="", more=""))


def test_the_next_value_is_computed_after_what_reads_the_old_one() -> None:
    written = _of_head("add.s64 %rd1, %rd3, -1;", "ld.global.b64 %rd7, [%rd3];")
    assert "%rd3" not in written
    assert "ld.global.b64 %rd7, [%rd1];" in written
    assert written.index("ld.global") < written.index("add.s64 %rd1, %rd1, -1;")


@pytest.mark.parametrize(
    "lines",
    [
        ("add.s64 %rd1, %rd3, -1;", "add.s64 %rd7, %rd3, %rd1;"),  # reads both
        ("add.s64 %rd1, %rd2, -1;", "add.s64 %rd2, %rd3, 1;", "add.s64 %rd4, %rd3, 1;"),
        ("ld.global.b64 %rd1, [%rd3];", "add.s64 %rd7, %rd3, 1;"),
        ("@%p3 add.s64 %rd1, %rd3, 1;", "add.s64 %rd7, %rd3, 1;"),
        ("add.s64 %rd1, %rd3, 1;", "add.s64 %rd1, %rd1, 1;", "add.s64 %rd7, %rd3, 1;"),
    ],
)
def test_other_copies_at_a_head_stay(lines: tuple[str, ...]) -> None:
    assert "mov.b64 %rd3, %rd1;" in _of_head(*lines)
