"""Launch configurations, the one that a kernel is being compiled for, and the launches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dis import get_instructions
from functools import partial
from pickle import PicklingError
from typing import Any, ClassVar

import numpy as np

from kerneldsl.compat.numba_cuda.arguments import (
    adapt,
    aligned,
    at_address,
    kinds_of_arguments,
    members,
    wrapped,
    write_back,
)
from kerneldsl.compat.numba_cuda.arrays import DeviceNDArray, DeviceRecord
from kerneldsl.compat.numba_cuda.errors import translated
from kerneldsl.compat.numba_cuda.launches import warn_of_host_arrays
from kerneldsl.compat.numba_cuda.overloads import Overload
from kerneldsl.compat.numba_cuda.typing import argument_types, check_overloads
from kerneldsl.errors import ArgumentTypeError, KernelError
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.launch.arguments.binding import kinds_of
from kerneldsl.launch.dispatch import Dispatcher
from kerneldsl.launch.shape import LaunchShape
from kerneldsl.utilities.cached_property import cached_property

__all__ = [
    "Configuration",
    "NumbaDispatcher",
    "capture_compile_config",
    "compiling",
    "current_launch_config",
    "ensure_current_launch_config",
    "now",
    "overload_of_launch",
]


class _OfThread(threading.local):
    """The launch of this thread: its arguments; while they are compiled for, the rest as well."""

    args: tuple[Any, ...] | None = None
    config: Configuration | None = None
    overload: Overload | None = None


now = _OfThread()


class Configuration(LaunchShape):
    """The shape of a launch, with numba.cuda's names; launches have them, too."""

    __slots__ = ("_callbacks", "dispatcher")
    #: numba.cuda's names for parts of the shape, which launches have.
    names: ClassVar[dict[str, str]] = {
        "args": "args",
        "blockdim": "block_dim",
        "dispatcher": "dispatcher",
        "griddim": "grid_dim",
        "pre_launch_callbacks": "pre_launch_callbacks",
        "sharedmem": "shared_bytes",
        "stream": "stream",
    }

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._callbacks: list[Callable[[Any, Any], Any]] | None = None
        #: The kernel, of grid and block.
        self.dispatcher: Any = None

    def __getattr__(self, name: str) -> Any:
        if name not in self.names:
            raise AttributeError(f"a launch configuration has no attribute {name!r}")
        return getattr(self, self.names[name])

    @property
    def args(self) -> tuple[Any, ...] | None:
        """The arguments of the launch that this thread makes; ``None`` outside of launches."""
        return now.args

    @property
    def pre_launch_callbacks(self) -> list[Callable[[Any, Any], Any]]:
        """Functions that are called before each launch, as ``callback(kernel, configuration)``."""
        if self._callbacks is None:
            self._callbacks = []
        return self._callbacks

    def call_back(self, args: tuple[Any, ...]) -> None:
        """Call the callbacks; `args` are as kerneldsl takes them."""
        if self._callbacks:
            types = argument_types(kinds_of_arguments(args))
            for callback in self._callbacks:
                callback(Overload(self.dispatcher, types), self)

    @property
    def is_repeatable(self) -> bool:
        """False if each launch calls a function, or is one of another kernel."""
        depends = getattr(self.dispatcher, "_launch_config_sensitive", False)
        return self._callbacks is None and not depends

    @property
    def pickled(self) -> tuple[Any, ...]:
        """The arguments of a launch that another process makes again."""
        if self._callbacks:
            raise PicklingError("Cannot pickle configured launches with pre-launch callbacks")
        return self.values

    @property
    def values(self) -> tuple[Any, ...]:
        """The values that code may depend on."""
        return self.grid_dim, self.block_dim, self.shared_bytes


@contextmanager
def compiling(config: Configuration, overload: Overload) -> Iterator[None]:
    """Make a configuration the current one of this thread, and what is compiled for it."""
    before = now.config, now.overload
    now.config, now.overload = config, overload
    try:
        yield
    finally:
        now.config, now.overload = before


def overload_of_launch() -> Overload | None:
    """Return what this thread compiles for a launch, if it does."""
    return now.overload


def current_launch_config() -> Configuration | None:
    """Return the configuration that this thread compiles a kernel for, if it does."""
    return now.config


def ensure_current_launch_config() -> Configuration:
    """Return the configuration that this thread compiles a kernel for; raise if it does not."""
    if now.config is None:
        raise RuntimeError("No launch config set for this thread")
    return now.config


@contextmanager
def capture_compile_config(dispatcher: Any) -> Iterator[dict[str, Any]]:
    """Give a dict; its ``"config"`` is the configuration that a launch in the block compiles for.

    It is ``None`` if the kernel has been compiled before.
    """
    if dispatcher is None:
        raise TypeError("dispatcher is required")
    found: dict[str, Any] = {"config": None}
    before = vars(dispatcher).get("_compile_for_args")
    compile_for_args = dispatcher._compile_for_args

    def noting(*args: Any, **named: Any) -> Any:
        found["config"] = current_launch_config()
        return compile_for_args(*args, **named)

    dispatcher._compile_for_args = noting
    try:
        yield found
    finally:
        if before is None:
            del dispatcher._compile_for_args
        else:
            dispatcher._compile_for_args = before


class NumbaDispatcher(Dispatcher):
    """Launch with numba.cuda's kinds of arguments, and raise its errors."""

    extensions: Sequence[Any] = ()
    pointers: frozenset[int] = frozenset()

    def launch(self, shape: Any, args: tuple[Any, ...], instead: Any = None) -> None:
        """Launch, as :meth:`Dispatcher.launch` does."""
        after: list[Callable[[], Any]] = []
        before, now.args = now.args, args
        try:
            is_special = not shape.is_repeatable
            if is_special:
                chosen = shape.dispatcher._kernel_for(shape)._dispatcher
                if chosen is not self:
                    chosen.launch(shape, args, instead)
                    return
            given = self.adapted(args, shape.stream, after)
            if constants := self._constants_of(args):
                shape, chosen = copy(shape), shape.dispatcher._for_members(constants)
                shape.dispatcher = chosen
                given = tuple(each for n, each in enumerate(given) if n not in constants)
                chosen._dispatcher.launch(shape, given, instead)
            else:
                if is_special:
                    shape.call_back(given)
                super().launch(shape, given, instead)
        except KernelError as error:
            found = translated(error, self.definition.function)
            if isinstance(error, ArgumentTypeError) and len(self.definition.signatures) > 1:
                found = TypeError(f"No matching definition for argument type(s): {error}")
            if found is error:
                raise
            raise found from error
        finally:
            now.args = before
        for each in after:
            each()

    def _constants_of(self, args: tuple[Any, ...]) -> dict[int, Any]:
        """Return the members of enumerations that are constants of the kernel, by position."""
        if self.definition.signatures or self.extensions:
            return {}
        return members(args, numbers=self._compares_identity)

    @cached_property
    def _compares_identity(self) -> bool:
        """True if the kernel's own code has ``is``: of members, equal numbers are not the same."""
        return any(each.opname == "IS_OP" for each in get_instructions(self.definition.function))

    def _prepare(self, request: Any) -> Any:
        """Make what a launch starts; while it is compiled, the launch is the current one."""
        shape = request.shape
        is_launch = isinstance(shape, Configuration) and shape.dispatcher is not None
        if not is_launch or request.key in request.state.loaded:
            return super()._prepare(request)
        kernel = shape.dispatcher._kernel_for(shape)
        found = argument_types(kinds_of(request.binding.codes))
        with compiling(shape, overload := Overload(kernel, found)):
            if found not in kernel.overloads:
                kernel._compile_for_args(*(shape.args or ()))
                overload.dump()
            return super()._prepare(request)

    def _hidden_of(self, unit: Any) -> tuple[Any, ...]:
        if self.definition.store is not None:
            raise PicklingError(
                "cannot pickle global device arrays: a kernel with cache=True uses device arrays "
                "from outside. Pass them as arguments, or leave out cache=True"
            )
        return tuple(map(adapt, unit.hidden))

    def find(self, shape: Any, args: tuple[Any, ...], *, make: bool = False) -> Any:
        """Find what native code repeats: a launch with arguments that need no conversion."""
        if self.extensions or self._constants_of(args) or self.adapted(args, None, []) is not args:
            return None
        return super().find(shape, args, make=make)

    def adapted(
        self, args: tuple[Any, ...], stream: Any, after: list[Callable[[], Any]]
    ) -> tuple[Any, ...]:
        """Return the arguments as kerneldsl takes them, the same tuple if they are."""
        if self.extensions:
            args = tuple(self._extended(each, stream, after) for each in args)
        signatures = self.definition.signatures
        # The core refuses another number of arguments, by their names.
        fits_one = len(signatures) == 1 and len(signatures[0]) == len(args)
        if self.pointers and fits_one:
            kinds = enumerate(zip(args, signatures[0], strict=True))
            args = tuple(at_address(a, k) if n in self.pointers else a for n, (a, k) in kinds)
        warn_of_host_arrays(args)
        if any(isinstance(each, np.void | DeviceRecord) for each in args):
            args = self._with_written_records(args, after)
        made = tuple(aligned(adapt(each), after) for each in args)
        if fits_one:
            made = tuple(map(wrapped, made, signatures[0]))
        elif len(signatures) > 1:
            self._refuse_ambiguous(made)
        is_same = all(a is b for a, b in zip(made, args, strict=True))
        return args if is_same else made

    def _refuse_ambiguous(self, args: tuple[Any, ...]) -> None:
        """Raise for arguments that two signatures take equally well, as numba.cuda does."""
        signatures = self.definition.signatures
        kinds = kinds_of_arguments(args)
        if kinds not in signatures:
            known = map(argument_types, signatures)
            check_overloads(self.definition.function, known, argument_types(kinds))

    def _with_written_records(
        self, args: tuple[Any, ...], after: list[Callable[[], Any]]
    ) -> tuple[Any, ...]:
        """Return arguments in which records that the kernel may write are arrays without axes."""
        written = self.state().traits.written.union(
            n
            for kinds in self.definition.signatures
            for n, kind in enumerate(kinds)
            if isinstance(kind, ArrayKind) and not kind.ndim
        )
        found = list(args)
        for position in written.intersection(range(len(args))):
            value = args[position]
            if isinstance(value, DeviceRecord):
                found[position] = DeviceNDArray.over(value)
            elif isinstance(value, np.void):
                found[position] = memory = np.array(value)
                after.append(partial(write_back, value, memory))
        return tuple(found) if written else args

    def _extended(self, value: Any, stream: Any, after: list[Callable[[], Any]]) -> Any:
        kind: Any = None
        for extension in reversed(self.extensions):
            kind, value = extension.prepare_args(kind, value, stream=stream or 0, retr=after)
        return value
