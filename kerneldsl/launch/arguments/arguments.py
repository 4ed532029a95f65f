"""The arguments of a launch: read, checked, and compared with each other."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from kerneldsl.errors import ArgumentError, ReadOnlyArrayError
from kerneldsl.launch.arguments.binding import Binding, Refused
from kerneldsl.launch.arguments.readers import READERS, find_reader

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
    binding.codes = binding.given = tuple(codes)
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
    for array in binding.arrays:
        position = array.position
        if position in written and array.pointer in binding.read_only:
            raise ReadOnlyArrayError(
                f"parameter {names[position]!r} (argument {position + 1} of {len(args)}) is "
                "written by the kernel, and the array is read-only",
                value=args[position],
                remedy="Pass a writable array, such as a copy",
            )


def overlap(binding: Binding, written: frozenset[int]) -> bool:
    """Return whether an array argument that the kernel writes shares memory with another."""
    ranges = [(*each.byte_range(), each.position in written) for each in binding.passed_arrays()]
    return any(
        (a[2] or b[2]) and max(a[0], b[0]) < min(a[1], b[1]) for a, b in combinations(ranges, 2)
    )
