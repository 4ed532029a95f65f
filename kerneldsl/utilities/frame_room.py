"""Room for the frames of deep Python calls, taken once instead of again and again.

CPython puts frames into chunks of 16 KiB. It allocates a chunk when a call crosses the end of one,
and frees it on return. Numba's passes cross such an end hundreds of thousands of times in a
compilation. Each takes two system calls and a page fault, together a fifth of the processor time. A
call of this module has so large a frame that CPython allocates a chunk of 1 MiB. The frames of all
calls below fit into it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["call_with_room"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: Words of the frame. The chunk is the power of two above it, in which as many more are left over.
_FRAME_WORDS = 65_000


def call_with_room(function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call a function; its own calls share one large chunk of frames.

    Parameters
    ----------
    function : callable
        What calls deeply.
    *args, **kwargs
        Its arguments.
    """
    return function(*args, **kwargs)


call_with_room.__code__ = call_with_room.__code__.replace(co_stacksize=_FRAME_WORDS)
