"""Launches of functions of the region IR on NumPy arrays."""

from __future__ import annotations

from typing import Any

from numba import types

from kerneldsl.ir.operations import Function
from tests.support.regions.numbers import constant
from tests.support.regions.translation import Watch, translate
from tests.support.simt import Launch

__all__ = ["run"]


def run(
    function: Function, launch: Launch, args: tuple[Any, ...], watch: Watch | None = None
) -> None:
    """Run a function for each thread of a launch, on arrays in place."""
    body = translate(function, watch)
    kinds = [value.type for value in function.body.arguments]
    if watch is not None:
        watch.begin()
    given = [_argument(value, kind) for value, kind in zip(args, kinds, strict=True)]
    launch.run(lambda thread: body(thread, *given))


def _argument(value: Any, kind: Any) -> Any:
    if isinstance(kind, types.Number | types.Boolean):
        return constant(value, kind)
    return value
