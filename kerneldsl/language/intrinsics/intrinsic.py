"""The vocabulary of a kernel, as data: each intrinsic once.

An :class:`Intrinsic` has the name and the meaning of an operation, its uniformity, its effects on
memory and control, and its typing. It does not contain an implementation: each target has a table
of lowerings by :attr:`Intrinsic.name`, and a test checks that it is complete.

The names are ``numba.cuda``'s, the terms those of the CUDA Programming Guide. Calling an intrinsic
from plain Python is an error, except for a few that compute with numbers alone.

References
----------
CUDA C++ Programming Guide, sections "Built-in Variables", "Synchronization Functions", "Memory
Fence Functions" and "Atomic Functions".
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from kerneldsl.errors import OutsideKernelError
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.tracebacks import shorten_errors

if TYPE_CHECKING:
    from kerneldsl.language.intrinsics.tiles import TileForm

__all__ = [
    "ARRAY_ACCESS",
    "BLOCK_LEVEL",
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
    READ = enum.auto()
    """Reads elements of the array that is its first argument."""
    WRITE = enum.auto()
    """Writes elements of the array that is its first argument."""


#: Effects on the array that is the first argument.
ARRAY_ACCESS = Effect.ATOMIC | Effect.READ | Effect.WRITE
#: Effects that make a kernel a block kernel.
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
    """Arguments as in BALLOT; the result is one truth value for the lanes of the mask."""
    TRUTH = "(predicate) -> bool"
    """Arguments as in VOTE; the result is a truth value."""
    SUM = "(x) -> type of x, or 32 bits"
    """`x` is a number; smaller integers and booleans are converted to int32 or uint32."""
    SCAN = "(x, op, …) -> type of x, or 32 bits"
    """`x` as in SUM; with an `op` that is a function and not ``None`` as in REDUCE. What follows is
    converted to the type of the result, or ``None``."""
    REDUCE = "(x, op) -> type of x"
    """`x` is a number; the function `op` is called with two of that type, and what it returns is
    converted to it."""
    CHAIN_NEXT = "(state) -> int64"
    """`state` is an array of 64-bit integers, of one dimension and contiguous."""
    CHAIN = "(state, part, value, op, …) -> type of value, or 32 bits"
    """`state` as in CHAIN_NEXT, `part` is converted to int64; the others are as in SCAN."""
    CHAIN_PUBLISH = "(state, part, value, op) -> None"
    """Arguments as in CHAIN."""
    EXCHANGE = "(x, source) -> type of x"
    """`x` is a number, and `source` is converted to int32."""
    SORT = "(keys, values) -> type of keys, or a tuple of both types"
    """`keys` is a real number, no truth value; `values` is a number or ``None``."""
    EXTREME = "(x) -> type of x"
    """`x` is a real number, no truth value."""
    LANE_MASK = "() -> uint32"
    """The bits are lanes."""
    MATCH_ANY = "(mask, value) -> int32"
    """`mask` and `value` as in SHUFFLE; the result is a mask."""
    MATCH_ALL = "(mask, value) -> (int32, bool)"
    """Arguments as in MATCH_ANY; the result has a truth value, too."""
    REDUCTION = "(mask, value) -> type of value"
    """`mask` and `value` as in SHUFFLE."""
    INTEGER_REDUCTION = "(mask, value) -> type of an integer value"
    """Arguments as in REDUCTION; `value` is an integer or boolean."""
    BITS = "(value) -> type of value"
    """`value` is an integer."""
    BIT_STRING = "(value) -> uint32 or uint64"
    """`value` is an integer, converted to the unsigned one of its width, of 32 bits at least."""
    BIT_POSITION = "(value) -> uint32"
    """`value` is an integer."""
    WORDS = "(value, …) -> uint32"
    """Each is an integer, converted to uint32."""
    WIDE_INTEGERS = "(a, b, …) -> type of a and b"
    """`a` and `b` are integers of one type, of 32 or 64 bits; what follows is converted to it."""
    DOT = "(a, b, c) -> int32 or uint32"
    """`a` and `b` are int32 or uint32; the result is uint32 where both are, and `c`, an integer, is
    converted to it."""
    FLOATS = "(value, …) -> float32 or float64"
    """All are converted to float64 if one of them is a float64 or an integer, else to float32."""
    DECLARED = "(…) -> what the intrinsic declares"
    """Each argument is converted to the dtype that is declared for it; integers are given where
    integers are declared, and real numbers where floats are. Several results are a tuple."""
    INLINE = "(…) -> the dtypes of the constant `out`"
    """Any number of numbers, which keep their types."""
    LINKED = "(value, …) -> the constant `dtype`"
    """`value` is converted to it as in DECLARED; what follows keeps its type."""
    LINKED_ARRAY = "(array) -> none"
    """`array` has layout "C", and the constants `dtype` and `ndim`."""
    CHOICE = "(condition, a, b) -> type of a and b"
    """`condition` is a boolean or integer; `a` and `b` are numbers of one type."""
    CAST = "(value, dtype) -> dtype"
    """`value` and the constant `dtype` are integers or floats of as many bits as each other."""
    ARRAY = "(shape, dtype) -> array"
    """`shape` is a constant int or tuple of 1-3 ints, `dtype` a constant dtype; C layout."""
    ATOMIC = "(array, index, value) -> element"
    """`value` is converted to the element type; the old element is returned."""
    ATOMIC_CAS = "(array, index, expected, value) -> element"
    """Arguments as in ATOMIC; the element is replaced if it equals `expected`."""
    ATOMIC_LOAD = "(array, index) -> element"
    """The element is returned."""
    ATOMIC_STORE = "(array, index, value) -> none"
    """`value` is converted to the element type."""
    ELEMENT = "(array, index) -> element, or (array, index, value) -> none"
    """The front end reads the first two as `array[index]`, and a store as an assignment. The call
    is around the element that is read, or the value, and passes it on."""
    CONSTANT = "(constant) -> constant"
    """The front end puts the argument, which is captured, in the place of the call."""
    VALUE = "(value) -> same type"
    """Passes its argument on."""
    PACKED = "(words, numbers) -> array of the numbers"
    """`words` is an array of integers, and the constant `numbers` a name of `PACKED_NUMBERS`."""
    UNPACK = "(word, numbers) -> tuple of int32 or uint32"
    """`word` is an int32 or uint32, `numbers` as in PACKED."""
    VECTOR = "(x, y, …) -> vector"
    """The name is a vector's; each number is converted to the type of its numbers."""
    VIEW = "(array, dtype) -> array of vectors"
    """`array` has layout "C", and elements of the type that the constant `dtype` is made of."""
    TILE = "of tiles and numbers"
    """Each operation has a separate rule, in :mod:`kerneldsl.ir.rules.tiles`."""
    LOOP = "(…) -> what a loop runs over"
    """The front end makes a loop of it (:mod:`kerneldsl.ir.frontend.block_loops`)."""


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """One operation of the language.

    Parameters
    ----------
    name : str
        Dotted name below ``kerneldsl``, such as ``"atomic.add"`` or ``"threadIdx.x"``.
    summary : str
        Its meaning: one sentence that begins with a verb, or a noun for a value that is read.
    typing : Typing
        Rule by which a target types it.
    parameters : tuple of str
        Names of the parameters, in order.
    uniform_in : Scope or None
        The largest scope in which every thread gets the same result for any arguments; ``None``
        for a result that is as uniform as the arguments.
    effect : Effect
        Its side effects.
    scope : Scope
        Of a barrier: the threads that wait for each other.
    dtypes : tuple of str
        Dtypes of the array's elements or of the value; empty if they are not restricted.
    static : tuple of str
        Parameters that must be constants when the kernel is compiled.
    defaults : dict
        Values of parameters that may be left out.
    functions : tuple of str
        Parameters that are device functions, which must be known when the kernel is compiled.
    shared_bytes : int
        Shared memory that the threads of a block exchange values in, in bytes. All such
        operations of a kernel use the same memory.
    argument_dtypes, result_dtypes : tuple of str
        Of :attr:`Typing.DECLARED`: the dtype of each parameter and of each result.
    instead : str
        What to write for a target without such an operation.
    choices : dict
        The values that a constant parameter takes.
    below : dict
        Exclusive upper bounds of constant parameters that are indices of threads.
    on_host : callable, optional
        The same operation on the host, if there is one.
    form : TileForm, optional
        Of an operation on tiles: its form.
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
    functions: tuple[str, ...] = ()
    shared_bytes: int = 0
    argument_dtypes: tuple[str, ...] = ()
    result_dtypes: tuple[str, ...] = ()
    instead: str = ""
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    below: dict[str, int] = field(default_factory=dict)
    on_host: Callable[..., Any] | None = None
    form: TileForm | None = None

    @property
    def tile(self) -> TileForm:
        """The form of an operation on tiles."""
        assert self.form is not None
        return self.form

    @property
    def is_barrier(self) -> bool:
        """True if threads wait for each other in it."""
        return Effect.BARRIER in self.effect

    def synchronizes(self, scope: Scope) -> bool:
        """Return whether it is a barrier that every thread of a scope must reach."""
        return self.is_barrier and self.scope >= scope

    def orders_memory(self, scope: Scope) -> bool:
        """Return whether threads of a scope see earlier writes after it.

        Between blocks, a chain orders only the values it is given.
        """
        return self.synchronizes(scope) and (scope < Scope.GRID or Effect.FENCE in self.effect)

    @property
    def is_of_block(self) -> bool:
        """True if the threads of a block do it together, with the same arguments."""
        if self.typing is Typing.TILE:
            return self.is_barrier and self.name != "tile.of"
        return self.is_of_chain

    @property
    def is_of_chain(self) -> bool:
        """True if it is a step of a chain of blocks."""
        return self.typing in (Typing.CHAIN_NEXT, Typing.CHAIN, Typing.CHAIN_PUBLISH)

    @property
    def is_view(self) -> bool:
        """True if its result is its first argument, or a view of that memory."""
        return self.typing in (Typing.VALUE, Typing.ELEMENT, Typing.PACKED, Typing.VIEW)

    @property
    def is_index(self) -> bool:
        """True if it is a coordinate or a size, which always differs outside of its scope."""
        return self.typing in (Typing.INDEX, Typing.INDEX_TUPLE)

    @property
    def is_of_lane(self) -> bool:
        """True if it is the place of the thread in its warp, which needs blocks."""
        return self.name == "laneid" or self.typing is Typing.LANE_MASK

    @property
    def symbol(self) -> str:
        """The name as one identifier: ``threadIdx_x`` for ``threadIdx.x``."""
        return self.name.replace(".", "_")

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        from kerneldsl.language.intrinsics.examples import example_of

        signature = f"{self.name}({', '.join(self.parameters)})"
        parts = [signature if self.parameters else self.name, self.summary]
        if self.dtypes:
            parts.append(f"Element dtypes: {', '.join(self.dtypes)}.")
        example = example_of(self.name)
        if example is not None:
            parts.append(f"Examples\n--------\n{example}")
        return "\n\n".join(parts)

    @shorten_errors
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do the operation on the host, or raise: most intrinsics need a kernel."""
        if self.on_host is not None:
            return self.on_host(*args, **kwargs)
        self._refuse()

    def _refuse(self) -> NoReturn:
        is_read = self.is_index and not self.parameters
        raise OutsideKernelError(
            f"kerneldsl.{self.name} was used outside a kernel",
            value=self.name,
            limit="It works only in functions decorated with @kd.kernel or @kd.func",
            remedy=f"{'Read it in' if is_read else 'Call it from'} a kernel, and launch that with "
            "kernel.forall(n)(…) or kernel[grid, block](…)",
        )

    def __repr__(self) -> str:
        return f"kerneldsl.{self.name}"

    @shorten_errors
    def _compute(self, *_operands: Any) -> NoReturn:
        """Refuse arithmetic: an intrinsic has no value outside a kernel."""
        self._refuse()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _compute
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _compute
    __pow__ = __rpow__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _compute
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _compute
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __pos__ = __abs__ = __invert__ = _compute
    __int__ = __float__ = __index__ = _compute


class IntrinsicGroup:
    """A namespace of intrinsics, such as ``kd.atomic``."""

    def __init__(self, name: str, members: dict[str, Intrinsic]) -> None:
        self._name = name
        self._members = members
        self.__doc__ = f"Intrinsics of ``kd.{name}``: {', '.join(members)}."

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


class Dim3Values(NamedTuple):
    """The members of such a group as a value in a kernel: a tuple, with names."""

    x: int
    y: int
    z: int
