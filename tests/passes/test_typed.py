"""The typed normal form of a few kernels, as text."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import kernels

from kerneldsl.frontend.normalize import make_unit
from kerneldsl.language.signatures import parse_signature
from kerneldsl.placement.registry import get_target

#: Kernels with the kinds of their arguments.
_SHOWN: list[tuple[Any, str]] = [
    (kernels.stencil, "float32[:, ::1], float32[:, ::1]"),
    (kernels.reduce, "float64[:], float32[::1]"),
]


@pytest.mark.parametrize(("function", "signature"), _SHOWN, ids=["stencil", "reduce"])
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_typed(
    target: str, function: Any, signature: str, check_golden: Callable[[str, str], None]
) -> None:
    """The types of every value, of the kernel and of what it calls; both targets' are the same."""
    typed = get_target(target).compiler.typed_unit(make_unit(function), parse_signature(signature))
    text = "\n\n".join(unit.source() for unit in typed.reachable())
    check_golden(f"typed.{function.__name__}", text)
