"""Vectors that arrays have no elements of: device functions that make named tuples.

Vectors of two and four numbers of up to 16 bytes are kerneldsl's own.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from kerneldsl.kernels.made_functions import made_functions
from kerneldsl.language.other_names import VALUE_ALIASES, VALUE_VECTORS

#: The classes of one, three and four numbers.
_CLASSES: dict[str, Any] = {f"X{n}": namedtuple(f"X{n}", list("xyzw")[:n]) for n in (1, 3, 4)}


def _text(dtype: str, count: int) -> str:
    axes = "xyzw"[:count]
    members = ", ".join(f"np.{dtype}({axis})" for axis in axes)
    head = f"def {dtype}x{count}({', '.join(axes)}):"
    return f'{head}\n    """Make a vector of {dtype} numbers."""\n    return X{count}({members})\n'


_TEXT = "\n".join(_text(*each) for each in VALUE_VECTORS.values())
_MADE = made_functions(_TEXT, __name__, {"np": np, **_CLASSES})
globals().update({**_CLASSES, **_MADE})
globals().update({name: _MADE[own] for name, own in VALUE_ALIASES.items()})
