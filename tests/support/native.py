"""Launches by native code: whether they were, and targets without hardware that take them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import kerneldsl.kernels.kernel  # noqa: F401 -- its methods are among those that become native
from kerneldsl.contract import DriverEntry, Holds, LaunchConfig
from kerneldsl.kernels import launches
from kerneldsl.launch.native import machine
from tests.support.fake_target import FakeTarget, _Executable

__all__ = [
    "NativeFakeTarget",
    "fill_budgets",
    "is_native",
    "require_native",
    "require_native_forms",
    "warm_up",
]


def require_native() -> None:
    """Put native code in its place now; skips, with its reason, where that is refused."""
    if not launches._install():
        pytest.skip(f"no native launches here: {machine._refusal}")


def require_native_forms() -> None:
    """Put those of forms in their place, too."""
    require_native()
    machine.install_forms()


@contextmanager
def is_native(launch: Any, *, expected: bool = True) -> Iterator[None]:
    """A ``with`` block whose launches are made by native code, or by none of it."""
    before = launch._slow_count
    yield
    by_python = launch._slow_count - before
    assert (by_python == 0) == expected, f"{by_python} launches went through Python"


def warm_up(launch: Any, *args: Any) -> None:
    """Launch until native code repeats it, if it can, and none of the next ones is due for timing.

    The counters' budgets are filled, so that what follows goes through Python for one reason
    alone: that it does not fit.
    """
    for _ in range(3):
        launch(*args)
    fill_budgets(launch)


def fill_budgets(launch: Any) -> None:
    """Let no launch be due for timing."""
    for table in launch._tables:
        table.counter.words[1] = 10_000_000


_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_size_t, *(ctypes.c_uint,) * 7, *(ctypes.c_size_t,) * 3
)
_CONTEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t)


class _NativeExecutable(_Executable):
    target: NativeFakeTarget

    def native_entry(self, config: LaunchConfig) -> DriverEntry:
        target = self.target

        def launch(function: int, *rest: int) -> int:
            target.native_launches += 1
            if target.status == 0:
                self.launch(config, _parameters(rest[-1]))
            return target.status

        kept = _LAUNCH(launch)
        return DriverEntry(
            launch=_address(kept),
            get_context=_address(target.get_context),
            set_context=_address(target.set_context),
            context=target.contexts[self.device.index],
            may_stay=self.device.index == 0,
            function=7,
            grid_dim=config.grid_dim,
            block_dim=config.block_dim,
            shared_bytes=config.shared_bytes,
            stream=0,
            note=target.notes.append,
            noted=self.artifact.entry_name,
            holds=(Holds(target.health, "is_well", True),),
            keep=(kept, target),
        )


class NativeFakeTarget(FakeTarget):
    """A fake target whose kernels native code can start.

    Attributes
    ----------
    status : int
        What its driver answers.
    native_launches : int
        How often native code has asked it to launch.
    current : int
        The current context.
    switches : list of int
        Contexts that were made current, in order.
    notes : list
        What was noted after launches.
    health : dict
        Native launches are good while ``is_well`` is ``True``.
    """

    executable = _NativeExecutable

    def __init__(self, name: str = "fake", **options: Any) -> None:
        super().__init__(name, **options)
        self.status = 0
        self.native_launches = 0
        self.contexts = [0x100 + device.index for device in self.found]
        self.current = 0
        self.switches: list[int] = []
        self.notes: list[str] = []
        self.health = {"is_well": True}

        def get_context(out: int) -> int:
            ctypes.c_size_t.from_address(out).value = self.current
            return 0

        def set_context(context: int) -> int:
            self.current = context
            self.switches.append(context)
            return 0

        self.get_context = _CONTEXT(get_context)
        self.set_context = _CONTEXT(set_context)


def _parameters(extra: int) -> bytes:
    """What the `extra` argument of cuLaunchKernel points to: tag, buffer, tag, size, end."""
    if not extra:
        return b""
    words = (ctypes.c_size_t * 5).from_address(extra)
    assert (words[0], words[2], words[4]) == (1, 2, 0)
    return ctypes.string_at(words[1], ctypes.c_size_t.from_address(words[3]).value)


def _address(function: Callable[..., Any]) -> int:
    found = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
    assert found is not None
    return found
