"""Every intrinsic that a program can call has an example that runs, and begins with a verb."""

from __future__ import annotations

import doctest

import pytest

import kerneldsl as kd
from kerneldsl.language.intrinsics.examples import EXAMPLES
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Typing
from kerneldsl.language.intrinsics.table import INTERNAL, INTRINSICS
from tests.packaging.test_docstrings import may_be_a_verb
from tests.support.extent import full_beyond

#: What only a GPU has, and a constant, which is what the plain name is.
_WITHOUT = {"ptx", "nv.clock64", "nv.globaltimer", "nv.smid", "const.array_like"}
_OF_PROGRAMS = [
    row
    for row in INTRINSICS.values()
    if row not in INTERNAL and not row.name.startswith("libdevice.")
]


def test_every_intrinsic_has_an_example() -> None:
    assert set(EXAMPLES) == {row.name for row in _OF_PROGRAMS} - _WITHOUT


@pytest.mark.parametrize("name", full_beyond(sorted(EXAMPLES), sorted(EXAMPLES)[::8]))
def test_an_example_runs(name: str) -> None:
    shown: list[str] = []
    test = doctest.DocTestParser().get_doctest(INTRINSICS[name].__doc__, {}, name, None, None)
    with kd.use("cpu"):
        assert doctest.DocTestRunner().run(test, out=shown.append).failed == 0, "".join(shown)


@pytest.mark.parametrize("row", _OF_PROGRAMS, ids=str)
def test_a_summary_is_sentences_that_begin_with_a_verb(row: Intrinsic) -> None:
    assert row.summary.endswith(".")
    is_read = row.typing is Typing.INDEX and not row.parameters
    assert is_read or may_be_a_verb(row.summary.split()[0])
