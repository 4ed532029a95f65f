"""``@guvectorize(target="cuda")``: kernels over arrays of further axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from kerneldsl.compat.numba_cuda.streams import stream_of
from kerneldsl.compat.numba_cuda.vectorizers import (
    ArrayFunction,
    Loop,
    as_array,
    decorator,
    handed_over,
    room_for,
)
from kerneldsl.lowering.numba_internals.vocabulary import normalize_signature
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.broadcasting import loop_axes, parse_axes, spread

__all__ = ["CUDAGUFuncVectorize", "GUFunc", "guvectorize"]


_STAGER = """
def {name}({args}, __count__):
    __tid__ = __grid__(1)
    if __tid__ < __count__:
        __core__({items})
"""


class GUFunc(ArrayFunction):
    """A function of arrays of fixed ranks, for arrays of further axes."""

    max_blocksize = 2**30

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
        self.signature, self._arguments = sig, (sig,)
        self.inputsig, self.outputsig = parse_axes(sig)

    def add(self, sig: Any = None) -> None:
        """Compile for a signature."""
        from numba import types

        arguments, result = normalize_signature(sig)
        if result not in (types.none, None):
            raise TypeError(
                f"guvectorized functions cannot return values: signature {sig} specifies {result} "
                "return type"
            )
        items, kinds = [], []
        for i, (kind, axes) in enumerate(
            zip(arguments, [*self.inputsig, *self.outputsig], strict=True)
        ):
            is_array = isinstance(kind, types.Array)
            if axes and not is_array:
                raise ValueError("gufunc signature mismatch: ndim>0 for scalar")
            if axes:
                items.append(f"arg{i}[{', '.join(['__tid__', *[':'] * len(axes)])}]")
            else:
                items.append(f"arg{i}[__tid__:__tid__ + 1]" if is_array else f"arg{i}[__tid__]")
            kinds.append(kind.dtype if is_array else kind)
        names = [f"arg{i}" for i in range(len(items))]
        kernel = self._kernel(_STAGER, "__gufunc_", names, items)
        self._append(types.void(*arguments), kinds, len(self.inputsig), kernel)

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
        axes_of_inputs, axes_of_outputs = self.inputsig, self.outputsig
        places = [None if each is None else as_array(each) for each in self._places(args, out)]
        values = [as_array(each) for each in args[: len(axes_of_inputs)]]
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
        outer, sizes = loop_axes([each.shape for each in values], axes_of_inputs)
        count = math.prod(outer)
        if not count:
            raise AssertionError("zero looping dimension")
        cores = [tuple(sizes[n] for n in axes) for axes in axes_of_outputs]
        for core, place in zip(cores, places, strict=True):
            if place is not None and tuple(place.shape) != outer + core:
                raise ValueError("output shape mismatch")
        inputs = []
        for value, axes in zip(values, axes_of_inputs, strict=True):
            split = value.ndim - len(axes)
            core = tuple(value.shape[split:])
            same_for_all = value if tuple(value.shape[:split]) == outer else value.reshape(core)
            whole = spread(same_for_all, outer + core, stream_of(stream))
            inputs.append(whole.reshape((count, *core)))
        results = [
            room_for(place, outer + core, dtype, stream)
            for place, core, dtype in zip(places, cores, loop.outputs, strict=True)
        ]
        flat = [each.reshape((count, *core)) for each, core in zip(results, cores, strict=True)]
        loop.kernel.forall(count, stream=stream)(*inputs, *flat, count)
        is_host = not any(isinstance(each, DeviceArray) for each in (*values, *places))
        made = [
            handed_over(result, place, is_host, stream)
            for result, place in zip(results, places, strict=True)
        ]
        return made[0] if len(made) == 1 else tuple(made)

    def _places(self, args: Sequence[Any], out: Any) -> list[Any]:
        """Return the arrays for the results, ``None`` for those that are to be made."""
        inputs, outputs = len(self.inputsig), len(self.outputsig)
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

    def _find(self, values: Sequence[Any]) -> Loop:
        given = tuple(each.dtype for each in values)
        for loop in self._loops:
            if loop.inputs == given:
                return loop
        for loop in self._loops:
            # numba.cuda casts in this direction.
            if all(map(np.can_cast, loop.inputs, given)):
                return loop
        raise TypeError("no matching signature")


def _arguments(count: int) -> str:
    return f"{count} positional argument{'s' * (count != 1)}"


#: The name by which Numba's own `guvectorize` finds it.
CUDAGUFuncVectorize = GUFunc


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
    named = {name: kws.pop(name) for name in ("identity", "cache", "writable_args") if name in kws}
    make = partial(GUFunc, sig=args[1], targetoptions=kws, **named)
    return decorator(args[0], make)
