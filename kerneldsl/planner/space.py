"""A space of compile-time parameters: the blocks and tiles that a kernel may be launched with.

A kernel that uses its block is written for certain blocks. `Space` lists them, with values of the
kernel's keyword-only parameters. A condition restricts the members. Functions of a member return
the shared memory of a block and the indices that a block computes. The planner takes the best
member for a launch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kerneldsl.contract import Device, Dim3
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.kernels import wrong_type
from kerneldsl.errors.values import safe_repr
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.shown import Shown
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = ["Member", "Space"]

#: Members of one space; each that is tried is compiled.
_MAX_MEMBERS = 4096
_VALUES = (bool, int, float, str)


@dataclass(frozen=True, slots=True)
class Member(Shown):
    """One choice of all parameters of a space. Parameters are its attributes: ``member.tile``.

    Parameters
    ----------
    block_dim : tuple of int
        Threads of a block along x, y and z.
    values : tuple of (str, object)
        Names and values of the parameters; the block is among them as it was declared.
    """

    block_dim: Dim3
    values: tuple[tuple[str, Any], ...]

    @property
    def block_threads(self) -> int:
        """Threads of a block."""
        return math.prod(self.block_dim)

    def __getattr__(self, name: str) -> Any:
        for known, value in self.values:
            if known == name:
                return value
        raise AttributeError(
            f"a member of this space has no {name!r}; it has "
            + ", ".join(name for name, _ in self.values)
        )

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.values)


#: Names that a parameter cannot have, since `member.name` would be something else.
_MEMBER_NAMES = frozenset(dir(Member))


class Space(Shown):
    """The blocks, and the values of compile-time parameters, that a kernel may be launched with.

    Parameters
    ----------
    block : sequence of int or of tuple of int
        The blocks, x first.
    where : callable, optional
        Takes a member and returns whether to keep it: ``lambda c: c.block * c.tile <= 4096``.
    shared : callable, optional
        Takes a member and returns the dynamic shared memory of a block, in bytes.
    covers : callable, optional
        Takes a member and returns the indices of ``forall``'s extent that a block computes, along
        x, y and z. By default one for each of its threads.
    first : callable, optional
        Takes a member and returns whether launches may use it before they are tuned:
        ``lambda c: c.block == 16 * c.tile``. By default all; the planner takes the best of them.
    **parameters
        A sequence of values for each keyword-only parameter of the kernel: numbers, bools or
        strings. In the kernel they are constants. A parameter named ``block`` gets the block.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If an argument has another form, the space is empty, or a parameter has the name of an
        attribute of members.

    Examples
    --------
    >>> space = Space(block=[64, 128, 256], tile=[1, 2], where=lambda c: c.block * c.tile <= 256)
    >>> len(space)
    5
    >>> print(space.members[0])
    block=64, tile=1
    """

    @shorten_errors
    def __init__(
        self,
        *,
        block: Sequence[int | tuple[int, ...]] | None = None,
        where: Callable[[Member], bool] | None = None,
        shared: Callable[[Member], int] | None = None,
        covers: Callable[[Member], int | tuple[int, ...]] | None = None,
        first: Callable[[Member], bool] | None = None,
        **parameters: Sequence[Any],
    ) -> None:
        if block is None:
            raise ArgumentValueError(
                "the space has no block",
                value=block,
                limit="Each member has a block",
                remedy="Write kd.Space(block=[64, 128, 256], …)",
            )
        taken = [name for name in parameters if name in _MEMBER_NAMES]
        if taken:
            raise ArgumentValueError(
                f"the space has the parameter {taken[0]!r}",
                value=taken[0],
                limit="A member has an attribute of that name already: "
                + ", ".join(name for name in sorted(_MEMBER_NAMES) if not name.startswith("_")),
                remedy="Give it another name, here and in the kernel",
            )
        given = {"where": where, "shared": shared, "covers": covers, "first": first}
        for name, function in given.items():
            if function is not None and not callable(function):
                raise wrong_type(
                    name, function, "It must be a function of a member", f"Write {name}=lambda c: …"
                )
        self._shared = shared
        self._covers = covers
        self._first = first
        self.parameters: Mapping[str, tuple[Any, ...]] = {
            "block": tuple(_read_values("block", block)),
            **{name: tuple(_read_values(name, values)) for name, values in parameters.items()},
        }
        count = math.prod(map(len, self.parameters.values()))
        if count > _MAX_MEMBERS:
            raise ArgumentValueError(
                f"the space has {count} members before any condition",
                value=count,
                limit=f"It can have at most {_MAX_MEMBERS}",
                remedy="Give fewer values; powers of two are mostly enough",
            )
        self.members = tuple(self._make_members(where))
        if not self.members:
            raise ArgumentValueError(
                "the space is empty: where= holds for no member",
                limit="A space has at least one member",
                remedy="Give more values, or a weaker condition",
            )

    def _make_members(self, where: Callable[[Member], bool] | None) -> Iterator[Member]:
        for values in itertools.product(*self.parameters.values()):
            named = tuple(zip(self.parameters, values, strict=True))
            member = Member(_read_block(values[0]), named)
            if where is None or where(member):
                yield member

    @cached_property
    def tiles(self) -> tuple[Dim3, ...]:
        """The distinct numbers of indices that blocks of the members compute."""
        return tuple(dict.fromkeys(map(self.tile, self.members)))

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={list(values)}" for name, values in self.parameters.items())
        return f"<space of {len(self)}: {inner}>"

    def shared_bytes(self, member: Member) -> int:
        """Return the dynamic shared memory of a block, in bytes.

        Raises
        ------
        ArgumentValueError
            If ``shared=`` does not return an int >= 0.
        """
        found = 0 if self._shared is None else self._shared(member)
        if not isinstance(found, int) or isinstance(found, bool) or found < 0:
            raise ArgumentValueError(
                f"shared= gives {safe_repr(found)} for {member}",
                value=found,
                limit="Bytes of shared memory are an int, 0 or more",
            )
        return found

    def tile(self, member: Member) -> Dim3:
        """Return the indices that a block computes along x, y and z.

        Raises
        ------
        ArgumentValueError
            If ``covers=`` does not return ints >= 1.
        """
        if self._covers is None:
            return member.block_dim
        found = self._covers(member)
        dim3 = _as_dim3(found)
        if dim3 is None:
            raise ArgumentValueError(
                f"covers= gives {safe_repr(found)} for {member}",
                value=found,
                limit="The indices that a block serves are 1 to 3 ints, 1 or more",
            )
        return dim3

    def is_first(self, member: Member) -> bool:
        """Return whether launches may use a member before they are tuned."""
        return self._first is None or bool(self._first(member))

    def first(self) -> Space:
        """Return the space of the members for untuned launches; all members if there are none."""
        members = [member for member in self.members if self.is_first(member)]
        return self if len(members) in (0, len(self)) else self.subset(members)

    def first_for(self, device: Device, extent: tuple[int, ...], dtypes: Sequence[str]) -> Space:
        """Return the space of the members for an untuned launch, such as the best for its arrays.

        Parameters
        ----------
        device : Device
            The device of the launch.
        extent : tuple of int
            The extent of ``forall``.
        dtypes : sequence of str
            The dtypes of the arrays that are passed.
        """
        return self.first()

    def expected_for(
        self, device: Device, extent: tuple[int, ...], dtypes: Sequence[str]
    ) -> Mapping[Member, float]:
        """Return relative times of all members, if more is known than the cost model knows.

        The parameters are those of :meth:`first_for`. By default, nothing is known.
        """
        return {}

    def subset(self, members: Iterable[Member]) -> Space:
        """Return the space of some of the members."""
        made = object.__new__(Space)
        made._shared, made._covers, made._first = self._shared, self._covers, self._first
        made.members = tuple(members)
        made.parameters = {
            name: tuple(dict.fromkeys(getattr(member, name) for member in made.members))
            for name in self.parameters
        }
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for pickling, with the functions replaced by their values."""
        return {
            **self.__dict__,
            "_shared": {each: self.shared_bytes(each) for each in self.members}.__getitem__,
            "_covers": {each: self.tile(each) for each in self.members}.__getitem__,
            "_first": {each: self.is_first(each) for each in self.members}.__getitem__,
        }

    def matching(self, **wanted: Any) -> tuple[Member, ...]:
        """Return the members with these values; the block may be an int or a tuple.

        Raises
        ------
        ArgumentValueError
            If there are no such members; the message lists the parameters.

        Examples
        --------
        >>> space = Space(block=[64, 128], tile=[1, 2])
        >>> [str(member) for member in space.matching(block=64)]
        ['block=64, tile=1', 'block=64, tile=2']
        """
        unknown = [name for name in wanted if name not in self.parameters]
        values, block_dim = dict(wanted), _as_dim3(wanted.get("block"))
        if block_dim is not None:
            del values["block"]
        found = tuple(
            member
            for member in self.members
            if not unknown
            and block_dim in (None, member.block_dim)
            and all(_is_same(getattr(member, name), value) for name, value in values.items())
        )
        if not found:
            listed = "; ".join(f"{name} {list(v)}" for name, v in self.parameters.items())
            raise ArgumentValueError(
                "the space has no member with "
                + ", ".join(f"{name}={safe_repr(value)}" for name, value in wanted.items()),
                value=wanted,
                limit=f"It has {listed}, restricted by where=",
            )
        return found


def _is_same(known: Any, wanted: Any) -> bool:
    try:
        return bool(known == wanted)
    except Exception:  # noqa: BLE001 -- a foreign object may raise anything
        return False


def _read_values(name: str, values: Any) -> Iterator[Any]:
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise wrong_type(
            name,
            values,
            "Each parameter of a space has a sequence of values, at least one",
            f"Write {name}=[{safe_repr(values)}]" if isinstance(values, _VALUES) else None,
        )
    seen: list[Any] = []
    for value in values:
        if len(seen) == _MAX_MEMBERS:
            raise ArgumentValueError(
                f"{name} has more than {_MAX_MEMBERS} values",
                value=values,
                limit=f"A space has {_MAX_MEMBERS} members at most",
                remedy="Give fewer values; powers of two are mostly enough",
            )
        parts = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(part, _VALUES) for part in parts):
            raise ArgumentTypeError(
                f"{name} has the value {safe_repr(value)}",
                value=value,
                limit="Values are numbers, bools, strings, or tuples of them: a kernel sees them "
                "as constants",
            )
        if value in seen:
            raise ArgumentValueError(
                f"{name} has the value {safe_repr(value)} twice", value=value, remedy="Give it once"
            )
        seen.append(value)
        yield value


def _read_block(value: Any) -> Dim3:
    found = _as_dim3(value)
    if found is None:
        raise ArgumentValueError(
            f"block has the value {safe_repr(value)}",
            value=value,
            limit="A block must be an int or a tuple of 1 to 3 ints, 1 or more",
        )
    return found


def _as_dim3(value: Any) -> Dim3 | None:
    parts = value if isinstance(value, tuple) else (value,)
    if not 1 <= len(parts) <= 3 or any(type(n) is not int or not 1 <= n < 2**63 for n in parts):
        return None
    x, y, z = (*parts, 1, 1)[:3]
    return x, y, z
