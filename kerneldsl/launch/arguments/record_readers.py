"""The reader of a record by itself, which is passed by value, as its bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.contract.abi import RECORD_WORD_BYTES
from kerneldsl.errors import ArgumentValueError
from kerneldsl.language.element_types import element_name
from kerneldsl.language.kinds import ScalarKind
from kerneldsl.launch.arguments.binding import Binding, Refused, code_of

__all__ = ["read_record"]

#: A GPU takes 4096 bytes of parameters, and a record is copied to each launch.
_MAX_BYTES = 1024

_codes: dict[tuple[np.dtype[Any], bool], int] = {}


def read_record(value: np.void, binding: Binding) -> int:
    """Read an element of a structured array, as ``array[0]`` gives it."""
    dtype = value.dtype
    # A dtype of aligned records equals one of packed records at the same places.
    code = _codes.get((dtype, dtype.isalignedstruct))
    if code is None:
        code = _codes[dtype, dtype.isalignedstruct] = _classify(dtype)
    data = value.tobytes()
    padded = data + bytes(-len(data) % RECORD_WORD_BYTES)
    binding.values += np.frombuffer(padded, np.uint64).tolist()
    return code


def _classify(dtype: np.dtype[Any]) -> int:
    name = element_name(dtype)
    if name is None:
        names = dtype.names or ()
        raise Refused(
            f"a record of dtype {dtype} cannot be passed to a kernel",
            limit="Fields of records are numbers, bools, records, or arrays of those, at places "
            "that do not overlap",
            remedy="Pass the fields that are needed: "
            + ", ".join(f"record[{each!r}]" for each in names[:4])
            if names
            else "Give its array a structured dtype, array.view([('x', np.float32), …])",
        )
    if dtype.itemsize > _MAX_BYTES:
        raise Refused(
            f"a record of {dtype.itemsize} bytes cannot be passed by value",
            limit=f"Records of up to {_MAX_BYTES} bytes are",
            remedy="Pass an array of one record: array[:1], and read array[0] in the kernel",
            kind=ArgumentValueError,
        )
    return code_of(ScalarKind(name))
