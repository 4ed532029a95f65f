"""The objects that stand in the place of decorated functions: kernels and device functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, ParamSpec, TypeVar

from kerneldsl.errors import LaunchConfigError
from kerneldsl.inspection import InspectionMixin
from kerneldsl.launch.together import ALONE, Together
from kerneldsl.launches import LaunchMixin
from kerneldsl.locks import ForkSafeLock
from kerneldsl.runtime.own import CopiedAsItself
from kerneldsl.target import CompileOptions

if TYPE_CHECKING:
    from kerneldsl.language.kinds import Kind
    from kerneldsl.launch.dispatch import Dispatcher
    from kerneldsl.runtime.specialization_info import SpecializationInfo
    from kerneldsl.target import Dim3
    from kerneldsl.timing import Timing

__all__ = ["DeviceFunction", "Kernel", "KernelOptions"]

P = ParamSpec("P")
R = TypeVar("R")

#: Held while a kernel is given its dispatcher.
_first_dispatcher = ForkSafeLock()


class KernelOptions(NamedTuple):
    """What ``@kd.kernel(...)`` was given; see :func:`kerneldsl.kernel`."""

    signature: tuple[Kind, ...] | None = None
    compile: CompileOptions = CompileOptions()
    block: Dim3 | None = None
    together: Together = ALONE


class Kernel(LaunchMixin, InspectionMixin, CopiedAsItself, Generic[P, R]):
    """A function that runs on a device, once for each thread. Made by :func:`kerneldsl.kernel`.

    Launch it with ``kernel.forall(n)(…)`` or ``kernel[grid, block](…)``.

    Attributes
    ----------
    function : callable
        The Python function.
    options : KernelOptions
        What the decorator was given.
    """

    __kerneldsl_kernel__ = True
    _made_dispatcher: Dispatcher | None = None

    def __init__(
        self,
        function: Callable[P, R],
        options: KernelOptions,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        if attributes := _attributes_of(function):
            # Only then: where nobody has asked for its __dict__, CPython finds methods sooner.
            self.__dict__.update(attributes)
        self.function = function
        self.options = options
        self._block = options.block
        self._run_together = options.together
        self._remember_launches()
        self._constant_values = constants
        self._made_dispatcher = None
        self.__qualname__: str

    @property
    def _dispatcher(self) -> Dispatcher:
        """What launches the kernel; one, whichever thread asks for it first."""
        found = self._made_dispatcher
        if found is None:
            # Decorating a function imports as little of kerneldsl as it can.
            from kerneldsl.launch.dispatch import Dispatcher
            from kerneldsl.launch.state import Definition, KernelStates

            options, constants = self.options, self._constant_values
            definition = Definition(self.function, options.compile, options.signature, constants)
            made = Dispatcher(KernelStates(definition))
            with _first_dispatcher:
                found = self._made_dispatcher = self._made_dispatcher or made
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: a kernel has to be told how many threads run it."""
        name = self.__qualname__
        raise LaunchConfigError(
            f"the kernel {name} was called without a shape",
            limit="A launch says how many threads run the kernel",
            remedy=f"Write {name}.forall(n)(…) or {name}[grid, block](…)",
        )

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

        See :meth:`Launch.time`.
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
        """What has been compiled of this kernel so far."""
        return self._dispatcher.infos()

    def __repr__(self) -> str:
        names = self.function.__code__.co_varnames[: self.function.__code__.co_argcount]
        count = len(self.specializations)
        compiled = f", compiled {count} times" if count > 1 else ", compiled once" if count else ""
        return f"<kernel {self.__module__}.{self.__qualname__}({', '.join(names)}){compiled}>"

    def __reduce__(self) -> Any:
        from kerneldsl.pickling import reduce_function

        return reduce_function(self, self.function, self.options, self._constant_values)


def _attributes_of(function: Any) -> dict[str, Any]:
    """A function's attributes, without what ``functools.wraps`` has copied from another kernel."""
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


class DeviceFunction(CopiedAsItself, Generic[P, R]):
    """A function that kernels call. Made by :func:`kerneldsl.func`; plain Python can call it, too.

    Attributes
    ----------
    function : callable
        The Python function.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        #: By this attribute the front end knows it.
        self.__kerneldsl_function__ = function
        self.__qualname__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the Python function; intrinsics in it are an error outside a kernel."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        names = self.function.__code__.co_varnames[: self.function.__code__.co_argcount]
        return f"<device function {self.__module__}.{self.__qualname__}({', '.join(names)})>"

    def __reduce__(self) -> Any:
        from kerneldsl.pickling import reduce_function

        return reduce_function(self, self.function)
