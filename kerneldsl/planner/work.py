"""Work of a kernel for one index, in bytes and clocks: the body's counts with the argument types.

:meth:`~kerneldsl.analysis.work.KernelWork.body` counts places and operations of the kernel. Here
they meet the kinds of the arguments, so that places become bytes.

:func:`orient` says which axis of an extent runs along x, so that neighbouring threads touch
neighbouring elements. It is the last one, unless the axes in their own order give more accesses of
neighbouring bytes. They do so for arrays in Fortran order, and if a kernel indexes ``a[j, i]``
under ``i, j = kd.grid(2)``.

References
----------
CUDA C++ Best Practices Guide, section "Coalesced Access to Global Memory": memory is moved in
sectors of 32 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kerneldsl.analysis.operations import OPERATORS, SELECTIONS
from kerneldsl.analysis.work import Access, BodyWork
from kerneldsl.contract import Promises
from kerneldsl.contract.abi import array_parameters
from kerneldsl.language.kinds import ArrayKind, Kind, array_kinds

__all__ = ["SECTOR_BYTES", "ArrayReads", "ElementWork", "Oriented", "element_work", "orient"]

#: Bytes that memory moves at least.
SECTOR_BYTES = 32
#: Bytes of the widest access of memory.
VECTOR_BYTES = 16
#: float32 operations that a division or a root, and another mathematical function, comes to.
_DIVISION, _FUNCTION = 8.0, 20.0
_COSTS = {
    **dict.fromkeys(OPERATORS.values(), 1.0),
    **dict.fromkeys((*SELECTIONS, "compare", "fma", "intrinsic", "select"), 1.0),
    **dict.fromkeys(("div", "mod", "pow", "sqrt"), _DIVISION),
}
#: Functions of float32 and of float64 with branches in libdevice of CUDA 13. LLVM cannot combine
#: accesses of two items if such a branch is between them.
_BRANCHING_OF_BOTH = (
    {"sin", "cos", "tan", "tanh", "atan", "atan2", "fmod"}
    | {"asinh", "acosh", "atanh"}
    | {"erfc", "gamma", "lgamma"}
)
_BRANCHING = {
    False: _BRANCHING_OF_BOTH | {"erf"},
    True: _BRANCHING_OF_BOTH
    | {"sinh", "cosh", "asin", "acos", "exp", "exp2", "expm1", "cbrt", "hypot"}
    | {"log", "log2", "log10", "log1p"},
}


class ArrayReads(NamedTuple):
    """An array that neighbouring threads read side by side."""

    #: Bytes of an element.
    itemsize: int
    #: Distances between the farthest offsets that are read along x, y and z: 2 for a stencil that
    #: reads one element to each side. Blocks read so many elements beyond their own.
    spread: tuple[int, int, int] = (0, 0, 0)


class ElementWork(NamedTuple):
    """Work of the body for one index."""

    #: Bytes of device memory; an array that is read at several places counts once, an access that
    #: uses part of a sector counts the sector.
    read_bytes: float = 0.0
    written_bytes: float = 0.0
    #: Bytes between the level-2 cache and a multiprocessor, in whole sectors, for accesses without
    #: sectors shared by neighbours.
    scattered_bytes: float = 0.0
    #: Arrays that neighbouring threads read contiguously, and the distance from their own elements.
    arrays: tuple[ArrayReads, ...] = ()
    #: Accesses.
    loads: float = 0.0
    stores: float = 0.0
    #: Contiguous accesses. Several items can combine the first; the second, at an offset along x,
    #: are shared by items except for the outermost; the third are under a condition.
    vector_accesses: float = 0.0
    shifted_accesses: float = 0.0
    row_accesses: float = 0.0
    #: Distinct bytes of the loads that do not wait for other loads.
    load_bytes: float = 0.0
    #: Bytes of accesses with neighbours along the second axis of a block, as on one side of a
    #: transposition. They are not in the counts above, since their cost depends on the block.
    crossed_bytes: float = 0.0
    #: Length of the longest chain of dependent loads; 2 if an index is loaded.
    rounds: int = 1
    #: Sizes of the elements of contiguous accesses; 0 if there are none.
    narrowest_bytes: int = 0
    widest_bytes: int = 0
    #: Iterations of loops, all loops together.
    loop_rounds: float = 0.0
    #: Operations of any type in loops, all iterations together.
    loop_operations: float = 0.0
    #: Whether the trip count of some loop is unknown.
    has_unknown_loop: bool = False
    #: float32 operations, or integers', other than those of addresses.
    operations: float = 0.0
    #: float64 operations.
    double_operations: float = 0.0
    #: Barriers of the block.
    barriers: float = 0.0
    #: Atomic operations, on memory and on shared memory.
    atomics: float = 0.0
    shared_atomics: float = 0.0
    #: Atomic operations on memory that all threads apply to one address.
    contended_atomics: float = 0.0
    #: Whether a load cannot be moved before the store of an earlier item: the arrays may overlap,
    #: or the code of an item branches.
    is_serial: bool = False
    #: Places of accesses in the source: an access in a loop counts once.
    places: int = 0

    @property
    def max_vector(self) -> int:
        """The longest vector with accesses of at most 16 bytes."""
        if not self.vector_accesses:
            return 1
        return max(1, VECTOR_BYTES // self.widest_bytes)

    @property
    def device_bytes(self) -> float:
        """Bytes of device memory, read and written."""
        return self.read_bytes + self.written_bytes


def element_work(
    body: BodyWork, kinds: Sequence[Kind], *, uses_double: bool | None = None
) -> ElementWork:
    """Return what a body does for one index, given its arguments' kinds.

    The arithmetic is in float64 if an array holds that, unless `uses_double` says.

    Examples
    --------
    >>> from kerneldsl.analysis.work import Access, BodyWork
    >>> from kerneldsl.language.signatures import parse_signature
    >>> body = BodyWork((Access(0, False, "contiguous"), Access(1, True, "contiguous")))
    >>> found = element_work(body, parse_signature("float32[::1], float32[::1]"))
    >>> found.read_bytes, found.written_bytes, found.max_vector
    (4.0, 4.0, 4)
    """
    device: dict[tuple[int, bool], float] = {}
    asked: dict[int, float] = {}
    offsets: dict[int, list[tuple[int, int, int]]] = {}
    sizes: dict[int, int] = {}
    widths: set[int] = set()
    scattered = loads = stores = atomics = contended = crossed = vectors = rows = 0.0
    shifted = 0.0
    if uses_double is None:
        uses_double = any(kind.element.is_double for kind in map(_array, kinds) if kind)
    is_branching = _is_branching(body, uses_double=uses_double)
    rounds = 1
    places = 0
    for access in body.accesses:
        kind = _array(kinds[access.parameter])
        if kind is None:
            continue
        places += 1
        itemsize = kind.element.nbytes
        pattern = _pattern_in(access, kind)
        sector = _sector_bytes(access, pattern, itemsize)
        is_distinct = pattern == "scattered" or access.is_stepped
        many = access.count if is_distinct else 1.0
        if access.is_crossed and pattern == "strided":
            crossed += itemsize * access.count
            sector = 0.0
        elif pattern == "contiguous":
            if access.is_guarded or access.is_atomic or is_branching:
                rows += access.count
            elif access.offsets[0]:
                shifted += access.count
            else:
                vectors += access.count
                widths.add(itemsize)
            if not access.is_store:
                offsets.setdefault(access.parameter, []).append(access.offsets)
                sizes[access.parameter] = itemsize
        elif pattern != "uniform":
            scattered += sector * access.count
        key = (access.parameter, access.is_store)
        if pattern == "uniform":
            sector = 0.0
        # Neighbouring threads of a stencil read the same elements again, which a cache serves.
        device[key] = max(device.get(key, 0.0), sector * many)
        if access.is_store:
            stores += access.count
        else:
            loads += access.count
            if pattern != "uniform":
                asked[access.parameter] = asked.get(access.parameter, 0.0) + itemsize * many
        if access.is_atomic:
            atomics += access.count
            contended += access.count if pattern == "uniform" else 0.0
        if access.depends_on_load:
            rounds = 2
    operations = sum(_COSTS.get(name, _FUNCTION) * many for name, many in body.operations.items())
    return ElementWork(
        read_bytes=sum(n for (_, is_store), n in device.items() if not is_store),
        written_bytes=sum(n for (_, is_store), n in device.items() if is_store),
        scattered_bytes=scattered,
        arrays=tuple(ArrayReads(sizes[each], _spread(offsets[each])) for each in offsets),
        loads=loads,
        stores=stores,
        vector_accesses=vectors,
        shifted_accesses=shifted,
        row_accesses=rows,
        load_bytes=sum(asked.values()),
        crossed_bytes=crossed,
        rounds=rounds,
        loop_rounds=body.rounds,
        loop_operations=body.loop_operations,
        has_unknown_loop=body.has_unknown_loop,
        narrowest_bytes=min(widths, default=0),
        widest_bytes=max(widths, default=0),
        operations=0.0 if uses_double else operations,
        double_operations=operations if uses_double else 0.0,
        barriers=body.barriers,
        atomics=atomics,
        shared_atomics=body.shared_atomics,
        contended_atomics=contended,
        is_serial=is_branching and loads > 0,
        places=places,
    )


def _is_branching(body: BodyWork, *, uses_double: bool) -> bool:
    """Return whether the code of an item branches, other than by a condition of the source.

    A loop of known length is unrolled, or goes through several items at once.
    """
    return body.has_unknown_loop or not _BRANCHING[uses_double].isdisjoint(body.operations)


def _array(kind: Kind) -> ArrayKind | None:
    """Return the array that an argument is, or the first one in a tuple."""
    return next(array_kinds([kind]), None)


def _spread(offsets: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
    x, y, z = (max(along) - min(along) for along in zip(*offsets, strict=True))
    return x, y, z


def _pattern_in(access: Access, kind: ArrayKind) -> str:
    """Return the pattern in an array of this layout; what is contiguous in C is strided in F."""
    if access.pattern == "contiguous" and kind.ndim > 1 and kind.layout == "F":
        return "strided"
    return access.pattern


def _sector_bytes(access: Access, pattern: str, itemsize: int) -> float:
    """Return the bytes moved for one access, its share of what its neighbours need too."""
    if pattern == "contiguous":
        return float(itemsize)
    if pattern == "uniform":
        return itemsize / 32
    if pattern == "strided" and access.step is not None:
        return float(min(max(SECTOR_BYTES, itemsize), itemsize * access.step))
    return float(max(SECTOR_BYTES, itemsize))


class Oriented(NamedTuple):
    """A body's work once the axes are decided."""

    #: The work, with accesses of neighbours along x.
    body: BodyWork
    #: Kinds of the arguments, with layout "C" for those with reversed indices.
    kinds: tuple[Kind, ...]
    #: Whether the first axis of the extent runs along x, then the second; else the last does.
    is_first: bool


def orient(last: BodyWork, first: BodyWork, kinds: Sequence[Kind], promises: Promises) -> Oriented:
    """Choose the axis along x.

    `last` and `first` are what the body does where the last, and where the first, axis runs along
    x, its arrays taken for C-contiguous ones.
    """
    # An array with a contiguous first axis is a C-contiguous one with reversed indices. So its
    # accesses are those of the other order of axes.
    turned = _turned(kinds, promises)
    if len(last.accesses) != len(first.accesses):  # one text may be two places in one order only
        return Oriented(last, tuple(kinds), is_first=False)
    pairs = list(zip(last.accesses, first.accesses, strict=True))
    along_last = [b if a.parameter in turned else a for a, b in pairs]
    along_first = [a if a.parameter in turned else b for a, b in pairs]
    is_first = _side_by_side(along_first, kinds) > _side_by_side(along_last, kinds)
    accesses = along_first if is_first else along_last
    seen = tuple(
        replace(kind, layout="C") if position in turned and isinstance(kind, ArrayKind) else kind
        for position, kind in enumerate(kinds)
    )
    return Oriented(replace(last, accesses=tuple(accesses)), seen, is_first)


def _turned(kinds: Sequence[Kind], promises: Promises) -> set[int]:
    """Return the positions of arrays with a contiguous first axis."""
    return {
        array.position
        for number, array in enumerate(array_parameters(kinds))
        if array.kind is kinds[array.position]  # and no element of a tuple
        and array.kind.ndim > 1
        and (array.kind.layout == "F" or promises.array(number).unit_axis == 0)
    }


def _side_by_side(accesses: Sequence[Access], kinds: Sequence[Kind]) -> float:
    """Return the bytes for each index that neighbours along x access next to each other."""
    total = 0.0
    for access in accesses:
        kind = kinds[access.parameter]
        if access.pattern == "contiguous" and isinstance(kind, ArrayKind):
            total += access.count * kind.element.nbytes
    return total
