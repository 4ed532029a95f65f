"""Movement: elements at other places, unchanged."""

from stdlib_kernels.movement.along import flip, roll, tile
from stdlib_kernels.movement.gathering import put_along_axis, take, take_along_axis
from stdlib_kernels.movement.joining import concatenate, stack
from stdlib_kernels.movement.padding import pad
from stdlib_kernels.movement.permuting import permute
from stdlib_kernels.movement.repeats import repeat

__all__ = [
    "concatenate",
    "flip",
    "pad",
    "permute",
    "put_along_axis",
    "repeat",
    "roll",
    "stack",
    "take",
    "take_along_axis",
    "tile",
]
