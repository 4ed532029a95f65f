"""Random numbers in kernels: counter-based generators and generators with a state.

The functions here that take a seed and an index, or states and an index, are device functions
(:func:`kerneldsl.func`). Every target computes them from one source, and plain Python may call them
as well. There are two families:

- *Counters* (:mod:`~kerneldsl.random.philox`): a number is a function of a seed and an index alone,
  ``kd.random.uniform_float32(seed, i)``. There is no state, any number can be computed again, and
  threads only need to use different indices.
- *Streams* (:mod:`~kerneldsl.random.states`): numba.cuda's xoroshiro128+ generators, one for
  each state of an array. Every draw advances the state.

Integers and uniform numbers of both have the same bits on every target, and so have
``normal_float32`` and ``exponential_float32``. The others document an error bound.

Examples
--------
>>> import kerneldsl as kd
>>> 0 <= int(kd.random.integers_int32(2024, 7, 0, 100)) < 100
True
"""

from __future__ import annotations

from typing import Any

from kerneldsl.random.integers import (
    integers_int32,
    integers_int64,
    integers_uint32,
    integers_uint64,
)
from kerneldsl.random.normal import (
    exponential2_float64,
    exponential4_float32,
    exponential_float32,
    exponential_float64,
    normal2_float64,
    normal4_float32,
    normal_float32,
    normal_float64,
)
from kerneldsl.random.philox import philox, philox_4x32_10
from kerneldsl.random.states import (
    create_xoroshiro128p_states,
    init_xoroshiro128p_states,
    xoroshiro128p_dtype,
    xoroshiro128p_next,
    xoroshiro128p_normal_float32,
    xoroshiro128p_normal_float64,
    xoroshiro128p_uniform_float32,
    xoroshiro128p_uniform_float64,
)
from kerneldsl.random.uniform import (
    uniform2_float64,
    uniform4_float32,
    uniform_bfloat16,
    uniform_float16,
    uniform_float32,
    uniform_float64,
    unit_float32,
    unit_float64,
)

__all__ = [
    "create_xoroshiro128p_states",
    "exponential2_float64",
    "exponential4_float32",
    "exponential_float32",
    "exponential_float64",
    "init_xoroshiro128p_states",
    "integers_int32",
    "integers_int64",
    "integers_uint32",
    "integers_uint64",
    "normal2_float64",
    "normal4_float32",
    "normal_float32",
    "normal_float64",
    "philox",
    "philox_4x32_10",
    "uniform2_float64",
    "uniform4_float32",
    "uniform_bfloat16",
    "uniform_float16",
    "uniform_float32",
    "uniform_float64",
    "unit_float32",
    "unit_float64",
    "xoroshiro128p_dtype",
    "xoroshiro128p_next",
    "xoroshiro128p_normal_float32",
    "xoroshiro128p_normal_float64",
    "xoroshiro128p_uniform_float32",
    "xoroshiro128p_uniform_float64",
]


def __getattr__(name: str) -> Any:
    """Return the type of a state for signatures, as numba.cuda names it."""
    if name != "xoroshiro128p_type":
        raise AttributeError(f"module 'kerneldsl.random' has no attribute {name!r}")
    from kerneldsl.language.element_types import element_name
    from kerneldsl.lowering.types import element_type

    return element_type(element_name(xoroshiro128p_dtype) or "")


def __dir__() -> list[str]:
    # Imports of this file are not public.
    own = (name for name in globals() if name.startswith("__"))
    return sorted({*__all__, "xoroshiro128p_type", *own})
