"""``@vectorize(target="cuda")`` and ``@guvectorize``: kernels over broadcast arrays."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kerneldsl.compat.numba_cuda.api import as_cuda_array, device_array, to_device
from kerneldsl.compat.numba_cuda.arrays import DeviceNDArray
from kerneldsl.compat.numba_cuda.decorators import jit
from kerneldsl.compat.numba_cuda.dispatcher import CUDADispatcher
from kerneldsl.compat.numba_cuda.typing import argument_types
from kerneldsl.kernels.exported import result_of
from kerneldsl.kernels.made_functions import made_function
from kerneldsl.language.intrinsics.places import grid
from kerneldsl.language.signatures import read_signature
from kerneldsl.memory.arrays import DeviceArray

__all__ = [
    "CUDAGUFuncVectorize",
    "CUDAVectorize",
    "GUFunc",
    "UFunc",
    "guvectorize",
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


class _Loop(NamedTuple):
    """One signature of a ufunc: dtypes of inputs and results, and the kernel."""

    inputs: tuple[np.dtype[Any], ...]
    outputs: tuple[np.dtype[Any], ...]
    kernel: CUDADispatcher


def _dtype(kind: Any) -> np.dtype[Any]:
    from numba import types

    from kerneldsl.lowering.numba_internals.vocabulary import as_dtype

    return np.dtype(as_dtype(kind.dtype if isinstance(kind, types.EnumMember) else kind))


def _is_device(value: Any) -> bool:
    return isinstance(value, DeviceArray) or hasattr(value, "__cuda_array_interface__")


def _as_array(value: Any) -> Any:
    return as_cuda_array(value) if _is_device(value) else np.asarray(value)


def _on_device(array: Any, stream: Any) -> DeviceNDArray:
    if isinstance(array, DeviceArray):
        return as_cuda_array(array)
    found: DeviceNDArray = to_device(np.ascontiguousarray(array), stream=stream)
    return found


def _spread(array: Any, shape: tuple[int, ...], stream: Any) -> DeviceNDArray:
    """Return an array of a shape on the device, contiguous in C order."""
    if not isinstance(array, DeviceArray):
        return _on_device(np.ascontiguousarray(np.broadcast_to(array, shape)), stream)
    if array.shape == shape and array.layout == "C":
        return as_cuda_array(array)
    return DeviceNDArray.over(DeviceArray.copy(array.broadcast_to(shape)))


class UFunc:
    """A function of elements, for arrays of any shape.

    Parameters
    ----------
    function : function
        Of one element of each input.
    loops : list
        One for each signature.
    """

    def __init__(self, function: Callable[..., Any], loops: list[_Loop]) -> None:
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.py_func = function
        self._loops = loops

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
        values = [None if _is_number(each) else _as_array(each) for each in args]
        loop = self._find(args, values)
        arrays = [
            np.array(given, dtype) if value is None else value
            for given, value, dtype in zip(args, values, loop.inputs, strict=True)
        ]
        shape = _broadcast([each.shape for each in arrays])
        if all(value is None for value in values):
            shape = (1,)
        inputs = [_spread(each, shape, stream).ravel() for each in arrays]
        given: Any = None if out is None else _as_array(out)
        has_place = isinstance(given, DeviceArray) and given.layout == "C"
        result: Any = given if has_place else device_array(shape, loop.outputs[0], stream=stream)
        if given is not None and (given.shape != shape or given.dtype != loop.outputs[0]):
            raise ValueError(
                f"out has shape {given.shape} and dtype {given.dtype}; the result has shape "
                f"{shape} and dtype {loop.outputs[0]}"
            )
        count = math.prod(shape)
        if count:
            loop.kernel.forall(count, stream=stream)(*inputs, result.ravel())
        if given is not None:
            if isinstance(given, DeviceArray):
                if not has_place:
                    given.copy_from_host(result.copy_to_host(stream=stream))
                return out if isinstance(out, DeviceArray) else given
            result.copy_to_host(given, stream=stream)
            return given
        is_device = any(isinstance(each, DeviceArray) for each in arrays)
        return result if is_device else result.copy_to_host(stream=stream)

    def _find(self, args: Sequence[Any], values: Sequence[Any]) -> _Loop:
        fitting = [loop for loop in self._loops if len(loop.inputs) == len(args)]
        exact = [
            loop
            for loop in fitting
            if all(
                (np.asarray(given) if value is None else value).dtype == dtype
                for given, value, dtype in zip(args, values, loop.inputs, strict=True)
            )
        ]
        found = exact or [
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
        values = DeviceNDArray.over(DeviceArray.copy(_on_device(_as_array(arg), stream)))
        count = values.size
        while count > 1:
            half = count // 2
            low, high = values[:half], values[count - half : count]
            self(low, high, out=low, stream=stream)
            count -= half
        return values[0]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex, np.number))


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    found: tuple[int, ...] = ()
    for number, shape in enumerate(shapes):
        try:
            found = np.broadcast_shapes(found, shape)
        except ValueError:
            raise ValueError(f"failed to broadcast argument #{number}") from None
    return found


_STAGER = """
def __vectorized_{name}({args}, __out__):
    __tid__ = __grid__(1)
    if __tid__ < __out__.shape[0]:
        __out__[__tid__] = __core__({items})
"""


class _Builder:
    """A collector of signatures: `add` each, then `build_ufunc`."""

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
        #: The name of the function as an identifier, also of a lambda.
        self._name = re.sub(r"\W", "_", self.py_func.__name__)
        self.identity = identity
        self._options = dict(targetoptions or {})
        self._loops: list[_Loop] = []
        core = func if isinstance(func, CUDADispatcher) else jit(self.py_func, device=True)
        self._namespace: dict[str, Any] = {"__grid__": grid, "__core__": core}

    def disable_compile(self) -> None:
        """Return at once: there are the signatures that were added, and no others."""


class CUDAVectorize(_Builder):
    """Builds a function of elements."""

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

        from kerneldsl.lowering.numba_internals.vocabulary import normalize_signature

        arguments, result = normalize_signature(sig)
        if result is None:
            core = self._namespace["__core__"]
            found: Any = result_of(core, read_signature(arguments), CUDADispatcher)
            (result,) = argument_types((found,))
        names = [f"a{i}" for i in range(len(arguments))]
        text = _STAGER.format(
            name=self._name,
            args=", ".join(names),
            items=", ".join(f"{each}[__tid__]" for each in names),
        )
        function = made_function(text, f"__vectorized_{self._name}", dict(self._namespace))
        kernel = jit(function)
        kernel.compile(types.void(*(each[::1] for each in arguments), result[::1]))
        inputs = tuple(map(_dtype, arguments))
        self._loops = [loop for loop in self._loops if loop.inputs != inputs]
        self._loops.append(_Loop(inputs, (_dtype(result),), kernel))

    def build_ufunc(self) -> UFunc:
        """Return the function."""
        return UFunc(self.py_func, self._loops)


# --------------------------------------------------------------------------- generalized ufuncs


def _parsed(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return the axes of each input, and those of each output."""
    sides = signature.replace(" ", "").split("->")
    group = re.compile(r"\(([A-Za-z_0-9,]*)\)")
    if len(sides) != 2 or any(re.sub(group, "", side).strip(",") for side in sides):
        raise ValueError(f"bad token in signature {signature!r}")
    inputs, outputs = (
        [tuple(name for name in each.split(",") if name) for each in group.findall(side)]
        for side in sides
    )
    undefined = {n for each in outputs for n in each} - {n for each in inputs for n in each}
    if undefined:
        raise NameError(f"undefined output symbols: {','.join(sorted(undefined))}")
    return inputs, outputs


_GROUP_STAGER = """
def __gufunc_{name}({args}, __count__):
    __tid__ = __grid__(1)
    if __tid__ < __count__:
        __core__({items})
"""


class GUFunc:
    """A function of arrays of fixed ranks, for arrays of further axes.

    Parameters
    ----------
    function : function
        Of the inputs and the outputs.
    inputs, outputs : list of tuple of str
        The names of the axes of each.
    loops : list
        One for each signature.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: list[tuple[str, ...]],
        outputs: list[tuple[str, ...]],
        loops: list[_Loop],
    ) -> None:
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.py_func = function
        self.max_blocksize = 2**30
        self._inputs, self._outputs, self._loops = inputs, outputs, loops

    def __call__(self, *args: Any, out: Any = None, stream: Any = 0) -> Any:
        """Compute the function over the axes that the arrays have beyond it.

        Parameters
        ----------
        *args : array
            The inputs, and the outputs if there are some for them.
        out : array, optional
            For the result.
        stream : optional
            The stream.
        """
        places = [_as_array(p) if _is_device(p) else p for p in self._places(args, out)]
        values = [_as_array(each) for each in args[: len(self._inputs)]]
        is_host = not any(_is_device(each) for each in (*args, *places))
        loop = self._find(values)
        for i, (value, dtype) in enumerate(zip(values, loop.inputs, strict=True)):
            if value.dtype == dtype:
                continue
            if isinstance(value, DeviceArray):
                raise TypeError(
                    "compatible signature is possible by casting but "
                    f"{type(value)} does not support .astype()"
                )
            values[i] = value.astype(dtype)
        outer, sizes = self._schedule([each.shape for each in values])
        count = math.prod(outer)
        if not count:
            raise AssertionError("zero looping dimension")
        shapes = [outer + tuple(sizes[n] for n in axes) for axes in self._outputs]
        for shape, place in zip(shapes, places, strict=True):
            if place is not None and tuple(place.shape) != shape:
                raise ValueError("output shape mismatch")
        inputs = [
            self._spread(value, axes, outer, stream)
            for value, axes in zip(values, self._inputs, strict=True)
        ]
        results = [
            place
            if isinstance(place, DeviceNDArray) and place.layout == "C"
            else device_array(shape, dtype, stream=stream)
            for place, shape, dtype in zip(places, shapes, loop.outputs, strict=True)
        ]
        flat = [
            each.reshape((count, *(sizes[n] for n in axes)))
            for each, axes in zip(results, self._outputs, strict=True)
        ]
        loop.kernel.forall(count, stream=stream)(*inputs, *flat, count)
        made = [
            _handed_over(result, place, is_host, stream)
            for result, place in zip(results, places, strict=True)
        ]
        return made[0] if len(made) == 1 else tuple(made)

    def _spread(
        self, value: Any, axes: tuple[str, ...], outer: tuple[int, ...], stream: Any
    ) -> DeviceNDArray:
        """Return an input with one further axis, over which the kernel runs."""
        split = value.ndim - len(axes)
        core = tuple(value.shape[split:])
        if tuple(value.shape[:split]) != outer:
            value = value.reshape(core)  # the same for all
        return _spread(value, outer + core, stream).reshape((math.prod(outer), *core))

    def _places(self, args: Sequence[Any], out: Any) -> list[Any]:
        """Return the arrays for the results, ``None`` for those that are to be made."""
        inputs, outputs = len(self._inputs), len(self._outputs)
        if out is not None:
            if len(args) > inputs:
                raise ValueError("cannot specify argument 'out' as both positional and keyword")
            return [out] * outputs
        if len(args) not in (inputs, inputs + outputs):
            raise TypeError(
                f"This gufunc accepts {_arguments(inputs)} (when providing input only) or "
                f"{_arguments(inputs + outputs)} (when providing input and output). Got "
                f"{_arguments(len(args))}."
            )
        return list(args[inputs:]) or [None] * outputs

    def _find(self, values: Sequence[Any]) -> _Loop:
        given = tuple(each.dtype for each in values)
        for loop in self._loops:
            if loop.inputs == given:
                return loop
        for loop in self._loops:
            # In this direction, as numba.cuda does it.
            if all(map(np.can_cast, loop.inputs, given)):
                return loop
        raise TypeError("no matching signature")

    def _schedule(
        self, shapes: Sequence[tuple[int, ...]]
    ) -> tuple[tuple[int, ...], dict[str, int]]:
        """Return the further axes, and the extents of the named ones."""
        sizes: dict[str, int] = {}
        outer: list[tuple[int, ...]] = []
        for number, (shape, axes) in enumerate(zip(shapes, self._inputs, strict=True), 1):
            if len(shape) < len(axes):
                raise ValueError(f"arg #{number}: insufficient inner dimension")
            split = len(shape) - len(axes)
            outer.append(tuple(shape[:split]))
            for axis, (name, extent) in enumerate(zip(axes, shape[split:], strict=True), split):
                if sizes.setdefault(name, extent) != extent:
                    raise ValueError(f"arg #{number}: shape[{axis}] mismatch argument")
        largest = max(outer, key=math.prod)  # the first of several
        for number, each in enumerate(outer, 1):
            if each not in (largest, (), (1,)):
                raise ValueError(f"arg #{number}: outer dimension mismatch")
        return largest, sizes


def _arguments(count: int) -> str:
    return f"{count} positional argument{'s' * (count != 1)}"


def _handed_over(result: DeviceNDArray, place: Any, is_host: bool, stream: Any) -> Any:
    """Return a result in the caller's array, on the host or on the device."""
    if place is None:
        return result.copy_to_host(stream=stream) if is_host else result
    if not _is_device(place):
        result.copy_to_host(place, stream=stream)
        return place
    if place.pointer != result.pointer:
        place.copy_from_host(result.copy_to_host())
    return place


class CUDAGUFuncVectorize(_Builder):
    """Builds a function of arrays of fixed ranks."""

    def __init__(
        self,
        func: Any,
        sig: str,
        identity: Any = None,
        cache: bool = False,
        targetoptions: dict[str, Any] | None = None,
        writable_args: tuple[Any, ...] = (),
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(func, identity, cache, targetoptions)
        if writable_args:
            raise TypeError("writable_args are not supported")
        if not self._options.pop("nopython", True):
            raise TypeError("nopython flag must be True")
        if self._options:
            raise TypeError(
                "The following target options are not supported: "
                + ", ".join(map(repr, self._options))
            )
        self.signature = sig
        self.inputsig, self.outputsig = _parsed(sig)

    def add(self, sig: Any = None) -> None:
        """Compile for a signature."""
        from numba import types

        from kerneldsl.lowering.numba_internals.vocabulary import normalize_signature

        arguments, result = normalize_signature(sig)
        if result not in (types.none, None):
            raise TypeError(
                f"guvectorized functions cannot return values: signature {sig} specifies {result} "
                "return type"
            )
        names, items, kinds = [], [], []
        for i, (kind, axes) in enumerate(
            zip(arguments, [*self.inputsig, *self.outputsig], strict=True)
        ):
            is_array = isinstance(kind, types.Array)
            if axes and not is_array:
                raise ValueError("gufunc signature mismatch: ndim>0 for scalar")
            names.append(f"arg{i}")
            if axes:
                items.append(f"arg{i}[{', '.join(['__tid__', *[':'] * len(axes)])}]")
            else:
                items.append(f"arg{i}[__tid__:__tid__ + 1]" if is_array else f"arg{i}[__tid__]")
            kinds.append(kind.dtype if is_array else kind)
        name = self._name
        text = _GROUP_STAGER.format(name=name, args=", ".join(names), items=", ".join(items))
        kernel = jit(made_function(text, f"__gufunc_{name}", dict(self._namespace)))
        dtypes = tuple(map(_dtype, kinds))
        split = len(self.inputsig)
        self._loops.append(_Loop(dtypes[:split], dtypes[split:], kernel))

    def build_ufunc(self) -> GUFunc:
        """Return the function."""
        return GUFunc(self.py_func, self.inputsig, self.outputsig, self._loops)


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
    identity, cache = kws.pop("identity", None), kws.pop("cache", False)
    signatures = (
        [ftylist_or_function] if isinstance(ftylist_or_function, str) else ftylist_or_function
    )

    def wrap(func: Any) -> UFunc:
        builder = CUDAVectorize(func, identity=identity, cache=cache, targetoptions=kws)
        for each in signatures:
            builder.add(each)
        return builder.build_ufunc()

    return wrap


def guvectorize(*args: Any, **kws: Any) -> Any:
    """Make a function of arrays of fixed ranks one of arrays of further axes.

    Parameters
    ----------
    ftylist : list of signatures
        The types of the inputs and outputs.
    signature : str
        The axes, such as ``"(m,n),(n,p)->(m,p)"``.
    """
    if len(args) != 2:
        raise TypeError("guvectorize() takes the signatures and the axes")
    target = kws.pop("target", "cuda")
    if target != "cuda":
        from numba import guvectorize as of_numba

        return of_numba(*args, target=target, **kws)
    signatures = [args[0]] if isinstance(args[0], str) else args[0]
    named = {name: kws.pop(name) for name in ("identity", "cache", "writable_args") if name in kws}

    def wrap(func: Any) -> GUFunc:
        builder = CUDAGUFuncVectorize(func, args[1], targetoptions=kws, **named)
        for each in signatures:
            builder.add(each)
        return builder.build_ufunc()

    return wrap
