"""Loops of PTX that end by a distance: as many turns, and ptxas unrolls them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kerneldsl as kd
from targets.cuda.compile.loop_counters import count_turns_down

_WIDTH = 2**64
_LOOP = """.entry e()
{{
mov.b64 %rd1, {start};
mov.b64 %rd2, {bound};
$L1:
add.s64 %rd9, %rd9, 1;
add.s64 %rd1, %rd1, {step};
{comparison}
{branches}
$L2:
ret;
}}"""
_FORMS = {
    "ne": ("setp.ne.b64 %p1, %rd1, {end};", "@%p1 bra $L1;"),
    "eq": ("setp.eq.b64 %p1, {end}, %rd1;", "@%p1 bra $L2;\nbra.uni $L1;"),
    "not eq": ("setp.eq.b64 %p1, %rd1, {end};", "@!%p1 bra $L1;"),
}


def _run(ptx: str) -> tuple[int, int]:
    """Return how often %rd9 is increased by what PTX does, and the last value of %rd1."""
    lines = [line.strip() for line in ptx.split("\n")]
    places = {line[:-1]: n for n, line in enumerate(lines) if line.endswith(":")}
    values: dict[str, int] = {"%rd9": 0}

    def read(text: str) -> int:
        return values[text] if text.startswith("%") else int(text)

    def signed(value: int) -> int:
        return (value + 2**63) % _WIDTH - 2**63

    place = lines.index("{") + 1
    while (line := lines[place]) != "ret;":
        place += 1
        name, _, rest = line.rstrip(";").partition(" ")
        given_ = [part.strip() for part in rest.split(",")]
        if name.startswith("@"):
            predicate = name.removeprefix("@").removeprefix("!")
            if bool(values[predicate]) != name.startswith("@!"):
                place = places[rest.split()[-1]]
        elif name.startswith("bra"):
            place = places[rest.strip()]
        elif name.startswith("setp"):
            one, two = signed(read(given_[1])), signed(read(given_[2]))
            operator = name.split(".")[1]
            values[given_[0]] = {"eq": one == two, "ne": one != two, "gt": one > two}[operator]
        elif name.startswith("mov"):
            values[given_[0]] = read(given_[1]) % _WIDTH
        elif name.startswith("neg"):
            values[given_[0]] = -read(given_[1]) % _WIDTH
        elif name.startswith(("add", "sub")):
            sign = -1 if name.startswith("sub") else 1
            values[given_[0]] = (read(given_[1]) + sign * read(given_[2])) % _WIDTH
    return values["%rd9"], values["%rd1"]


def _loop(form: str, start: int, turns: int, step: int, *, is_literal: bool) -> str:
    bound = (start + turns * step + 2**63) % _WIDTH - 2**63
    comparison, branches = _FORMS[form]
    comparison = comparison.format(end=bound if is_literal and form != "eq" else "%rd2")
    return _LOOP.format(
        start=start, bound=bound, step=step, comparison=comparison, branches=branches
    )


@given(
    form=st.sampled_from(sorted(_FORMS)),
    start=st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-8, 8)),
    turns=st.integers(1, 40),
    step=st.integers(-(2**40), 2**40).filter(bool),
    is_literal=st.booleans(),
)
def test_the_number_of_turns_is_the_same(form, start, turns, step, is_literal) -> None:
    ptx = _loop(form, start, turns, step, is_literal=is_literal)
    written = count_turns_down(ptx)
    assert "setp.gt.s64" in written
    assert _run(written)[0] == _run(ptx)[0] == turns


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("add.s64 %rd9, %rd9, 1;", '.pragma "nounroll";\nadd.s64 %rd9, %rd9, 1;'),
        ("add.s64 %rd9, %rd9, 1;", "bar.sync 0;"),
        ("add.s64 %rd9, %rd9, 1;", "add.s64 %rd2, %rd2, 1;"),  # the bound
        ("add.s64 %rd9, %rd9, 1;", "mov.b64 %rd1, %rd3;"),  # the counter
        ("add.s64 %rd9, %rd9, 1;", "$L3:\nadd.s64 %rd9, %rd9, 1;"),
        ("ret;", "selp.b64 %rd4, 1, 2, %p1;\nret;"),  # the predicate is read again
        ("ret;", "@%p2 bra $L1;\nret;"),  # another way back
        ("@%p1 bra $L1;", "@!%p1 bra $L1;"),  # it goes on where the counter is the bound
        ("%rd1, 4;", "%rd1, %rd5;"),  # a step that is not known
    ],
)
def test_other_loops_stay(old, new) -> None:
    ptx = _loop("ne", 0, 3, 4, is_literal=False)
    assert count_turns_down(ptx) != ptx
    other = ptx.replace(old, new)
    assert other != ptx
    assert count_turns_down(other) == other


def test_a_counter_that_is_read_afterwards_is_kept() -> None:
    ptx = _loop("ne", 5, 7, 3, is_literal=False).replace("ret;", "mov.b64 %rd7, %rd1;\nret;")
    written = count_turns_down(ptx)
    assert "add.s64 %rd1, %rd1, 3;" in written
    assert _run(written) == (7, 5 + 7 * 3)
    assert "add.s64 %rd1" not in count_turns_down(_loop("ne", 5, 7, 3, is_literal=False))


@kd.kernel
def vector_by_matrix(a, x, out):
    j = kd.grid(1)
    if j < out.size:
        total = np.float32(0.0)
        for i in range(x.size):
            total += a[i, j] * x[i]
        out[j] = total


def test_loops_over_rows_are_written_so() -> None:
    ptx = vector_by_matrix.ptx("float32[:, ::1], float32[::1], float32[::1]", arch="sm_90")
    assert re.search(r"add\.s64\s+%kd_left0, %kd_left0, -4;", ptx)
    assert len(re.findall(r"setp\.gt\.s64\s+%p\d+, %kd_left0, 0;", ptx)) == 1
