"""Declare the indices of a thread in its block, grid and warp, and their sizes."""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Dim3, Intrinsic, Scope, Typing

__all__ = ["blockDim", "blockIdx", "grid", "gridDim", "gridsize", "laneid", "threadIdx", "warpsize"]


def _dim3(name: str, summary: str, uniform_in: Scope) -> Dim3:
    members = {
        axis: Intrinsic(f"{name}.{axis}", f"{summary} along {axis}.", Typing.INDEX, (), uniform_in)
        for axis in "xyz"
    }
    return Dim3(name, members)


threadIdx = _dim3("threadIdx", "Index of this thread in its block", Scope.THREAD)
blockIdx = _dim3("blockIdx", "Index of this block in the grid", Scope.BLOCK)
blockDim = _dim3("blockDim", "Number of threads of a block", Scope.GRID)
gridDim = _dim3("gridDim", "Number of blocks of the grid", Scope.GRID)

grid = Intrinsic(
    "grid",
    "Return the index of this thread in the grid, `blockIdx * blockDim + threadIdx`, x first. "
    "Under forall, return the index in the extent, in the order of its axes.",
    Typing.INDEX_TUPLE,
    ("ndim",),
    Scope.THREAD,
    static=("ndim",),
)
gridsize = Intrinsic(
    "gridsize",
    "Return the number of threads of the grid, `gridDim * blockDim`, x first. Under forall, "
    "return the extent.",
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
