"""What a kernel does for one index, as plans of the null target count it."""

from __future__ import annotations

from typing import Any

from kerneldsl.analysis.work import KernelWork
from kerneldsl.language.signatures import parse_signature
from kerneldsl.placement.registry import get_target
from tests.support.python_kernels import unit_of

__all__ = ["counted"]


def counted(
    kernel: Any, signature: str, block_dim: tuple[int, int, int] | None = None
) -> KernelWork:
    """Return the work of a kernel, or of a Python function, for arguments of a signature."""
    kinds = parse_signature(signature)
    found = get_target("null").compiler.work(unit_of(kernel), kinds, block_dim)
    assert found is not None
    return found
