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

from kerneldsl.random import integers, normal, philox, states, uniform

_PARTS = (integers, normal, philox, states, uniform)
#: Name to its module. The stub for type checkers is made of it.
_HOME = {name: part.__name__ for part in _PARTS for name in part.__all__}
globals().update({name: getattr(part, name) for part in _PARTS for name in part.__all__})

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Return the type of a state for signatures, as numba.cuda names it."""
    if name != "xoroshiro128p_type":
        raise AttributeError(f"module 'kerneldsl.random' has no attribute {name!r}")
    from kerneldsl.language.element_types import element_name
    from kerneldsl.lowering.types import element_type

    return element_type(element_name(states.xoroshiro128p_dtype) or "")


def __dir__() -> list[str]:
    # Imports of this file are not public.
    own = (name for name in globals() if name.startswith("__"))
    return sorted({*__all__, "xoroshiro128p_type", *own})
