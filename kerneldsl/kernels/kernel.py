"""Kernels and device functions: the objects that replace decorated functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, TypeVar

from kerneldsl.contract import CompileOptions
from kerneldsl.errors import LaunchConfigError
from kerneldsl.kernels.configuring import NativeForms
from kerneldsl.kernels.inspection import InspectionMixin
from kerneldsl.launch.attributes import NO_ATTRIBUTES, LaunchAttributes
from kerneldsl.utilities.locks import ForkSafeLock, no_fork
from kerneldsl.utilities.process_owned import CopiedAsItself, public_names
from kerneldsl.utilities.shown import LikeFunction, Shown, ShownTuple
from kerneldsl.utilities.tracebacks import shorten_errors

if TYPE_CHECKING:
    from kerneldsl.contract import Artifact, Dim3
    from kerneldsl.frontend.linked_code import LinkedCode
    from kerneldsl.language.kinds import Kind
    from kerneldsl.launch.dispatch import Dispatcher
    from kerneldsl.launch.specialization_info import SpecializationInfo
    from kerneldsl.launch.state import Definition
    from kerneldsl.launch.timing import Timing
    from kerneldsl.launch.tuning_policy import TuningPolicy

__all__ = ["DeviceFunction", "Kernel", "KernelOptions"]

P = ParamSpec("P")
R = TypeVar("R")

#: Names that the command line uses; interpreters do not complete these.
_INTERNAL = frozenset({"artifact", "launched", "specialization"})

#: Held while a kernel is given its dispatcher.
_first_dispatcher = ForkSafeLock()


class KernelOptions(NamedTuple):
    """Options of ``@kd.kernel(...)``; see :func:`kerneldsl.kernel`."""

    signatures: tuple[tuple[Kind, ...], ...] = ()
    compile: CompileOptions = CompileOptions()
    block: Dim3 | None = None
    launch_attributes: LaunchAttributes = NO_ATTRIBUTES


class Kernel(NativeForms[P], InspectionMixin, LikeFunction, CopiedAsItself, Shown, Generic[P, R]):
    """A function that runs on a device, once for each thread.

    Made by :func:`kerneldsl.kernel`. Launch it with ``kernel.forall(n)(…)`` or
    ``kernel[grid, block](…)``.

    Attributes
    ----------
    function : callable
        The Python function.
    options : KernelOptions
        The options of the decorator.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def negate(x):
    ...     x[kd.grid(1)] *= -1
    >>> x = np.array([1.0, -2.0])
    >>> negate.forall(x.size)(x)
    >>> x
    array([-1.,  2.])
    """

    __kerneldsl_kernel__ = True
    _made_dispatcher: Dispatcher | None = None
    #: The tuning policy of this kernel, if it has one.
    _tuning: TuningPolicy | None = None

    def __init__(
        self,
        function: Callable[P, R],
        options: KernelOptions,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        wrapper: Any = self
        functools.update_wrapper(wrapper, function, updated=())
        if attributes := _attributes_of(function):
            # An object without a __dict__ is kept without one: CPython finds its methods faster.
            self.__dict__.update(attributes)
        self.function = function
        self.options = options
        self._block = options.block
        self._launch_attributes = options.launch_attributes
        self._remember_launches()
        self._constant_values = constants
        self._made_dispatcher = None
        self.__qualname__: str

    @property
    def _dispatcher(self) -> Dispatcher:
        """The dispatcher of the kernel, made at the first use and shared by all threads."""
        found = self._made_dispatcher
        if found is None:
            # Decorating a function imports as little of kerneldsl as it can.
            with no_fork:  # a child would wait for the import for ever
                try:
                    make = self._dispatcher_class()
                    from kerneldsl.launch.state import Definition
                except ImportError as error:
                    from kerneldsl.utilities.half_imported import refuse_half_imported

                    refuse_half_imported(error, self.__qualname__)
                    raise

            made = make(self._define(Definition))
            with _first_dispatcher:
                found = self._made_dispatcher = self._made_dispatcher or made
        return found

    def _dispatcher_class(self) -> type[Dispatcher]:
        from kerneldsl.launch.dispatch import Dispatcher

        return Dispatcher

    def _define(self, make: type[Definition]) -> Definition:
        """Return what the kernel's states are made from."""
        options = self.options
        return make(self.function, options.compile, options.signatures, self._constant_values)

    def _tune_by(self, policy: TuningPolicy) -> None:
        """Let first launches of this kernel be tuned under a policy."""
        self._tuning = policy
        self._remember_launches()  # those made so far are without

    def __dir__(self) -> list[str]:
        return public_names(super().__dir__(), _INTERNAL)

    def _member_of_block(self, block: Any) -> Kernel[Any, Any]:
        """Return the kernel to inspect: for a kernel with a space, the member with this block."""
        return self

    # Type checkers see no __call__, so that a call is an error on its line. After a call that never
    # returns, the following lines would not be checked.
    if not TYPE_CHECKING:

        @shorten_errors
        def __call__(self, *args: Any, **kwargs: Any) -> None:
            """Refuse: a launch needs the number of threads."""
            name = self.__qualname__
            raise LaunchConfigError(
                f"the kernel {name} was called without a launch configuration",
                limit="A launch needs the number of threads that run the kernel",
                remedy=f"Write {name}.forall(n)(…) or {name}[grid, block](…)",
            )

    @shorten_errors
    def time(
        self,
        *args: Any,
        forall: int | tuple[int, ...] | None = None,
        grid: int | tuple[int, ...] | None = None,
        block: int | tuple[int, ...] | None = None,
        shared_bytes: int = 0,
        samples: int = 7,
    ) -> Timing:
        """Measure the time of a launch over an extent (`forall`), or with a `grid` and `block`.

        The kernel runs many times over the same arguments. See :meth:`Launch.time`.

        Parameters
        ----------
        *args
            The arguments of the kernel.
        forall : int or tuple of int, optional
            The extent. Give either this or `grid` and `block`.
        grid, block : int or tuple of int, optional
            The grid in blocks, and the block in threads.
        shared_bytes : int, optional
            Dynamic shared memory of a block, in bytes.
        samples : int, optional
            Number of samples, up to 100,000.

        Returns
        -------
        Timing

        Raises
        ------
        LaunchConfigError
            If both `forall` and `grid` are given, or neither.

        Examples
        --------
        >>> import numpy as np
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def negate(x):
        ...     x[kd.grid(1)] *= -1
        >>> timing = negate.time(np.ones(1000), forall=1000, samples=3)
        >>> timing.samples, timing.median_ns > 0
        (3, True)
        """
        if (forall is None) == (grid is None):
            raise LaunchConfigError(
                "time() needs either forall= or grid= and block=",
                remedy=f"Write {self.__qualname__}.time(…, forall=n), or "
                f"{self.__qualname__}.forall(n).time(…)",
            )
        if forall is not None:
            launch = self.forall(
                *(forall if isinstance(forall, tuple) else (forall,)),
                block=block,
                shared_bytes=shared_bytes,
            )
        else:
            launch = self[grid, block, None, shared_bytes]
        return launch.time(*args, samples=samples)

    # ------------------------------------------------------------------ looking

    @property
    def specializations(self) -> tuple[SpecializationInfo, ...]:
        """The specializations of this kernel that were compiled in this process."""
        return ShownTuple(self._dispatcher.infos())

    def _compiled(self) -> tuple[tuple[str, Artifact], ...]:
        """Return the target and the code of each specialization so far."""
        return self._dispatcher.compiled()

    def __repr__(self) -> str:
        names = self.function.__code__.co_varnames[: self.function.__code__.co_argcount]
        count = len(self.specializations)
        compiled = f", compiled {count} times" if count > 1 else ", compiled once" if count else ""
        return f"<kernel {self.__module__}.{self.__qualname__}({', '.join(names)}){compiled}>"

    def __reduce__(self) -> Any:
        from kerneldsl.kernels.pickling import reduce_function

        return reduce_function(self, self.function, self.options, self._constant_values)


def _attributes_of(function: Any) -> dict[str, Any]:
    """Return a function's attributes, without those ``functools.wraps`` copied from a kernel."""
    found = dict(vars(function))
    seen = [function]
    while isinstance(wrapped := vars(seen[-1]).get("__wrapped__"), (Kernel, FunctionType)):
        if any(wrapped is each for each in seen):
            break
        if isinstance(wrapped, Kernel):
            for name in vars(wrapped).keys() - vars(wrapped.function).keys():
                found.pop(name, None)
        seen.append(wrapped)
    return found


class DeviceFunction(LikeFunction, CopiedAsItself, Shown, Generic[P, R]):
    """A function that kernels call; plain Python can call it as well.

    Made by :func:`kerneldsl.func`.

    Attributes
    ----------
    function : callable
        The Python function.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> @kd.func
    ... def square(x):
    ...     return x * x
    >>> square(3)
    9
    """

    def __init__(self, function: Callable[P, R], code: LinkedCode | None = None) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        #: Attributes by which the front end recognizes the function.
        self.__kerneldsl_function__ = function
        self.__kerneldsl_linked__ = code
        self.__qualname__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the Python function; intrinsics in it are an error outside a kernel.

        NumPy's integers wrap around without a warning, as in a kernel.
        """
        import numpy as np  # not before: decorators do without it

        with np.errstate(over="ignore"):
            return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        names = self.function.__code__.co_varnames[: self.function.__code__.co_argcount]
        return f"<device function {self.__module__}.{self.__qualname__}({', '.join(names)})>"

    def __reduce__(self) -> Any:
        from kerneldsl.kernels.pickling import reduce_function

        code = self.__kerneldsl_linked__
        return reduce_function(self, self.function, *(() if code is None else (code,)))
