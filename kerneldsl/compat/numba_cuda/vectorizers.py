"""``@vectorize(target="cuda")``: kernels over broadcast arrays."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kerneldsl.compat.numba_cuda.api import as_cuda_array, device_array
from kerneldsl.compat.numba_cuda.arrays import DeviceNDArray
from kerneldsl.compat.numba_cuda.decorators import jit
from kerneldsl.compat.numba_cuda.dispatcher import CUDADispatcher
from kerneldsl.compat.numba_cuda.streams import stream_of
from kerneldsl.compat.numba_cuda.typing import argument_types
from kerneldsl.kernels.exported import result_of
from kerneldsl.language.intrinsics.places import grid
from kerneldsl.language.signatures import read_signature
from kerneldsl.lowering.numba_internals.vocabulary import as_dtype, normalize_signature
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.broadcasting import broadcast_shapes, spread
from kerneldsl.utilities.written_functions import written_function

__all__ = [
    "ArrayFunction",
    "CUDAVectorize",
    "Loop",
    "UFunc",
    "as_array",
    "decorator",
    "handed_over",
    "made_with",
    "room_for",
    "vectorize",
]

_NO_MATCH = (
    "No matching version.  GPU ufunc requires array arguments to have the exact types.  This "
    "behaves like regular ufunc with casting='no'."
)
_AMBIGUOUS = (
    "Failed to resolve ufunc due to ambiguous signature. Too many untyped scalars. Use numpy dtype "
    "object to type tag."
)


class Loop(NamedTuple):
    """One signature of a function of arrays: dtypes of inputs and results, and the kernel."""

    signature: Any
    inputs: tuple[np.dtype[Any], ...]
    outputs: tuple[np.dtype[Any], ...]
    kernel: CUDADispatcher


def _dtype(kind: Any) -> np.dtype[Any]:
    from numba import types

    return np.dtype(as_dtype(kind.dtype if isinstance(kind, types.EnumMember) else kind))


def as_array(value: Any) -> Any:
    """Return a device array, or an array of NumPy's."""
    is_device = isinstance(value, DeviceArray) or hasattr(value, "__cuda_array_interface__")
    return as_cuda_array(value) if is_device else np.asarray(value)


def room_for(place: Any, shape: tuple[int, ...], dtype: Any, stream: Any) -> DeviceNDArray:
    """Return the caller's array if kernels can write a result there, else a new one."""
    has_place = isinstance(place, DeviceNDArray) and place.layout == "C"
    return place if has_place else device_array(shape, dtype, stream=stream)


def handed_over(result: DeviceNDArray, place: Any, is_host: bool, stream: Any) -> Any:
    """Return a result in the caller's array, on the host or on the device."""
    if place is None:
        return result.copy_to_host(stream=stream) if is_host else result
    if not isinstance(place, DeviceArray):
        result.copy_to_host(place, stream=stream)
    elif place.pointer != result.pointer:
        place.copy_from_host(result.copy_to_host(stream=stream))
    return place


class ArrayFunction:
    """A function for arrays of any shape: `add` each signature, then call it.

    Parameters
    ----------
    func : function
        The function.
    identity, cache, targetoptions : optional
        As of Numba's decorators.
    """

    #: Arguments of the class besides the function, for another object like this one.
    _arguments: tuple[Any, ...] = ()

    def __init__(
        self,
        func: Any,
        identity: Any = None,
        cache: bool = False,
        targetoptions: dict[str, Any] | None = None,
    ) -> None:
        if cache:
            raise TypeError("caching is not supported")
        self.py_func = func.py_func if isinstance(func, CUDADispatcher) else func
        self.core = func if isinstance(func, CUDADispatcher) else jit(self.py_func, device=True)
        self.identity = identity
        self.__name__, self.__doc__ = self.py_func.__name__, self.py_func.__doc__
        self._loops: list[Loop] = []
        self._options = dict(targetoptions or {})

    def add(self, sig: Any = None) -> None:
        """Compile for a signature."""
        raise NotImplementedError

    def build_ufunc(self) -> Any:
        """Return the function, which Numba's decorators make of what they add signatures to."""
        return self

    def disable_compile(self) -> None:
        """Return at once: there are the signatures that were added, and no others."""

    def __reduce__(self) -> Any:
        arguments = self.core, *self._arguments
        return made_with, (type(self), arguments, [loop.signature for loop in self._loops])

    def _kernel(self, text: str, prefix: str, names: Sequence[str], items: Sequence[str]) -> Any:
        """Return the kernel of a text that calls the function for one element each."""
        # The name is an identifier, also for a lambda.
        name = prefix + re.sub(r"\W", "_", self.py_func.__name__)
        written = text.format(name=name, args=", ".join(names), items=", ".join(items))
        namespace = {"__grid__": grid, "__core__": self.core}
        return jit(written_function(name, written, namespace, __name__))

    def _append(self, signature: Any, kinds: Sequence[Any], inputs: int, kernel: Any) -> None:
        dtypes = tuple(map(_dtype, kinds))
        self._loops[:] = [loop for loop in self._loops if loop.inputs != dtypes[:inputs]]
        self._loops.append(Loop(signature, dtypes[:inputs], dtypes[inputs:], kernel))


def made_with(kind: Any, arguments: tuple[Any, ...], signatures: Sequence[Any]) -> Any:
    """Return a function of a class that these arguments make, with these signatures."""
    made = kind(*arguments)
    for each in signatures:
        made.add(each)
    return made


_STAGER = """
def {name}({args}, __out__):
    __tid__ = __grid__(1)
    if __tid__ < __out__.shape[0]:
        __out__[__tid__] = __core__({items})
"""


class UFunc(ArrayFunction):
    """A function of elements, for arrays of any shape."""

    def __init__(self, func: Any, **options: Any) -> None:
        super().__init__(func, **options)
        for option in self._options:
            if option != "nopython":
                raise KeyError(
                    "Unrecognized options. cuda vectorize target does not support option: "
                    f"'{option}'"
                )
            warnings.warn("nopython kwarg for cuda target is redundant", RuntimeWarning)

    def add(self, sig: Any = None) -> None:
        """Compile for a signature."""
        from numba import types

        arguments, result = normalize_signature(sig)
        if result is None:
            found: Any = result_of(self.core, read_signature(arguments), CUDADispatcher)
            (result,) = argument_types((found,))
        names = [f"a{i}" for i in range(len(arguments))]
        items = [f"{each}[__tid__]" for each in names]
        kernel = self._kernel(_STAGER, "__vectorized_", names, items)
        kernel.compile(types.void(*(each[::1] for each in arguments), result[::1]))
        self._append(result(*arguments), (*arguments, result), len(arguments), kernel)

    @property
    def functions(self) -> dict[tuple[np.dtype[Any], ...], tuple[np.dtype[Any], CUDADispatcher]]:
        """The kernels, by the dtypes of their inputs."""
        return {loop.inputs: (loop.outputs[0], loop.kernel) for loop in self._loops}

    def __call__(self, *args: Any, **kws: Any) -> Any:
        """Compute the function of broadcast arrays.

        Parameters
        ----------
        *args : array or number
            Host or device arrays.
        out : array, optional
            For the result.
        stream : optional
            The stream.
        """
        stream, out = kws.pop("stream", 0), kws.pop("out", None)
        if kws:
            warnings.warn(f"unrecognized keywords: {', '.join(kws)}")
        values = [None if _is_number(each) else as_array(each) for each in args]
        loop = self._find(args, values)
        arrays = [
            np.array(given, dtype) if value is None else value
            for given, value, dtype in zip(args, values, loop.inputs, strict=True)
        ]
        shape = broadcast_shapes([each.shape for each in arrays])
        if all(value is None for value in values):
            shape = (1,)
        place: Any = None if out is None else as_array(out)
        if place is not None and (place.shape != shape or place.dtype != loop.outputs[0]):
            raise ValueError(
                f"out has shape {place.shape} and dtype {place.dtype}; the result has shape "
                f"{shape} and dtype {loop.outputs[0]}"
            )
        inputs = [spread(each, shape, stream_of(stream)).reshape(-1) for each in arrays]
        result = room_for(place, shape, loop.outputs[0], stream)
        count = math.prod(shape)
        if count:
            loop.kernel.forall(count, stream=stream)(*inputs, result.ravel())
        is_host = not any(isinstance(each, DeviceArray) for each in arrays)
        found = handed_over(result, place, is_host, stream)
        return out if isinstance(out, DeviceArray) else found

    def _find(self, args: Sequence[Any], values: Sequence[Any]) -> Loop:
        fitting = [loop for loop in self._loops if len(loop.inputs) == len(args)]
        dtypes = tuple(
            np.asarray(given).dtype if value is None else value.dtype
            for given, value in zip(args, values, strict=True)
        )
        found = [loop for loop in fitting if loop.inputs == dtypes] or [
            loop
            for loop in fitting
            if all(
                value is None or value.dtype == dtype
                for value, dtype in zip(values, loop.inputs, strict=True)
            )
        ]
        if not found:
            raise TypeError(_NO_MATCH)
        if len(found) > 1:
            raise TypeError(_AMBIGUOUS)
        return found[0]

    def reduce(self, arg: Any, stream: Any = 0) -> Any:
        """Fold an array of rank 1 by a function of two elements."""
        if len(self._loops[0].inputs) != 2:
            raise AssertionError("must be a binary ufunc")
        if arg.ndim != 1:
            raise AssertionError("must use 1d array")
        if arg.shape[0] == 0:
            raise TypeError("Reduction on an empty array.")
        given = spread(as_array(arg), arg.shape, stream_of(stream))
        values = DeviceNDArray.over(DeviceArray.copy(given))
        count = values.size
        while count > 1:
            half = count // 2
            low, high = values[:half], values[count - half : count]
            self(low, high, out=low, stream=stream)
            count -= half
        return values[0]


#: The name by which Numba's own `vectorize` finds it.
CUDAVectorize = UFunc


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex, np.number))


def decorator(signatures: Any, make: Any) -> Any:
    """Return the decorator that compiles a function for signatures."""
    each = [signatures] if isinstance(signatures, str) else signatures
    return lambda func: made_with(make, (func,), each)


def vectorize(ftylist_or_function: Any = (), target: str = "cuda", **kws: Any) -> Any:
    """Make a function of elements one of arrays.

    Parameters
    ----------
    ftylist_or_function : str, signature, or list of those
        The signatures.
    target : str, optional
        ``"cuda"``, which is this; others are Numba's.
    **kws
        ``identity`` and ``cache``, as of Numba's.
    """
    if target != "cuda":
        from numba import vectorize as of_numba

        return of_numba(ftylist_or_function, target=target, **kws)
    named = {name: kws.pop(name) for name in ("identity", "cache") if name in kws}
    return decorator(ftylist_or_function, partial(UFunc, targetoptions=kws, **named))
