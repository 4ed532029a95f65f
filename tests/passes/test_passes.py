"""What each pass makes of a function."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import kernels

from kerneldsl.analysis.ranges import nonnegative_indices
from kerneldsl.frontend.normalize import make_unit

Check = Callable[[str, str], None]
ALL = [kernels.stencil, kernels.reduce, kernels.exceptions, kernels.tuples]
each_kernel = pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)


@each_kernel
def test_normal_form(function: Any, check_golden: Check) -> None:
    unit = make_unit(function)
    uses = "\n".join(f"# {n} = {u.intrinsic.name} {u.static}" for n, u in unit.uses.items())
    check_golden(f"normalize.{unit.name}", f"{unit.source()}\n\n{uses}")


def test_marks_are_what_the_analysis_proves() -> None:
    unit = make_unit(kernels.stencil)
    texts = {ast.unparse(n) for n in nonnegative_indices(unit)}
    assert texts == {"i", "j", "i - 1", "i + 1", "j - 1", "j + 1"}
