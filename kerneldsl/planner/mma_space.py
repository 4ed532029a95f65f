"""The space of a kernel of products: extents of tiles along m, n and k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kerneldsl.contract import Device, Dim3
from kerneldsl.errors import ArgumentTypeError
from kerneldsl.planner.space import Member, Space
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = ["mma_space"]

#: Extents along m, n and k. A GPU copies rows of 128 bytes along k: 128 elements of 8 bits.
_EXTENTS = ((64, 128, 256), (64, 96, 128, 192, 256), (32, 64, 128))
#: Most results of a thread. More are not in registers.
_MOST_SUMS = 128
#: Those of launches that are not tuned.
_FIRST = (64, 64, 64)
#: Rates of larger tiles along m and n by 256 threads, as measured for bfloat16 on an H200
#: (`benchmarks/results/products-h200.json`). Along k they have 128 bytes.
_RATES = {(128, 256): 1.0, (128, 128): 0.85}
#: They are taken on these architectures, from these rows and columns on.
_ARCHITECTURES = ("sm_90", "sm_90a")
_LEAST = 256
_ROW_BYTES = 128
#: By dtype: bytes of an element, and most columns. Sums of 8-bit floats may need twice the
#: registers.
_DTYPES = {
    "float16": (2, 256),
    "bfloat16": (2, 256),
    "int8": (1, 256),
    "uint8": (1, 256),
    "float8_e4m3fn": (1, 128),
    "float8_e5m2": (1, 128),
}


@shorten_errors
def mma_space(*names: str, block: Sequence[int] = (128, 256)) -> Space:
    """Return a space for kernels that multiply tiles, with `kd.mma` in `kd.tiles`.

    A block computes tiles of the extent of ``forall``, the shape of the result. Until they are
    tuned, launches use tiles of 64 by 64 and 64 along k. On GPUs of compute capability 9.0, tiles
    of 128 by 256 or 128 by 128 are used for large matrices of 8 or 16 bits. The expected time
    decides: the tiles of the busiest multiprocessor over the measured rate of such tiles.

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
    ((64, 96, 128, 192, 256), 27)
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

    def fits(member: Member) -> bool:
        count: int = getattr(member, rows) * getattr(member, columns)
        return count <= _MOST_SUMS * member.block_threads

    def is_first(member: Member) -> bool:
        return tuple(getattr(member, name) for name in names) == _FIRST[: len(names)]

    values: dict[str, Any] = dict(zip(names, _EXTENTS, strict=False))
    make = Space if len(names) < len(_FIRST) else _ProductSpace
    return make(block=list(block), where=fits, covers=covers, first=is_first, **values)


class _ProductSpace(Space):
    """A space with the extents along m, n and k, in this order after the block."""

    def first_for(self, device: Device, extent: tuple[int, ...], dtypes: Sequence[str]) -> Space:
        _, *names = self.parameters
        wanted = best_for(names, device, extent, dtypes)
        if wanted is None:
            return self.first()
        found = [m for m in self if all(getattr(m, each) == v for each, v in wanted.items())]
        return self.subset(found) if found else self.first()


def best_for(
    names: Sequence[str], device: Device, extent: tuple[int, ...], dtypes: Sequence[str]
) -> Mapping[str, int] | None:
    """Return the values of the larger member with the least expected time, if one is taken."""
    known = _DTYPES.get(dtypes[0]) if dtypes and device.arch in _ARCHITECTURES else None
    if known is None or len(extent) != 2 or min(extent) < _LEAST:
        return None
    itemsize, most_columns = known

    def time(tile: tuple[int, int]) -> float:
        count = -(-extent[0] // tile[0]) * -(-extent[1] // tile[1])
        turns = -(-count // device.limits.multiprocessor_count)
        return turns * tile[0] * tile[1] / _RATES[tile]

    rows, columns = min((each for each in _RATES if each[1] <= most_columns), key=time)
    depth = _ROW_BYTES // itemsize
    return {**dict(zip(names, (rows, columns, depth), strict=True)), "block": 256}
