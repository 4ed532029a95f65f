"""Operators of device arrays, by the names of the standard's functions."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.array_api import binary, unary
from stdlib_kernels.array_api.computing import compute_in_place, mixed
from stdlib_kernels.array_api.making import RULES
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.linalg import matmul
from stdlib_kernels.parameters import is_number

__all__ = ["operate", "operate_in_place"]


#: Types that Python would compare by identity, or concatenate.
_OF_HOST: Any = np.ndarray | list | tuple | str


def operate(name: str, *operands: Any) -> Any:
    """Return the result of an operator; ``NotImplemented`` for other types of operands."""
    if len(operands) == 1:
        return getattr(unary, name)(*operands)
    left, right = map(_number_of_rank_0, operands)
    if not (_is_operand(left) and _is_operand(right)):
        return _refuse(left, right)
    if name == "matmul":
        if is_number(left) or is_number(right):
            return NotImplemented
        return matmul(left, right)
    return getattr(binary, name)(left, right)


def operate_in_place(name: str, left: kd.DeviceArray, right: Any) -> Any:
    """Replace the elements of an array by the results of an operator, and return the array."""
    right = _number_of_rank_0(right)
    if not _is_operand(right):
        return _refuse(left, right)
    if name == "matmul":
        return NotImplemented if is_number(right) else matmul(left, right, out=left)
    return _replaced(name, left, right, out=left)


@repeated_function
def _replaced(name: str, left: Any, right: Any, *, out: Any) -> Any:
    """Store the result of an operator in the first operand, which is `out`."""
    return compute_in_place(RULES[name], name, left, right)


def _number_of_rank_0(value: Any) -> Any:
    """Return the number in a NumPy array of rank 0, and other values unchanged."""
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value


def _is_operand(value: Any) -> bool:
    return isinstance(value, kd.DeviceArray) or is_number(value)


def _refuse(left: Any, right: Any) -> Any:
    """Raise an error for arrays on the host; other objects are handled by Python."""
    if any(each is None or isinstance(each, _OF_HOST) for each in (left, right)):
        raise mixed(left, right)
    return NotImplemented
