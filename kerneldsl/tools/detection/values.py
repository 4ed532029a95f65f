"""Description of a backend, as a value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kerneldsl.utilities.formatting import AsDict, AsTable

__all__ = ["Backend", "Backends"]


@dataclass(frozen=True, slots=True)
class Backend(AsDict):
    """One way to compute on this machine, whether or not kerneldsl can use it.

    Parameters
    ----------
    name : str
        ``"cuda"``, ``"rocm"``, ``"metal"``, ``"vulkan"``, ``"opengl"``, ``"webgpu"``,
        ``"webgl2"`` or ``"cpu"``.
    is_detected : bool
        Whether its driver or runtime was found.
    version : str or None
        Of what was found, where it can be known without loading it.
    is_usable : bool
        Whether kerneldsl runs kernels on it here.
    reason : str
        Why it is usable or not, in words.
    evidence : tuple of str
        What was found: files, tools, packages.
    is_faked : bool
        Whether ``KERNELDSL_FAKE_GPU`` decided what is said here.
    """

    name: str
    is_detected: bool
    version: str | None
    is_usable: bool
    reason: str
    evidence: tuple[str, ...] = ()
    is_faked: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return {**AsDict.to_dict(self), "evidence": list(self.evidence)}

    def __str__(self) -> str:
        return self.name


_HEADERS = ("backend", "detected", "version", "usable", "why")


class Backends(AsTable, tuple[Backend, ...]):
    """Every backend that is known of, in a fixed order; shows as a table.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.backends().named("webgl2").is_usable
    False
    """

    __slots__ = ()

    def __new__(cls, backends: Iterable[Backend]) -> Backends:
        return super().__new__(cls, tuple(backends))

    def named(self, name: str) -> Backend:
        """Return the backend of a name.

        Raises
        ------
        KeyError
            If there is none of that name.
        """
        for backend in self:
            if backend.name == name:
                return backend
        raise KeyError(name)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Name to the backend's fields, for JSON."""
        return {backend.name: backend.to_dict() for backend in self}

    def _table(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        return _HEADERS, [
            (
                b.name,
                ("yes" if b.is_detected else "no") + (" (faked)" if b.is_faked else ""),
                b.version,
                "yes" if b.is_usable else "no",
                b.reason,
            )
            for b in self
        ]
