"""The vocabulary of a kernel, as data: each intrinsic once.

An :class:`Intrinsic` says what an operation is called, what it means, how its result varies
between threads, what it does to memory and to control, and how it is typed. It says nothing of how
a target performs it: each target holds a table of lowerings keyed by :attr:`Intrinsic.name`, and a
test holds that no name is missing there.

The names are ``numba.cuda``'s. Calling an intrinsic from plain Python is an error.

The terms are the CUDA Programming Guide's.

References
----------
CUDA C++ Programming Guide, sections "Built-in Variables", "Synchronization Functions", "Memory
Fence Functions" and "Atomic Functions".
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, NoReturn

from kerneldsl.errors import OutsideKernelError
from kerneldsl.language.element_types import ELEMENT_TYPES, Atomics
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = [
    "ATOMIC_ARITHMETIC",
    "ATOMIC_BITWISE",
    "BLOCK_LEVEL",
    "INTRINSICS",
    "Dim3",
    "Effect",
    "Intrinsic",
    "IntrinsicGroup",
    "Scope",
    "Typing",
]


class Scope(enum.IntEnum):
    """A group of threads; each holds those before it.

    References
    ----------
    CUDA C++ Programming Guide, sections "Thread Hierarchy" and "Thread Block Clusters".
    """

    THREAD = 0
    WARP = 1
    BLOCK = 2
    CLUSTER = 3
    GRID = 4


class Effect(enum.Flag):
    """Side effect of an intrinsic."""

    NONE = 0
    BARRIER = enum.auto()
    """The threads of a scope must reach it, and wait there for each other."""
    FENCE = enum.auto()
    """Orders this thread's memory accesses as others see them."""
    ATOMIC = enum.auto()
    """Reads and writes one element indivisibly."""
    ALLOCATE_SHARED = enum.auto()
    ALLOCATE_LOCAL = enum.auto()


#: What makes a kernel a block kernel.
BLOCK_LEVEL = Effect.BARRIER | Effect.ALLOCATE_SHARED


class Typing(enum.Enum):
    """Typing rule of an intrinsic's arguments and result."""

    INDEX = "() -> int64"
    """A thread, block or lane coordinate, or a size."""
    INDEX_TUPLE = "(ndim) -> int64, or a tuple of ndim int64"
    """`ndim` is a constant 1, 2 or 3; 1 gives a scalar."""
    NOTHING = "(…) -> none"
    """Arguments are converted to int32; there is no result."""
    VOTE = "(predicate) -> int32"
    """`predicate` is a boolean or integer; the result counts or is 0/1."""
    SHUFFLE = "(mask, value, lane) -> type of value"
    """`mask` and `lane` are converted to int32; `value` is a number of 32 or 64 bits, and smaller
    integers and booleans are converted to int32."""
    BALLOT = "(mask, predicate) -> int32"
    """`mask` is converted to int32; `predicate` is a boolean or integer; the result is a mask."""
    WARP_VOTE = "(mask, predicate) -> bool"
    """As BALLOT, with one truth value for the lanes of the mask."""
    BITS = "(value) -> type of value"
    """`value` is an integer."""
    ARRAY = "(shape, dtype) -> array"
    """`shape` is a constant int or tuple of 1-3 ints, `dtype` a constant dtype; C layout."""
    ATOMIC = "(array, index, value) -> element"
    """`value` is converted to the element type; the old element is returned."""
    ATOMIC_CAS = "(array, index, expected, value) -> element"
    """As ATOMIC, with a comparison."""
    VALUE = "(value) -> same type"
    """Passes its argument on."""


def _atomic_dtypes(group: Atomics) -> tuple[str, ...]:
    return tuple(row.name for row in ELEMENT_TYPES.values() if group in row.atomics)


#: dtypes of the arithmetic atomics, exchange and compare-and-swap.
ATOMIC_ARITHMETIC = _atomic_dtypes(Atomics.ARITHMETIC)
#: dtypes of the bitwise atomics.
ATOMIC_BITWISE = _atomic_dtypes(Atomics.BITWISE)
#: dtypes of the wrapping increment and decrement.
ATOMIC_WRAPPING = _atomic_dtypes(Atomics.WRAPPING)


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """One operation of the language.

    Parameters
    ----------
    name : str
        Dotted name below ``kerneldsl``, such as ``"atomic.add"`` or ``"threadIdx.x"``.
    summary : str
        Its meaning, in one sentence.
    typing : Typing
        Rule by which a target types it.
    parameters : tuple of str
        Names of the parameters, in order.
    uniform_in : Scope or None
        The largest scope in which every thread gets the same result, whatever its arguments are;
        ``None`` for a result that is as uniform as the arguments.
    effect : Effect
        What it does beside computing.
    scope : Scope
        Of a barrier: the threads that wait for each other.
    dtypes : tuple of str
        Element dtypes it takes; empty where it takes no array.
    static : tuple of str
        Parameters that must be constants when the kernel is compiled.
    defaults : dict
        Values of parameters that may be left out.
    """

    name: str
    summary: str
    typing: Typing
    parameters: tuple[str, ...] = ()
    uniform_in: Scope | None = None
    effect: Effect = Effect.NONE
    scope: Scope = Scope.THREAD
    dtypes: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)

    @property
    def is_barrier(self) -> bool:
        """True if threads wait for each other in it."""
        return Effect.BARRIER in self.effect

    def synchronizes(self, scope: Scope) -> bool:
        """Return whether it is a barrier that every thread of a scope must reach."""
        return self.is_barrier and self.scope >= scope

    @property
    def is_index(self) -> bool:
        """True if it is a coordinate or a size, which differs outside its scope for certain."""
        return self.typing in (Typing.INDEX, Typing.INDEX_TUPLE)

    @property
    def symbol(self) -> str:
        """The name as one identifier: ``threadIdx_x`` for ``threadIdx.x``."""
        return self.name.replace(".", "_")

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        signature = f"{self.name}({', '.join(self.parameters)})"
        text = f"{signature if self.parameters else self.name}\n\n{self.summary}"
        return text + (f"\n\nElement dtypes: {', '.join(self.dtypes)}." if self.dtypes else "")

    @shorten_errors
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: an intrinsic means something inside a kernel only."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise OutsideKernelError(
            f"kerneldsl.{self.name} was used outside a kernel",
            value=self.name,
            limit="It has a meaning only in functions decorated with @kd.kernel or @kd.func",
            remedy="Call it from a kernel, and launch that with kernel.forall(n)(…) "
            "or kernel[grid, block](…)",
        )

    def __repr__(self) -> str:
        return f"kerneldsl.{self.name}"


class IntrinsicGroup:
    """A namespace of intrinsics, such as ``kd.atomic``."""

    def __init__(self, name: str, members: dict[str, Intrinsic]) -> None:
        self._name = name
        self._members = members
        self.__doc__ = f"kerneldsl.{name}: " + ", ".join(members)

    def __getattr__(self, name: str) -> Intrinsic:
        try:
            return self.__dict__["_members"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(
                f"kerneldsl.{self.__dict__.get('_name')} has no member {name!r}; "
                f"it has {', '.join(self.__dict__.get('_members', ()))}"
            ) from None

    def __dir__(self) -> list[str]:
        return sorted(self._members)

    def __repr__(self) -> str:
        return f"kerneldsl.{self._name}"


class Dim3(IntrinsicGroup):
    """A group with members x, y and z that are read, not called."""


def _dim3(name: str, summary: str, uniform_in: Scope) -> Dim3:
    members = {
        axis: Intrinsic(f"{name}.{axis}", f"{summary} along {axis}.", Typing.INDEX, (), uniform_in)
        for axis in "xyz"
    }
    return Dim3(name, members)


def _atomic(name: str, summary: str, dtypes: tuple[str, ...]) -> Intrinsic:
    return Intrinsic(
        f"atomic.{name}",
        f"{summary} Returns the element's old value.",
        Typing.ATOMIC,
        ("array", "index", "value"),
        Scope.THREAD,
        Effect.ATOMIC,
        dtypes=dtypes,
    )


threadIdx = _dim3("threadIdx", "Index of this thread in its block", Scope.THREAD)
blockIdx = _dim3("blockIdx", "Index of this block in the grid", Scope.BLOCK)
blockDim = _dim3("blockDim", "Number of threads of a block", Scope.GRID)
gridDim = _dim3("gridDim", "Number of blocks of the grid", Scope.GRID)

grid = Intrinsic(
    "grid",
    "Index of this thread in the whole grid: blockIdx * blockDim + threadIdx, x first; under "
    "forall the index within the extent, in the extent's order.",
    Typing.INDEX_TUPLE,
    ("ndim",),
    Scope.THREAD,
    static=("ndim",),
)
gridsize = Intrinsic(
    "gridsize",
    "Number of threads of the whole grid: gridDim * blockDim, x first; under forall the extent.",
    Typing.INDEX_TUPLE,
    ("ndim",),
    Scope.GRID,
    static=("ndim",),
)
laneid = Intrinsic(
    "laneid", "Index of this thread in its warp.", Typing.INDEX, uniform_in=Scope.THREAD
)
warpsize = Intrinsic(
    "warpsize",
    "Number of threads of a warp: 32.",
    Typing.INDEX,
    uniform_in=Scope.GRID,
)

syncthreads = Intrinsic(
    "syncthreads",
    "Wait until every thread of the block is here, and see what they wrote.",
    Typing.NOTHING,
    effect=Effect.BARRIER,
    scope=Scope.BLOCK,
)
syncthreads_count = Intrinsic(
    "syncthreads_count",
    "A barrier that gives every thread the number of threads whose predicate is not zero.",
    Typing.VOTE,
    ("predicate",),
    uniform_in=Scope.BLOCK,
    effect=Effect.BARRIER,
    scope=Scope.BLOCK,
)
syncthreads_and = Intrinsic(
    "syncthreads_and",
    "A barrier that gives every thread 1 if every thread's predicate is not zero, else 0.",
    Typing.VOTE,
    ("predicate",),
    uniform_in=Scope.BLOCK,
    effect=Effect.BARRIER,
    scope=Scope.BLOCK,
)
syncthreads_or = Intrinsic(
    "syncthreads_or",
    "A barrier that gives every thread 1 if any thread's predicate is not zero, else 0.",
    Typing.VOTE,
    ("predicate",),
    uniform_in=Scope.BLOCK,
    effect=Effect.BARRIER,
    scope=Scope.BLOCK,
)
syncwarp = Intrinsic(
    "syncwarp",
    "Wait until the lanes of `mask` (all by default) are here, and see what they wrote.",
    Typing.NOTHING,
    ("mask",),
    effect=Effect.BARRIER,
    scope=Scope.WARP,
    defaults={"mask": 0xFFFFFFFF},
)


def _shuffle(name: str, summary: str, lane: str) -> Intrinsic:
    return Intrinsic(
        name,
        f"{summary} A lane gets its own value back where there is no such lane. All lanes of "
        "`mask` must call it together, and `mask` must name the calling lane.",
        Typing.SHUFFLE,
        ("mask", "value", lane),
        effect=Effect.BARRIER,
        scope=Scope.WARP,
    )


shfl_sync = _shuffle(
    "shfl_sync", "The value of lane `src_lane` of the warp, taken modulo 32.", "src_lane"
)
shfl_up_sync = _shuffle(
    "shfl_up_sync", "The value of the lane that is `delta` (modulo 32) below this one.", "delta"
)
shfl_down_sync = _shuffle(
    "shfl_down_sync", "The value of the lane that is `delta` (modulo 32) above this one.", "delta"
)
shfl_xor_sync = _shuffle(
    "shfl_xor_sync", "The value of lane `laneid ^ lane_mask`, taken modulo 32.", "lane_mask"
)


def _warp_vote(name: str, summary: str, typing: Typing) -> Intrinsic:
    return Intrinsic(
        name,
        f"{summary} All lanes of `mask` must call it together, and `mask` must name the calling "
        "lane.",
        typing,
        ("mask", "predicate"),
        Scope.WARP,
        Effect.BARRIER,
        Scope.WARP,
    )


ballot_sync = _warp_vote(
    "ballot_sync", "The lanes of `mask` whose predicate is not zero, as a mask.", Typing.BALLOT
)
all_sync = _warp_vote(
    "all_sync", "Whether the predicate of every lane of `mask` is not zero.", Typing.WARP_VOTE
)
any_sync = _warp_vote(
    "any_sync", "Whether the predicate of any lane of `mask` is not zero.", Typing.WARP_VOTE
)
popc = Intrinsic("popc", "The number of bits of `value` that are 1.", Typing.BITS, ("value",))
threadfence = Intrinsic(
    "threadfence",
    "Order this thread's memory accesses as every thread of the device sees them.",
    Typing.NOTHING,
    effect=Effect.FENCE,
)
threadfence_block = Intrinsic(
    "threadfence_block",
    "Order this thread's memory accesses as the threads of its block see them.",
    Typing.NOTHING,
    effect=Effect.FENCE,
)
threadfence_system = Intrinsic(
    "threadfence_system",
    "Order this thread's memory accesses as every thread of every device and the host sees them.",
    Typing.NOTHING,
    effect=Effect.FENCE,
)

shared = IntrinsicGroup(
    "shared",
    {
        "array": Intrinsic(
            "shared.array",
            "An array that the threads of one block share; its contents start undefined. Shape 0 "
            "is the dynamic shared memory whose size the launch gives.",
            Typing.ARRAY,
            ("shape", "dtype"),
            Scope.BLOCK,
            effect=Effect.ALLOCATE_SHARED,
            static=("shape", "dtype"),
        )
    },
)
local = IntrinsicGroup(
    "local",
    {
        "array": Intrinsic(
            "local.array",
            "An array of this thread's own; its contents start undefined.",
            Typing.ARRAY,
            ("shape", "dtype"),
            Scope.THREAD,
            effect=Effect.ALLOCATE_LOCAL,
            static=("shape", "dtype"),
        )
    },
)
atomic = IntrinsicGroup(
    "atomic",
    {
        "add": _atomic("add", "Add `value` to an element.", ATOMIC_ARITHMETIC),
        "sub": _atomic("sub", "Subtract `value` from an element.", ATOMIC_ARITHMETIC),
        "max": _atomic(
            "max",
            "Replace an element by the larger of itself and `value`; a NaN yields to a number.",
            ATOMIC_ARITHMETIC,
        ),
        "min": _atomic(
            "min",
            "Replace an element by the smaller of itself and `value`; a NaN yields to a number.",
            ATOMIC_ARITHMETIC,
        ),
        "exch": _atomic("exch", "Replace an element by `value`.", ATOMIC_ARITHMETIC),
        "cas": Intrinsic(
            "atomic.cas",
            "Replace an element by `value` if it equals `expected` (floats are compared as bits). "
            "Returns the element's old value.",
            Typing.ATOMIC_CAS,
            ("array", "index", "expected", "value"),
            Scope.THREAD,
            Effect.ATOMIC,
            dtypes=ATOMIC_ARITHMETIC,
        ),
        "and_": _atomic(
            "and_", "Replace an element by its bitwise and with `value`.", ATOMIC_BITWISE
        ),
        "or_": _atomic("or_", "Replace an element by its bitwise or with `value`.", ATOMIC_BITWISE),
        "xor": _atomic(
            "xor", "Replace an element by its bitwise xor with `value`.", ATOMIC_BITWISE
        ),
        "inc": _atomic(
            "inc", "Replace an element e by 0 if e >= value, else by e + 1.", ATOMIC_WRAPPING
        ),
        "dec": _atomic(
            "dec",
            "Replace an element e by value if e == 0 or e > value, else by e - 1.",
            ATOMIC_WRAPPING,
        ),
    },
)
uniform = Intrinsic(
    "uniform",
    "Promise that the value is the same in every thread of the block.",
    Typing.VALUE,
    ("value",),
    Scope.BLOCK,
)


def _table() -> dict[str, Intrinsic]:
    single = (
        grid,
        gridsize,
        laneid,
        warpsize,
        syncthreads,
        syncthreads_count,
        syncthreads_and,
        syncthreads_or,
        syncwarp,
        shfl_sync,
        shfl_up_sync,
        shfl_down_sync,
        shfl_xor_sync,
        ballot_sync,
        all_sync,
        any_sync,
        popc,
        threadfence,
        threadfence_block,
        threadfence_system,
        uniform,
    )
    table = {i.name: i for i in single}
    for group in (threadIdx, blockIdx, blockDim, gridDim, shared, local, atomic):
        for member in dir(group):
            intrinsic = getattr(group, member)
            table[intrinsic.name] = intrinsic
    return table


#: Every intrinsic by its dotted name.
INTRINSICS: dict[str, Intrinsic] = _table()
