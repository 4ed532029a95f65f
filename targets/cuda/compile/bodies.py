"""Bodies of kernels, lowered once for all the code that is made around them.

A kernel is compiled for several mappings, promises, kinds of launch and architectures; its body is
the same in all of them, and typing and lowering it with Numba is half of the work. The bodies of a
kernel live as long as its normal form does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from kerneldsl.contract import Specialization
from kerneldsl.frontend.unit import FunctionUnit
from targets.cuda.compile.lower import Lowered, lower_unit

__all__ = ["Body", "body_of"]

#: Bodies of one kernel that are kept, for arguments of different kinds.
_MAX_BODIES = 4


@dataclass(frozen=True)
class Body:
    """A lowered body."""

    #: What its entry needs to call it.
    lowered: Lowered
    #: Its modules.
    texts: tuple[str, ...]


_bodies: WeakKeyDictionary[FunctionUnit, dict[tuple[Any, ...], Body]] = WeakKeyDictionary()


def body_of(specialization: Specialization, timings: dict[str, float]) -> Body:
    """Return the body of a kernel, lowered the first time.

    The caller holds Numba's compiler lock, and has made ours the current target.

    Mapping, kind of launch, promises and architecture do not matter. `timings` gets ``prepare``
    and ``numba``, 0 where nothing was to be done.

    Raises `KernelTypingError` where Numba cannot type it.
    """
    options = specialization.options
    key = (
        specialization.kinds,
        options.debug,
        options.lineinfo,
        options.wraparound,
        options.disabled_passes,
    )
    known = _bodies.setdefault(specialization.unit, {})
    body = known.get(key)
    if body is not None:
        timings.update(prepare=0.0, numba=0.0)
        return body
    lowered = lower_unit(specialization, timings)
    body = Body(lowered, tuple(lowered.library.texts()))
    while len(known) >= _MAX_BODIES:
        del known[next(iter(known))]
    known[key] = body
    return body
