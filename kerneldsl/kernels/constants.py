"""Kernels with compile-time parameters that each launch gives: ``kernel.forall(n)(x, width=4)``.

Each combination of values is a :class:`~kerneldsl.kernels.kernel.Kernel` with constants, as a
member of a space is. This module finds it by the values.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, KernelError
from kerneldsl.errors.values import a_type, safe_repr
from kerneldsl.kernels.kernel import Kernel, KernelOptions
from kerneldsl.kernels.launches import BoundLaunch, Launch, make_launch
from kerneldsl.language.other_names import closest_name
from kerneldsl.utilities.shown import ShownTuple
from kerneldsl.utilities.tracebacks import shorten, shorten_errors

if TYPE_CHECKING:
    from kerneldsl.contract import Artifact
    from kerneldsl.launch.dispatch import Dispatcher
    from kerneldsl.launch.shape import LaunchShape
    from kerneldsl.launch.specialization_info import SpecializationInfo
    from kerneldsl.launch.timing import Timing
    from kerneldsl.launch.tuning_policy import TuningPolicy
    from kerneldsl.planner.plan import LaunchPlan
    from kerneldsl.tuning.report import TuningReport

__all__ = ["MAX_KERNELS", "ParameterizedKernel", "keyword_only_names"]

#: Combinations of values that are remembered, of a kernel and of each launch.
MAX_KERNELS = 256
_LIMIT = (
    "A compile-time parameter takes numbers, bools, strings, dtypes, functions, and tuples of these"
)


def keyword_only_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's keyword-only parameters, which are compile-time ones."""
    parameters = inspect.signature(function).parameters.values()
    return tuple(each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY)


class ParameterizedKernel(Kernel[Any, Any]):
    """A kernel with keyword-only parameters; their values are compiled into it.

    Made by ``@kd.kernel`` of a function with keyword-only parameters. A launch gives their values
    by name, ``kernel.forall(n)(x, width=4)``; new values are compiled at their first launch. To
    inspect compiled code, use :meth:`member`.
    """

    def __init__(self, function: Callable[..., Any], options: KernelOptions) -> None:
        super().__init__(function, options)
        self._names = keyword_only_names(function)
        self._defaults: dict[str, Any] = function.__kwdefaults__ or {}
        self._kernels: dict[Hashable, Kernel[Any, Any]] = {}

    @shorten_errors
    def member(self, **values: Any) -> Kernel[Any, Any]:
        """Return the kernel with these compile-time parameters; its launches give none.

        Parameters
        ----------
        **values
            Of all parameters without a default.

        Returns
        -------
        Kernel

        Raises
        ------
        ArgumentTypeError
            If a parameter is missing or unknown, or its value is of a type that cannot be compiled.
        ArgumentValueError
            If a value cannot be compiled, such as an int beyond 64 bits.

        Examples
        --------
        >>> import numpy as np
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def scale(x, *, factor):
        ...     x[kd.grid(1)] *= factor
        >>> x = np.ones(3)
        >>> scale.forall(3)(x, factor=4)
        >>> scale.member(factor=2).forall(3)(x)
        >>> x
        array([8., 8., 8.])
        """
        unknown = [name for name in values if name not in self._names]
        if unknown:
            near = closest_name(unknown[0], self._names)
            raise ArgumentTypeError(
                f"{self.__qualname__}.member was given {unknown[0]!r}",
                value=unknown[0],
                limit=f"The compile-time parameters are {', '.join(self._names)}",
                remedy=f"Write {near}=…" if near else None,
            )
        return self._kernel_of(*self._take(values))

    def _take(
        self, named: dict[str, Any], args: tuple[Any, ...] = ()
    ) -> tuple[Hashable, dict[str, Any]]:
        """Remove the compile-time parameters from arguments by name; return a key of their values.

        Values that are equal to a program, to the bit and by their types, have the same key. `args`
        are the arguments by position, for kernels that find a value in them.
        """
        constants = {}
        for name in self._names:
            if name in named:
                constants[name] = named.pop(name)
            elif name in self._defaults:
                constants[name] = self._defaults[name]
            else:
                self._refuse_missing(name, named)
        return tuple([_key_of(value, name) for name, value in constants.items()]), constants

    def check_names(self, named: Iterable[str]) -> None:
        """Refuse arguments by name that the function does not have."""
        parameters = inspect.signature(self.function).parameters
        unknown = next((name for name in named if name not in parameters), None)
        if unknown is None:
            return
        near = closest_name(unknown, parameters)
        others = ", ".join(name for name in parameters if name not in self._names)
        raise ArgumentTypeError(
            f"{self.__qualname__} was given the argument {unknown!r} that it does not have",
            value=unknown,
            limit=f"Its parameters are ({others}), and by name {', '.join(self._names)}",
            remedy=f"Write {near}=…" if near else "Leave it out",
        )

    def _refuse_missing(self, name: str, named: dict[str, Any]) -> NoReturn:
        parameters = inspect.signature(self.function).parameters
        near = closest_name(name, [each for each in named if each not in parameters])
        if near is not None:
            self.check_names([near])
        positional = next(iter(parameters))
        given = ", ".join(f"{each}=…" for each in self._names if each not in self._defaults)
        raise ArgumentTypeError(
            f"{self.__qualname__}: the compile-time parameter {name!r} has no value",
            value=name,
            limit="Keyword-only parameters are compile-time constants, which each launch gives",
            remedy=f"Name it in the launch, {self.__qualname__}.forall(n)({positional}, …, {given})"
            f", or beforehand, {self.__qualname__}.member({given})",
        )

    def _kernel_of(self, key: Hashable, constants: dict[str, Any]) -> Kernel[Any, Any]:
        known = self._kernels.get(key)
        if known is None:
            if len(self._kernels) >= MAX_KERNELS:
                self._kernels.clear()
            _check_values(constants)
            made = self._make(constants)
            if self._tuning is not None:
                made._tune_by(self._tuning)
            known = self._kernels.setdefault(key, made)
        return known

    def _make(self, constants: dict[str, Any]) -> Kernel[Any, Any]:
        return Kernel(self.function, self.options, constants)

    def _tune_by(self, policy: TuningPolicy) -> None:
        super()._tune_by(policy)
        for each in tuple(self._kernels.values()):
            each._tune_by(policy)

    @property
    def _dispatcher(self) -> Dispatcher:
        return self.member()._dispatcher

    def _make_launch(
        self, shape: LaunchShape, known: dict[Any, Launch[Any]], key: Any
    ) -> Launch[Any]:
        return self._remember(_ParameterizedLaunch(self, shape), known, key)

    def _member_of_block(self, block: Any) -> Kernel[Any, Any]:
        return self.member()

    @property
    def specializations(self) -> tuple[SpecializationInfo, ...]:
        """Compiled specializations of this kernel so far, of all values."""
        return ShownTuple(
            info for each in tuple(self._kernels.values()) for info in each.specializations
        )

    def _compiled(self) -> tuple[tuple[str, Artifact], ...]:
        return tuple(made for each in tuple(self._kernels.values()) for made in each._compiled())

    def __reduce__(self) -> Any:
        from kerneldsl.kernels.pickling import reduce_function

        return reduce_function(self, self.function, self.options)


class _ParameterizedLaunch(Launch[Any]):
    """A launch that gets the compile-time parameters with its arguments."""

    __slots__ = ("_launches",)

    kernel: ParameterizedKernel

    def __init__(self, kernel: ParameterizedKernel, shape: LaunchShape) -> None:
        self.kernel = kernel
        self._shape = shape
        self._tables = ()
        self._launches: dict[Hashable, Launch[Any]] = {}

    def _of(self, args: tuple[Any, ...], named: dict[str, Any]) -> Launch[Any]:
        """Return the launch of a kernel with constants, which are removed from `named`."""
        key, constants = self.kernel._take(named, args)
        found = self._launches.get(key)
        if found is None:
            if len(self._launches) >= MAX_KERNELS:
                self._launches.clear()
            made = make_launch(self.kernel._kernel_of(key, constants), self._shape)
            found = self._launches.setdefault(key, made)
        return found

    def __call__(self, *args: Any, **named: Any) -> None:
        """Launch the kernel with compile-time parameters and arguments."""
        try:
            launch = self._of(args, named)
            if named:
                self.kernel.check_names(named)
            launch(*args, **named)
        except KernelError as error:
            shorten(error)
            raise

    @shorten_errors
    def bind(self, *args: Any, **named: Any) -> BoundLaunch:
        launch = self._of(args, named)
        self.kernel.check_names(named)
        return launch.bind(*args, **named)

    @shorten_errors
    def plan(self, *args: Any, **named: Any) -> LaunchPlan:
        return self._of(args, named).plan(*args, **named)

    @shorten_errors
    def plans(self, *args: Any, **named: Any) -> tuple[LaunchPlan, ...]:
        return self._of(args, named).plans(*args, **named)

    @shorten_errors
    def time(self, *args: Any, samples: int = 7, **named: Any) -> Timing:
        return self._of(args, named).time(*args, samples=samples, **named)

    @shorten_errors
    def tune(self, *args: Any, **named: Any) -> TuningReport:
        return self._of(args, named).tune(*args, **named)


def _key_of(value: Any, name: str) -> Hashable:
    """Return a key that only the same value has: 1, 1.0 and True, or 0.0 and -0.0, differ."""
    kind = type(value)
    if kind in (int, bool, str) or value is None:
        return kind, value
    if kind is float:
        return kind, struct.pack("d", value)
    if kind is complex:
        return kind, struct.pack("dd", value.real, value.imag)
    if isinstance(value, tuple):
        return kind, tuple([_key_of(each, name) for each in value])
    if isinstance(value, np.generic):
        return kind, value.tobytes()
    if isinstance(value, list | dict | set | bytearray | np.ndarray):
        what = "an array" if isinstance(value, np.ndarray) else a_type(value)
        raise ArgumentTypeError(
            f"the compile-time parameter {name!r} was given {what}",
            value=value,
            limit=_LIMIT,
            remedy="Give a tuple"
            if isinstance(value, list)
            else f"Pass it as an argument: name {name} before the *",
        )
    return kind, value


def _check_values(constants: dict[str, Any]) -> None:
    from kerneldsl.frontend.captured import constant_problem, is_constant

    for name, value in constants.items():
        problem = constant_problem(value) if is_constant(value) else None
        if problem is not None:
            what, remedy = problem
            raise ArgumentValueError(
                f"the compile-time parameter {name!r} {what}", value=value, remedy=remedy
            )
        if not is_constant(value) and not _is_named(value):
            from kerneldsl.frontend.outside_values import WRITE_FUNCTION, is_bound

            raise ArgumentTypeError(
                f"the compile-time parameter {name!r} is {_shown(value)}, of type "
                f"{type(value).__name__}",
                value=value,
                limit=_LIMIT,
                # A lambda can call functions of libraries only.
                remedy=WRITE_FUNCTION
                if is_bound(value) or not hasattr(value, "__name__")
                else "Pass a lambda that calls it",
            )


def _shown(value: Any) -> str:
    """Return the name of a function, else the repr of a value."""
    return getattr(value, "__qualname__", None) or safe_repr(value)


def _is_named(value: Any) -> bool:
    """Return whether a kernel can use a value by its name: a dtype, a function or a tuple."""
    from kerneldsl.frontend.captured import is_constant
    from kerneldsl.frontend.foreign import is_dispatcher
    from kerneldsl.frontend.resolve import device_function
    from kerneldsl.frontend.statics import dtype_name
    from kerneldsl.language.packed_numbers import PackedNumbers

    if isinstance(value, tuple):
        return all(is_constant(each) or _is_named(each) for each in value)
    is_function = device_function(value) is not None or is_dispatcher(value)
    is_name = is_function or dtype_name(value) is not None
    return is_name or isinstance(value, PackedNumbers)
