"""Kernels whose numbers are of the dtype of their arrays, which each launch shows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from kerneldsl.kernels.constants import ParameterizedKernel
from kerneldsl.kernels.kernel import KernelOptions
from kerneldsl.language.signatures import is_signature, read_signature
from kerneldsl.symbolic.dtypes import computing_dtype

__all__ = ["ElementKernel"]


class ElementKernel(ParameterizedKernel):
    """A kernel of element form with the compile-time parameter ``dtype``.

    It is the dtype in which numbers of the text take part. What a launch does not say of it is
    found in the launch's arguments: that of the arrays, so that float32 stays float32.

    Parameters
    ----------
    function : function
        With parameters for arrays and numbers, and the keyword-only ``dtype``.
    options : KernelOptions
        Of the kernel.
    outputs : collection of str
        Parameters that are written and not read, which say nothing of the dtype.
    needs_floats : bool
        Whether what is computed from integers may be no integer.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        options: KernelOptions,
        outputs: Iterable[str],
        needs_floats: bool,
    ) -> None:
        super().__init__(function, options)
        code = function.__code__
        self._parameters = code.co_varnames[: code.co_argcount]
        self._outputs = frozenset(outputs)
        self._needs_floats = needs_floats

    def _dtype_of(self, args: Iterable[Any], named: dict[str, Any]) -> Any:
        """Return the dtype for the arguments, or kinds, of a launch."""
        given = dict(zip(self._parameters, args, strict=False)) | named
        values = [
            each
            for name, each in given.items()
            if name in self._parameters and name not in self._outputs
        ]
        return computing_dtype(values, needs_floats=self._needs_floats)

    def _take(
        self, named: dict[str, Any], args: tuple[Any, ...] = ()
    ) -> tuple[Hashable, dict[str, Any]]:
        if "dtype" not in named:
            named["dtype"] = self._dtype_of(args, named)
        return super()._take(named, args)

    def _for(self, args: tuple[Any, ...]) -> Any:
        """Return the kernel with the dtype for arguments or a signature."""
        is_text = len(args) == 1 and is_signature(args[0])
        kinds = read_signature(args[0]) if is_text else args
        return self.member(dtype=self._dtype_of(kinds, {}))

    def artifact(self, *args: Any, **options: Any) -> Any:
        """Return the compiled code itself, with its forms, entry name and timings."""
        return self._for(args).artifact(*args, **options)

    def specialization(self, *args: Any, **options: Any) -> Any:
        """Return what :meth:`artifact` would compile, and what would do it."""
        return self._for(args).specialization(*args, **options)

    def launched(self, *args: Any, **options: Any) -> Any:
        """Return what a launch over an extent may compile, planned as the launch would be."""
        return self._for(args).launched(*args, **options)

    def __reduce__(self) -> Any:
        from kerneldsl.kernels.pickling import reduce_function

        return reduce_function(
            self, self.function, self.options, tuple(self._outputs), self._needs_floats
        )
