"""Reasons why neighbouring threads access elements that are far apart, and remedies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kerneldsl.explain.accesses import AccessReport
from kerneldsl.explain.requests import WARP_LANES
from kerneldsl.explain.symbols import Expression, neighbour_stride

__all__ = ["Reason", "reason_of"]

_STAGE = "stage a tile in shared memory"


class Reason(NamedTuple):
    """Reason why a request touches more sectors than it needs, and what to write instead."""

    why: str
    remedy: str


def reason_of(access: AccessReport) -> Reason:
    """Return why a request of global memory touches more sectors than it needs."""
    if access.is_tile:
        return Reason(
            "each thread takes neighbours of the tile one by one",
            "Take long rows as tiles of one axis: neighbours are then one access",
        )
    if access.certainty == "estimate":
        return Reason(
            "data decides where neighbouring threads access it",
            "Sort or group the indices, or gather through shared memory",
        )
    if access.record_bytes and access.stride in (-1, 0, 1):
        return _of_field(access)
    apart = "neighbouring threads are not equally far apart"
    if access.stride is not None:
        apart = f"neighbouring threads are {access.stride} elements apart"
    steps = [neighbour_stride(each) for each in access.index]
    moving = [(axis, step) for axis, step in enumerate(steps) if step != 0]
    axis, step = moving[0] if moving else (0, None)
    if len(moving) != 1 or step is None or len(steps) != len(access.axis_bytes):
        return Reason(apart, f"Let neighbouring threads access neighbouring elements, or {_STAGE}")
    nearest = _nearest(access.axis_bytes)
    if nearest is not None and access.axis_bytes[nearest] < access.axis_bytes[axis]:
        name = _name(nearest, len(steps))
        return Reason(apart, f"Let threadIdx.x run along the array's {name}, or {_STAGE}")
    if step not in (-1, 1):
        far: Expression = -step if step.could_extract_minus_sign() else step
        return Reason(
            apart,
            f"Put elements that are {far} apart side by side, at [k, i] instead of [{far}*i + k], "
            "or read all of the block's in order into shared memory",
        )
    if access.axis_bytes[axis] > max(access.itemsize, access.record_bytes):
        name = _name(axis, len(steps))
        return Reason(
            f"the array's elements lie {access.axis_bytes[axis]} bytes apart along its {name}",
            "Pass a contiguous array, such as np.ascontiguousarray(…) makes of a view",
        )
    lanes = access.threads / access.requests
    if access.stride is None and lanes < WARP_LANES:
        return Reason(
            f"{lanes:.3g} of a warp's {WARP_LANES} lanes are at work, with elements between theirs "
            "that are not asked for",
            "Put what is accessed side by side, and let neighbouring threads do it",
        )
    return Reason(
        "a warp accesses short parts of several rows",
        f"Make the block's rows along threadIdx.x longer, {WARP_LANES} threads or more",
    )


def _of_field(access: AccessReport) -> Reason:
    """Return the reason of a field, of which neighbours lie a record apart, or of a record."""
    if access.itemsize == access.record_bytes:
        return Reason(
            f"a record's {access.itemsize} bytes are copied one by one",
            "Copy the fields that are needed, of a dtype with align=True or each in an array of "
            "its own",
        )
    why = f"the field is {access.itemsize} of a record's {access.record_bytes} bytes"
    remedy = "Keep the field in an array of its own, where neighbours lie side by side"
    if access.is_bytewise:
        why += ", requested byte by byte since the dtype is packed"
        remedy += ", or at least declare the dtype with align=True"
    return Reason(why, remedy)


def _nearest(axis_bytes: Sequence[int]) -> int | None:
    """Return the axis along which neighbours are nearest, among those with several elements."""
    axes = [axis for axis, nbytes in enumerate(axis_bytes) if nbytes]
    return min(axes, key=lambda axis: abs(axis_bytes[axis]), default=None)


def _name(axis: int, ndim: int) -> str:
    if axis == ndim - 1:
        return "last axis"
    return "first axis" if axis == 0 else f"axis {axis}"
