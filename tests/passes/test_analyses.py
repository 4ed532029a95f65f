"""What the analyses say of many kernels, held against what they said before.

Of a few kernels every answer is stored as text, of the others a digest of each. An answer that
changes without its kernel shows that an analysis has changed.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import kernels

from kerneldsl.frontend.normalize import make_unit
from kerneldsl.language.kinds import Kind
from stdlib_kernels.imaging import levels
from tests.conformance.kernels import CASES
from tests.fuzz.kernels import generate
from tests.support.answers import ANALYSES, answers
from tests.support.cases import kind_of
from tests.support.extent import sample
from tests.support.python_kernels import unit_of
from tests.support.source import exec_source

Check = Callable[[str, str], None]
_SHOWN = [
    kernels.stencil,
    kernels.reduce,
    kernels.exceptions,
    kernels.tuples,
    kernels.count_levels,
    kernels.equalizing_table,
    levels.look_up.__wrapped__,
]
_SEEDS = range(200)
_DIGESTS = Path(__file__).parent / "golden" / "analyses.digests.txt"


@pytest.mark.parametrize("function", _SHOWN, ids=lambda f: f.__name__)
def test_answers(function: Any, check_golden: Check) -> None:
    """Every answer, with the normal form that it is about."""
    unit = make_unit(function)
    parts = [f"{unit.source()}\n"]
    parts += [f"# {name}\n{text}\n" for name, text in answers(unit).items()]
    check_golden(f"analyses.{unit.name}", "\n".join(parts))


def _digests(function: Any, kinds: Sequence[Kind]) -> dict[str, str]:
    unit = unit_of(function)
    found = {"source": unit.source(), **answers(unit, kinds)}
    return {name: hashlib.sha256(text.encode()).hexdigest()[:8] for name, text in found.items()}


def _cases() -> dict[str, tuple[Any, Sequence[Kind]]]:
    """The conformance kernels, each once."""
    found: dict[int, tuple[str, Any, Sequence[Kind]]] = {}
    for case in CASES:
        found.setdefault(id(case.kernel), (case.name, case.kernel, case.kinds))
    return {name: (function, kinds) for name, function, kinds in found.values()}


def _program(seed: int) -> tuple[Any, Sequence[Kind]]:
    program = generate(seed)
    function = exec_source(program.text, "generated")["kernel"].__wrapped__
    return function, [kind_of(argument) for argument in program.arguments(0)]


def test_digests(request: pytest.FixtureRequest) -> None:
    """A digest of every answer, of the conformance kernels and of generated programs."""
    cases, is_update = _cases(), request.config.getoption("--update-golden", default=False)
    names = [*cases, *(f"program {seed}" for seed in _SEEDS)]
    found = {}
    for name in names if is_update else sample(names, 40):
        is_case = name in cases
        function, kinds = cases[name] if is_case else _program(int(name.removeprefix("program ")))
        found[name] = _digests(function, kinds)
    if is_update:
        lines = [f"{name}: {' '.join(each.values())}\n" for name, each in found.items()]
        _DIGESTS.write_text("".join(lines), encoding="utf-8")
    stored = dict(line.split(": ") for line in _DIGESTS.read_text(encoding="utf-8").splitlines())
    assert list(stored) == names
    columns = ("source", *ANALYSES)
    known = {name: dict(zip(columns, stored[name].split(), strict=True)) for name in found}
    other = [name for name in found if found[name]["source"] != known[name]["source"]]
    assert not other, "these kernels have changed: write their digests with --update-golden"
    assert found == known
