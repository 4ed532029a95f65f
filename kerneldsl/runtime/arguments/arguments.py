"""The arguments of a launch: read, checked, and compared with each other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from kerneldsl.errors import ArgumentError, ReadOnlyArrayError
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.runtime.arguments.binding import Binding, Refused, kinds_of, positions_of
from kerneldsl.runtime.arguments.readers import READERS, find_reader
from kerneldsl.runtime.memory.transfer import byte_bounds

__all__ = ["bind", "check_writable", "overlap"]


def bind(names: tuple[str, ...], args: tuple[Any, ...]) -> Binding:
    """Read the arguments of a launch; there must be as many as names.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If one of them cannot be passed to a kernel.
    DeviceMismatchError
        If they live on two devices.
    """
    binding = Binding()
    codes: list[int] = []
    try:
        for value in args:
            codes.append((READERS.get(value.__class__) or find_reader(value))(value, binding))
    except Refused as refused:
        position = len(codes)
        raise _explain(refused, names[position], position, args) from refused.__cause__
    binding.codes = tuple(codes)
    return binding


def _explain(refused: Refused, name: str, position: int, args: tuple[Any, ...]) -> ArgumentError:
    return refused.kind(
        f"parameter {name + refused.path!r} (argument {position + 1} of {len(args)}): "
        f"{refused.what}",
        value=args[position],
        limit=refused.limit,
        remedy=refused.remedy,
    )


def check_writable(
    binding: Binding, names: tuple[str, ...], args: tuple[Any, ...], written: frozenset[int]
) -> None:
    """Refuse read-only arrays among the arguments that the kernel writes.

    Raises
    ------
    ReadOnlyArrayError
        Naming the first of them.
    """
    positions = positions_of(binding)
    for index in binding.read_only:
        position = positions[index]
        if position in written:
            raise ReadOnlyArrayError(
                f"parameter {names[position]!r} (argument {position + 1} of {len(args)}) is "
                "written by the kernel, and the array is read-only",
                value=args[position],
                remedy="Pass a writable array, such as a copy",
            )


def overlap(args: tuple[Any, ...], written: frozenset[int]) -> bool:
    """Whether two array arguments share memory, one of which the kernel writes."""
    ranges: list[tuple[int, int, bool]] = []
    for position, value in enumerate(args):
        for leaf in _leaves(value):
            low, high = _memory_range(leaf)
            if low < high:
                ranges.append((low, high, position in written))
    return any(
        (a[2] or b[2]) and a[0] < b[1] and b[0] < a[1]
        for i, a in enumerate(ranges)
        for b in ranges[:i]
    )


def _memory_range(value: Any) -> tuple[int, int]:
    """First and past-the-last address; two equal ones for an empty array or a scalar."""
    binding = Binding()
    reader = READERS.get(value.__class__) or find_reader(value)
    (kind,) = kinds_of((reader(value, binding),))
    if not isinstance(kind, ArrayKind):
        return 0, 0
    pointer, *rest = binding.values
    itemsize = kind.element.nbytes
    shape = tuple(rest[: kind.ndim])
    if kind.layout == "A":
        return byte_bounds(pointer, shape, tuple(rest[kind.ndim :]), itemsize)
    return pointer, pointer + itemsize * math.prod(shape)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for element in value:
            yield from _leaves(element)
    else:
        yield value
