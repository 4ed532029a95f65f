"""A module that another thread is importing does not count as imported."""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path

import pytest

from kerneldsl.utilities.modules import imported

_SLOW = """
import {name}_gate
{name}_gate.begun.set()
assert {name}_gate.may_end.wait(20)
value = 7
"""


def test_half_made_modules_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "kerneldsl_test_slow_module"
    (tmp_path / f"{name}_gate.py").write_text(
        "import threading\nbegun, may_end = threading.Event(), threading.Event()\n"
    )
    (tmp_path / f"{name}.py").write_text(_SLOW.format(name=name))
    monkeypatch.syspath_prepend(str(tmp_path))
    gate = importlib.import_module(f"{name}_gate")
    assert imported(name) is None
    importing = threading.Thread(target=importlib.import_module, args=(name,))
    importing.start()
    try:
        assert gate.begun.wait(20)
        assert name in sys.modules
        assert imported(name) is None
    finally:
        gate.may_end.set()
        importing.join()
    assert imported(name).value == 7
    monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"{name}_gate")


def test_modules_without_a_spec_count() -> None:
    assert imported("__main__") is sys.modules["__main__"]
    assert imported("no.such.module") is None
