"""Descriptions of a kernel's compiled specializations for people."""

from __future__ import annotations

from kerneldsl.contract import Dim3
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.shown import Shown

__all__ = ["SpecializationInfo"]


@dataclass(frozen=True, slots=True)
class SpecializationInfo(Shown):
    """One compiled form of a kernel, as ``kernel.specializations`` lists them.

    Parameters
    ----------
    target, arch : str or None
        What it was compiled for.
    signature : str
        Kinds of the arguments.
    forall_ndim : int or None
        Rank of the extent under ``forall``; ``None`` for ``kernel[grid, block]``.
    block_dim : tuple of int or None
        The block, on a target that compiles for one.
    compile_s : float
        Seconds it took to compile.
    """

    target: str
    arch: str | None
    signature: str
    forall_ndim: int | None
    block_dim: Dim3 | None
    compile_s: float
