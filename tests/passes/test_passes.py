"""What each pass makes of a function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import kernels

from kerneldsl.frontend.normalize import make_unit

Check = Callable[[str, str], None]
ALL = [kernels.stencil, kernels.reduce, kernels.exceptions, kernels.tuples]
each_kernel = pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)


@each_kernel
def test_normal_form(function: Any, check_golden: Check) -> None:
    unit = make_unit(function)
    uses = "\n".join(f"# {n} = {u.intrinsic.name} {u.static}" for n, u in unit.uses.items())
    check_golden(f"normalize.{unit.name}", f"{unit.source()}\n\n{uses}")
