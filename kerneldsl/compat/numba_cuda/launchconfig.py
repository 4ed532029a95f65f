"""Launch configurations, and the one that a kernel is being compiled for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pickle import PicklingError
from typing import Any, ClassVar

from kerneldsl.compat.numba_cuda.arguments import kinds_of_arguments
from kerneldsl.compat.numba_cuda.overloads import Overload
from kerneldsl.compat.numba_cuda.typing import argument_types
from kerneldsl.launch.shape import LaunchShape

__all__ = [
    "Configuration",
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
