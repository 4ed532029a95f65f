"""One conformance case: a kernel, how it is launched, its inputs and what must come out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.contract.abi import LaunchMode
from kerneldsl.language.element_types import element_name
from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind, TupleKind, format_signature
from kerneldsl.language.records import record_name
from kerneldsl.utilities.cached_property import cached_property
from tests.support.arrays import assert_same_bits, assert_within_ulp, poisoned
from tests.support.python_kernels import simulate, simulate_forall, unit_of

__all__ = ["Case", "CaseList", "integers_into", "kind_of", "owner_of"]

#: Makes the arguments of one launch; outputs are poisoned.
Maker = Callable[[np.random.Generator], tuple[Any, ...]]
#: From copies of the arguments to what must stand in some of them afterwards, by position.
Expectation = Callable[..., Mapping[int, np.ndarray]]


@dataclass(frozen=True)
class Case:
    """A kernel with its launch, inputs and expectation.

    Parameters
    ----------
    name : str
        ``topic.case``.
    kernel : Kernel
        What is launched.
    arguments : callable
        Makes fresh arguments.
    grid, block : tuple of int
        Of an explicit launch.
    extent : tuple of int or None
        Of a launch by ``forall``, instead.
    shared_bytes : int
        Dynamic shared memory of a block.
    expected : callable or None
        Gives the expected arrays; ``None`` asks the SIMT reference. An array argument without an
        expectation must be unchanged.
    ulp : float, or mapping of target name to float
        Bound on the error; 0 compares bits. The bound of a target that is not named is that of
        ``"cuda"``, which holds the CUDA guide's table.
    dtype : str or None
        The dtype whose support the case shows, where it is about one.
    """

    name: str
    kernel: Any
    arguments: Maker
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (32,)
    extent: tuple[int, ...] | None = None
    shared_bytes: int = 0
    expected: Expectation | None = None
    ulp: float | Mapping[str, float] = 0
    dtype: str | None = None

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of the arguments."""
        return tuple(kind_of(a) for a in self.arguments(np.random.default_rng(0)))

    @cached_property
    def signature(self) -> str:
        """The kinds in signature notation."""
        return format_signature(self.kinds)

    @property
    def mode(self) -> LaunchMode:
        """Explicit, or ``forall`` of some rank."""
        return LaunchMode(None if self.extent is None else len(self.extent))

    @property
    def block_dim(self) -> tuple[int, int, int] | None:
        """Threads of a block along x, y and z, where the code of the kernel depends on them."""
        uses = unit_of(self.kernel).uses.values()
        if Typing.TILE not in {use.intrinsic.typing for use in uses}:
            return None
        x, y, z = (*self.block, 1, 1)[:3]
        return x, y, z

    def shaped(self) -> kd.Launch:
        """The kernel with its shape."""
        if self.extent is not None:
            return self.kernel.forall(*self.extent)
        if self.shared_bytes:
            return self.kernel[self.grid, self.block, None, self.shared_bytes]
        return self.kernel[self.grid, self.block]

    def launch(self, args: tuple[Any, ...]) -> None:
        """Launch on the active target."""
        self.shaped()(*args)

    def expect(self, args: tuple[Any, ...]) -> dict[int, np.ndarray]:
        """Return what every array argument must hold after a launch with `args`."""
        after = copy_arguments(args)
        if self.expected is not None:
            given = dict(self.expected(*after))
        elif self.extent is not None:
            simulate_forall(self.kernel, self.extent, after)
            given = {}
        else:
            simulate(self.kernel, self.grid, self.block, after, self.shared_bytes)
            given = {}
        for position, value in enumerate(after):
            if isinstance(value, np.ndarray):
                given.setdefault(position, value)
        return given

    def check(self, target: str, rng: np.random.Generator) -> None:
        """Launch on a target and compare; the null target's results are not compared."""
        args = self.arguments(rng)
        expected = None if target == "null" else self.expect(args)
        with kd.use(target):
            self.launch(args)
            kd.synchronize()
        if expected is not None:
            self.compare(target, args, expected)

    def compare(
        self, target: str, args: tuple[Any, ...], expected: Mapping[int, np.ndarray]
    ) -> None:
        """Compare what a launch left in its arguments with what was expected."""
        bound = self.ulp
        if isinstance(bound, Mapping):
            bound = bound.get(target, bound["cuda"])
        for position, right in expected.items():
            label = f"{self.name} on {target}, argument {position}"
            if bound and right.dtype.kind in "fc":
                assert_within_ulp(args[position], right, bound, label)
            else:
                assert_same_bits(args[position], right, label)


@dataclass
class CaseList:
    """Collects the cases of one topic.

    Parameters
    ----------
    topic : str
        First part of each name.
    """

    topic: str
    cases: list[Case] = field(default_factory=list)

    def add(self, name: str, kernel: Any, arguments: Maker, **fields: Any) -> None:
        """Add a case; `fields` are those of :class:`Case`."""
        self.cases.append(Case(f"{self.topic}.{name}", kernel, arguments, **fields))


def integers_into(size: int, *scalars: Any) -> Maker:
    """Return a maker of small random integers, a poisoned array of int64 and given scalars."""

    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        return (rng.integers(-1000, 1000, size), poisoned(size, np.int64), *scalars)

    return make


def kind_of(value: Any) -> Kind:
    """Return the kind that a launch must find for an argument."""
    if isinstance(value, np.ndarray):
        layout = "A"
        if value.flags.c_contiguous:
            layout = "C"
        elif value.flags.f_contiguous:
            layout = "F"
        name = element_name(value.dtype)
        assert name is not None
        return ArrayKind(name, value.ndim, layout)  # type: ignore[arg-type]
    if isinstance(value, tuple):
        return TupleKind(tuple(kind_of(v) for v in value), getattr(value, "_fields", ()))
    if isinstance(value, np.void):
        return ScalarKind(record_name(value.dtype) or "")
    if isinstance(value, np.generic):
        return ScalarKind(str(value.dtype))
    names = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
    return ScalarKind(names[type(value)])


def copy_arguments(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy the arrays, with their strides' order and values; pass scalars on.

    Views of one array become views of one copy.
    """
    owners = [owner_of(a) for a in args if isinstance(a, np.ndarray)]
    shared = {id(each): each for each in owners if sum(each is o for o in owners) > 1}
    copies = {key: each.copy(order="K") for key, each in shared.items()}

    def copied(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return copy.copy(value)
        owner = owner_of(value)
        if id(owner) not in copies:
            return value.copy(order="K")
        new = copies[id(owner)]
        offset = value.ctypes.data - owner.ctypes.data
        return np.ndarray(value.shape, value.dtype, new.data, offset, value.strides)

    return tuple(map(copied, args))


def owner_of(array: np.ndarray) -> np.ndarray:
    """The array whose memory a view looks at."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
