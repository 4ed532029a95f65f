"""``cuda.reduce``: folds of an array by a function of two elements."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np

from kerneldsl.compat.numba_cuda.api import auto_device, device_array
from kerneldsl.compat.numba_cuda.decorators import jit
from kerneldsl.compat.numba_cuda.dispatcher import CUDADispatcher
from kerneldsl.language.intrinsics.places import grid
from kerneldsl.utilities.written_functions import written_function

__all__ = ["Reduce", "reduce"]

#: Elements that one thread folds in a pass, and threads of a block.
_EACH, _BLOCK = 64, 128

#: One pass: thread i folds the elements i, i + step, …
_PASS = """
def fold(values, partials, count, step):
    i = grid(1)
    if i < step:
        total = values[i]
        j = i + step
        while j < count:
            total = functor(total, values[j])
            j += step
        partials[i] = total
"""
_FINISH = """
def finish(partials, init):
    partials[0] = functor(partials[0], init)
"""


class Reduce:
    """A fold of arrays of rank 1.

    Parameters
    ----------
    functor : function
        Of two elements; associative and commutative.
    """

    def __init__(self, functor: Any) -> None:
        self._functor = functor
        called = functor
        if isinstance(functor, FunctionType):
            called = jit(functor, device=True)
        namespace: dict[str, Any] = {"grid": grid, "functor": called}
        self._fold: CUDADispatcher = jit(written_function("fold", _PASS, namespace, __name__))
        self._finish: CUDADispatcher = jit(written_function("finish", _FINISH, namespace, __name__))

    def __call__(
        self, arr: Any, size: Any = None, res: Any = None, init: Any = 0, stream: Any = 0
    ) -> Any:
        """Fold the elements of an array, and `init`, into one.

        Parameters
        ----------
        arr : array
            A host or device array of rank 1.
        size : int, optional
            Fold so many elements alone.
        res : device array, optional
            Its first element becomes the result; nothing is returned then.
        init : number, optional
            The first operand.
        stream : optional
            The stream.
        """
        if arr.ndim != 1:
            raise TypeError("only support 1D array")
        if size is not None:
            arr = arr[:size]
        init = arr.dtype.type(init)
        if arr.size < 1:
            return init
        given = np.ascontiguousarray(arr) if isinstance(arr, np.ndarray) else arr
        values, _ = auto_device(given, stream)
        count = values.size
        while True:
            step = -(-count // _EACH)
            partials = device_array(step, arr.dtype, stream=stream)
            self._fold[-(-step // _BLOCK), _BLOCK, stream](values, partials, count, step)
            values, count = partials, step
            if count == 1:
                break
        self._finish[1, 1, stream](values, init)
        if res is not None:
            res[:1].copy_to_device(values, stream=stream)
            return None
        return values[0]


reduce = Reduce
