"""Values that nobody should pass: what a public call is given to see whether an error is ours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["ODD", "Foreign", "broken"]


class Foreign(Exception):
    """Raised by values of this module; it must never reach a caller of kerneldsl."""


def _raise(self: Any, *args: Any, **named: Any) -> Any:
    raise Foreign


#: What an object may define, and Python or NumPy may ask it for.
_PROTOCOLS = (
    "__repr__",
    "__str__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__hash__",
    "__bool__",
    "__index__",
    "__int__",
    "__float__",
    "__len__",
    "__iter__",
    "__getitem__",
    "__contains__",
    "__fspath__",
    "__array__",
    "__dlpack__",
    "__dlpack_device__",
)


def broken(*names: str) -> Any:
    """Return an object that raises `Foreign` in the protocols of these names."""
    return type("Broken", (), dict.fromkeys(names, _raise))()


class _NoAttributes:
    """Raises for each attribute that it is asked for."""

    def __getattr__(self, name: str) -> Any:
        raise Foreign


class _BrokenInterface:
    __cuda_array_interface__ = {"version": 3}


class _WrongDLPack:
    def __dlpack_device__(self) -> Any:
        return "cpu"

    def __dlpack__(self, **named: Any) -> Any:
        return None


class _NoCapsule(_WrongDLPack):
    def __dlpack_device__(self) -> Any:
        return 1, 0


#: Name to value; the names are those of the tests.
ODD: dict[str, Any] = {
    "none": None,
    "true": True,
    "object": object(),
    "type": int,
    "empty_set": set(),
    "set": {1, 2},
    "dict": {"a": 1},
    "empty_tuple": (),
    "empty_list": [],
    "nested": ((1, 2), (3,)),
    "generator": (n for n in range(3)),
    "function": lambda *args: args,
    "array": np.arange(3.0),
    "int_array": np.arange(3),
    "no_elements": np.empty((0, 2)),
    "objects": np.array([object(), None]),
    "structured": np.zeros(2, [("a", "f4")]),
    "text_array": np.array(["a"]),
    "zero": 0,
    "negative": -1,
    "int64": 2**63,
    "huge": 10**5000,
    "huge_negative": -(10**5000),
    "huge_pair": (10**5000, 2),
    "long_range": range(10**12),
    "half": 0.5,
    "nan": math.nan,
    "infinite": math.inf,
    "complex": 1j,
    "empty": "",
    "blank": " \t",
    "text": "no such thing",
    "colon": "cpu:" + "9" * 5000,
    "nul": "a\0b",
    "long": "x" * 5000,
    "surrogate": "\udcff",
    "bytes": b"cpu",
    "bytearray": bytearray(4),
    "numpy_bool": np.True_,
    "not_a_time": np.datetime64("NaT"),
    "all_broken": broken(*_PROTOCOLS),
    "no_attributes": _NoAttributes(),
    "broken_interface": _BrokenInterface(),
    "wrong_dlpack": _WrongDLPack(),
    "no_capsule": _NoCapsule(),
    **{f"broken{name}": broken(name) for name in _PROTOCOLS},
    "index_and_repr": broken("__index__", "__repr__"),
    "hash_and_eq": broken("__hash__", "__eq__"),
}
