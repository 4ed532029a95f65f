"""Optimizing passes of compilers, as a reader lists them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PassInfo"]


class PassInfo(NamedTuple):
    """An optimizing pass, which ``KERNELDSL_DISABLE_PASSES`` disables by its name.

    Parameters
    ----------
    name : str
        Its name, such as ``"unroll-strides"``.
    purpose : str
        What it does, a sentence.
    stage : str
        The form of the code that it rewrites, such as ``"PTX"``.
    """

    name: str
    purpose: str
    stage: str
