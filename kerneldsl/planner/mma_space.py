"""The space of a kernel of products: extents of tiles along m, n and k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kerneldsl.contract import Dim3
from kerneldsl.errors import ArgumentTypeError
from kerneldsl.planner.space import Member, Space
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = ["mma_space"]

#: Extents along m, n and k.
_EXTENTS = ((64, 128), (64, 128, 256), (32, 64))
#: Those of launches that are not tuned.
_FIRST = (64, 64, 64)


@shorten_errors
def mma_space(*names: str, block: Sequence[int] = (128, 256)) -> Space:
    """Return a space for kernels that multiply tiles, with `kd.mma` in `kd.tiles`.

    A block computes one tile of the extent of ``forall``, the shape of the result. Launches use
    tiles of 64 by 64 and 64 along k until they are tuned.

    Parameters
    ----------
    *names : str
        The keyword-only parameters of the kernel that are the extents of tiles along m, n and, if
        there is a third one, k.
    block : sequence of int, optional
        Numbers of threads of a block.

    Raises
    ------
    ArgumentTypeError
        If there are not two or three names.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> space = kd.mma_space("BM", "BN", "BK", block=[128])
    >>> space.parameters["BN"], len(space)
    ((64, 128, 256), 12)
    """
    if len(names) not in (2, 3) or not all(isinstance(name, str) for name in names):
        raise ArgumentTypeError(
            f"mma_space was given {names!r}",
            value=names,
            limit="It takes the names of two or three parameters: the extents along m, n and k",
            remedy='Write kd.mma_space("BM", "BN", "BK")',
        )
    rows, columns = names[:2]

    def covers(member: Member) -> Dim3:
        return getattr(member, columns), getattr(member, rows), 1

    def is_first(member: Member) -> bool:
        return tuple(getattr(member, name) for name in names) == _FIRST[: len(names)]

    values: dict[str, Any] = dict(zip(names, _EXTENTS, strict=False))
    return Space(block=list(block), covers=covers, first=is_first, **values)
