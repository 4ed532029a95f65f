"""Which guards are marked: those whose indices are convex, and only where asking does no harm."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from kerneldsl.frontend.normalize import make_unit
from kerneldsl.lowering.passes.mark_guard import GUARD, MarkGuard
from tests.support.source import exec_source


def _marked(body: str, parameters: str = "n, x, out") -> str | None:
    """The kernel's text with its guard marked; ``None`` where it has none."""
    lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    text = f"import kerneldsl as kd\nLIMIT = 7\ndef kernel({parameters}):\n{lines}\n"
    return _mark(exec_source(text)["kernel"])


def _mark(function: Callable[..., Any]) -> str | None:
    unit = make_unit(function)
    before = ast.unparse(unit.tree)
    tree, has_guard = MarkGuard(unit)(unit.tree)
    assert ast.unparse(unit.tree) == before
    text = ast.unparse(tree)
    assert (GUARD in text) == has_guard
    return text if has_guard else None


@pytest.mark.parametrize(
    "test",
    [
        "i < n",
        "i < out.size",
        "i < out.shape[0]",
        "i < len(out)",
        "i < LIMIT",
        "0 <= i < out.size",
        "n > i >= 2",
        "0 < i and i < out.shape[-1] - 1",
        "not i >= n",
        "not (i < 1 or i >= n - 1)",
        "2 * i + 1 < n",
        "-i > -n",
        "n - i > 3",
        "i < n * n // 2",
    ],
)
def test_linear_conditions_are_guards(test: str) -> None:
    marked = _marked(f"i = kd.grid(1)\nif {test}:\n    out[i] = x[i]")
    assert marked is not None
    assert marked.count(GUARD) == 1


@pytest.mark.parametrize(
    "test",
    [
        "i != n",
        "i == n",
        "i < n or i > 5",
        "not (i >= n and i < 5)",
        "i * i < n",
        "i % 2 < n",
        "i // 2 < n",
        "i * n < 100",
        "100 * i < n",
        "i < x[0]",
        "x[i] < 3",
        "abs(i) < n",
        "i",
    ],
)
def test_other_conditions_are_not(test: str) -> None:
    assert _marked(f"i = kd.grid(1)\nif {test}:\n    out[i] = x[i]") is None


def test_coordinates_by_name_by_place_and_by_sum() -> None:
    assert _marked("i, j = kd.grid(2)\nif i < n and j - i < n:\n    out[i] = j")
    assert _marked("p = kd.grid(2)\nif p[0] < n and p[1] < n:\n    out[p[0]] = 1")
    assert _marked("i = kd.grid(1)\nk = i + 1\nm = n - 1\nif k < m:\n    out[k] = 1")
    assert _marked("i = kd.grid(1)\ni = i * i\nif i < n:\n    out[i] = 1") is None
    assert _marked("i = kd.grid(1)\nn = x[0]\nif i < n:\n    out[i] = 1") is None


def test_nested_guards_become_one() -> None:
    marked = _marked("i, j = kd.grid(2)\nif i < n:\n    if j < n:\n        out[i, j] = 1")
    assert marked is not None
    assert f"if {GUARD}(i < n and j < n):\n        out[i, j] = 1" in marked


def test_early_returns_become_one() -> None:
    marked = _marked(
        """
        i = kd.grid(1)
        if i >= n:
            return
        if i < 1 or i > LIMIT:
            return
        out[i] = 1
        """
    )
    assert marked is not None
    assert "if not kd_guard(not i >= n and (not (i < 1 or" in marked
    assert marked.count("return") == 1


def test_what_follows_or_answers_a_condition_stays() -> None:
    assert _marked("i = kd.grid(1)\nif i < n:\n    out[i] = 1\nelse:\n    out[i] = 2") is None
    assert _marked("i = kd.grid(1)\nif i < n:\n    out[i] = 1\nx[i] = 2") is None
    assert _marked("i = kd.grid(1)\nif i < n:\n    out[i] = 1\nreturn")
    assert _marked("i = kd.grid(1)\nout[i] = 1") is None


@pytest.mark.parametrize(
    "before",
    [
        "out[i] = 0",
        "v = x[i]",
        "kd.atomic.add(out, 0, 1)",
        "for k in range(3):\n    pass",
        "i += 1",
    ],
)
def test_nothing_that_touches_memory_stands_before_a_guard(before: str) -> None:
    assert _marked(f"i = kd.grid(1)\n{before}\nif i < n:\n    out[i] = 1") is None
