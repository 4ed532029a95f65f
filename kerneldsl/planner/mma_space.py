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
_EXTENTS = ((64, 128, 256), (64, 96, 128, 160, 192, 256), (32, 64, 128))
#: Most results of a thread. More are not in registers.
_MOST_SUMS = 128
#: Extents that launches use until they are tuned.
_FIRST = (64, 64, 64)
#: Rates of tiles along m and n by so many threads, as measured for bfloat16 on an H200 and relative
#: to the largest (`benchmarks/results/products-h200.json`). Along k they have 128 bytes.
_RATES = {
    (64, 64, 128): 0.43,
    (64, 128, 128): 0.72,
    (64, 256, 128): 0.91,
    (128, 64, 256): 0.65,
    (128, 96, 256): 0.84,
    (128, 128, 256): 0.9,
    (128, 160, 256): 0.92,
    (128, 192, 256): 0.97,
    (128, 256, 256): 1.0,
    (256, 128, 256): 0.99,
}
#: Rates where no multiprocessor has more than one tile. Otherwise two blocks of 128 threads run on
#: one, and the tiles of one are multiplied while the other one waits.
_RATES_ALONE = {(64, 128, 128): 0.62, (64, 256, 128): 0.84, (128, 64, 256): 0.68}
#: Rate of other tiles. Then factors, which are estimates: for rows along k with fewer or more than
#: 128 bytes, and for more sums than a thread may have.
_OTHER_RATE, _SHORT_ROWS, _LONG_ROWS, _MANY_SUMS = 0.3, 0.4, 0.9, 0.8
_ARCHITECTURES = ("sm_90", "sm_90a")
_ROW_BYTES = 128
#: Bytes of an element and most sums of a thread, by dtype. Sums of 8-bit floats need twice the
#: registers, if they are promoted. Products of float32 may be added element by element, in static
#: shared memory.
_DTYPES = {
    "float16": (2, _MOST_SUMS),
    "bfloat16": (2, _MOST_SUMS),
    "int8": (1, _MOST_SUMS),
    "uint8": (1, _MOST_SUMS),
    "float8_e4m3fn": (1, _MOST_SUMS // 2),
    "float8_e5m2": (1, _MOST_SUMS // 2),
    "float32": (4, _MOST_SUMS // 2),
}


@shorten_errors
def mma_space(*names: str, block: Sequence[int] = (128, 256), promote: int | None = 128) -> Space:
    """Return a space for kernels that multiply tiles, with `kd.mma` in `kd.tiles`.

    A block computes tiles of the extent of ``forall``, the shape of the result. Until they are
    tuned, launches use tiles of 64 by 64 and 64 along k. On GPUs of compute capability 9.0 the
    expected time decides, if elements have 8, 16 or 32 bits. It is the tiles of the busiest
    multiprocessor over the measured rate of such tiles.

    Parameters
    ----------
    *names : str
        The keyword-only parameters of the kernel that are the extents of tiles along m, n and, if
        there is a third one, k.
    block : sequence of int, optional
        Numbers of threads of a block.
    promote : int or None, optional
        What products are given. With None, 8-bit floats have larger tiles.

    Raises
    ------
    ArgumentTypeError
        If there are not two or three names.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> space = kd.mma_space("BM", "BN", "BK", block=[128])
    >>> space.parameters["BN"], len(space)
    ((64, 96, 128, 160, 192, 256), 30)
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
    made = make(block=list(block), where=fits, covers=covers, first=is_first, **values)
    if isinstance(made, _ProductSpace):
        made.is_promoted = promote is not None
    return made


class _ProductSpace(Space):
    """A space with the extents along m, n and k, in this order after the block."""

    #: Whether sums of 8-bit floats need twice the registers.
    is_promoted = True

    def first_for(self, device: Device, extent: tuple[int, ...], dtypes: Sequence[str]) -> Space:
        times = self.expected_for(device, extent, dtypes)
        return self.subset([min(times, key=times.__getitem__)]) if times else self.first()

    def expected_for(
        self, device: Device, extent: tuple[int, ...], dtypes: Sequence[str]
    ) -> Mapping[Member, float]:
        known = _DTYPES.get(dtypes[0]) if dtypes and device.arch in _ARCHITECTURES else None
        blocks = {threads for _, _, threads in _RATES}
        if known is None or len(extent) != 2 or blocks.isdisjoint(m.block_threads for m in self):
            return {}
        itemsize, most_sums = known
        if itemsize == 1 and not self.is_promoted:
            most_sums = _MOST_SUMS
        rows, columns, depth = tuple(self.parameters)[1:]

        def time(member: Member) -> float:
            height: int = getattr(member, rows)
            width: int = getattr(member, columns)
            count = -(-extent[0] // height) * -(-extent[1] // width)
            turns = -(-count // device.limits.multiprocessor_count)
            tile = height, width, member.block_threads
            rate = _RATES.get(tile, _OTHER_RATE)
            if turns == 1:
                rate = _RATES_ALONE.get(tile, rate)
            row_bytes = getattr(member, depth) * itemsize
            if row_bytes != _ROW_BYTES:
                rate *= _SHORT_ROWS if row_bytes < _ROW_BYTES else _LONG_ROWS
            if height * width > most_sums * member.block_threads:
                rate *= _MANY_SUMS
            return turns * height * width / rate

        return {member: time(member) for member in self}
