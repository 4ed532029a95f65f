"""Progress of a launch, which says whether it may be run again."""

from __future__ import annotations

__all__ = ["Progress"]


class Progress:
    """Progress of a launch.

    Attributes
    ----------
    has_begun : bool
        Whether the kernel may have begun on the device.
    touched : set of int
        Indices, among the flat values, of the arrays in host memory that may have been changed.
    """

    __slots__ = ("has_begun", "touched")

    def __init__(self) -> None:
        self.has_begun = False
        self.touched: set[int] = set()
