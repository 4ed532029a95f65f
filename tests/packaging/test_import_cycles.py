"""The search for cycles of modules, tried on packages in which some are planted."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.support.import_cycles import Import, find_cycles

_names = (f"planted_{number}" for number in itertools.count())


def _package(folder: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> str:
    """The name of a new package of some modules, in whose text NAME stands for it."""
    name = next(_names)
    (folder / name).mkdir()
    for module, text in {"__init__": "", **modules}.items():
        (folder / name / f"{module}.py").write_text(text.replace("NAME", name))
    monkeypatch.syspath_prepend(folder)
    return name


def test_a_late_import_closes_a_cycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = _package(
        tmp_path,
        monkeypatch,
        above="from NAME.middle import f\n",
        below="def f():\n    from NAME import above\n    return above\n",
        middle="import NAME.below\n",
        apart="from NAME import above, below\n",
    )
    (cycle,) = find_cycles([name])
    assert cycle == (
        Import(f"{name}.above", f"{name}.middle", 1),
        Import(f"{name}.middle", f"{name}.below", 1),
        Import(f"{name}.below", f"{name}.above", 2),
    )
    assert cycle[2].describe(tmp_path) == f"{name}/below.py:2: imports {name}.above"


def test_every_import_of_a_cycle_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = _package(
        tmp_path,
        monkeypatch,
        one="import NAME.two\nimport NAME.three\n",
        two="import NAME.one\n",
        three="import NAME.two\n",
    )
    listed = {(each.importer, each.imported) for cycle in find_cycles([name]) for each in cycle}
    pairs = {("one", "two"), ("two", "one"), ("one", "three"), ("three", "two")}
    assert listed == {(f"{name}.{a}", f"{name}.{b}") for a, b in pairs}


def test_annotations_make_no_cycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = _package(
        tmp_path,
        monkeypatch,
        above="import NAME.below\n",
        below="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import NAME.above\n",
    )
    assert find_cycles([name]) == []
