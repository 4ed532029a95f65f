"""Errors of launches: arguments, shapes, targets, devices and their resources."""

from __future__ import annotations

from typing import Any, Self

from kerneldsl.errors.base import KernelError, KernelWarning

__all__ = [
    "ArgumentError",
    "ArgumentOverflowError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "AttributeUnavailableError",
    "CacheError",
    "CacheWarning",
    "ClosedResourceError",
    "DeviceMismatchError",
    "FallbackWarning",
    "GraphError",
    "LaunchConfigError",
    "NotShippedError",
    "ReadOnlyArrayError",
    "ResourceLimitError",
    "ShadowedPackageError",
    "TargetUnavailableError",
    "UnknownTargetError",
]


class ArgumentError(KernelError):
    """Something is wrong with an argument of a launch."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of a type, dtype or rank that the kernel cannot take."""


class ArgumentValueError(ArgumentError, ValueError):
    """An argument is of the right type, but its value cannot be used."""


class ArgumentOverflowError(ArgumentValueError, OverflowError):
    """A number is larger, or smaller, than its type can hold."""


class ReadOnlyArrayError(ArgumentValueError):
    """A read-only array is written by the kernel."""


class DeviceMismatchError(ArgumentValueError):
    """Arguments, or the active ``kd.use``, name different devices."""


class LaunchConfigError(KernelError, ValueError):
    """Grid, block or dynamic shared memory are impossible on this device."""


class ResourceLimitError(LaunchConfigError):
    """The compiled kernel needs more of a resource than the device has."""


class UnknownTargetError(KernelError, ValueError):
    """No target of that name is known."""


class CacheError(KernelError, RuntimeError):
    """The cache cannot be used as it is set up: an unsafe folder, a secret that cannot be read."""


class NotShippedError(KernelError, LookupError):
    """A package ships no code of a kernel, and was loaded with ``strict=True``."""


class CacheWarning(KernelWarning):
    """Nothing is cached between processes, or not everything that could be."""


class TargetUnavailableError(KernelError, RuntimeError):
    """The target is known but cannot be used on this machine."""


class ShadowedPackageError(KernelError, ImportError):
    """A module of the program hides ``stdlib_kernels``, or a package in ``targets``."""


class AttributeUnavailableError(KernelError, AttributeError):
    """An attribute of a device is unavailable; the message has the reason."""


class ClosedResourceError(KernelError, ValueError):
    """An array, stream, event, graph or pool was used after it had been closed."""

    @classmethod
    def after_close(cls, resource: str, value: Any, *, given_back: str, instead: str) -> Self:
        """Return the error for a resource that was used after its ``close()``.

        Parameters
        ----------
        resource : str
            What it was, and on which device.
        value : object
            The resource itself.
        given_back : str
            What ``close()`` frees.
        instead : str
            The remedy, besides closing it later; begins with a verb.
        """
        return cls(
            f"{resource} was used after it had been closed",
            value=value,
            limit=f"close() gives {given_back} back to the device",
            remedy=f"{instead}, or close it later",
        )


class GraphError(KernelError, RuntimeError):
    """A graph cannot be captured, launched or updated in this way."""


class FallbackWarning(KernelWarning):
    """A launch for a GPU runs on the CPU instead."""
