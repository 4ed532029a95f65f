"""``kd.backends()``: the backends of this machine, and those that kerneldsl uses.

:mod:`~kerneldsl.tools.detection.probes` finds the backends of the machine, and the targets report
whether kerneldsl can use them. With ``KERNELDSL_FAKE_GPU`` both are simulated, so that users can
test their programs with or without a GPU. Kernels run on the same device as without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kerneldsl.contract import MemoryType
from kerneldsl.errors import ArgumentValueError, KernelError
from kerneldsl.placement.registry import get_target, target_names, target_of_memory
from kerneldsl.tools.detection.probes import Finding, probes
from kerneldsl.utilities import environment
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import AsDict, AsTable

__all__ = ["Backend", "Backends", "backends", "faked_names"]

#: Reasons why kerneldsl cannot use a backend that has no target.
_NO_TARGET = {
    "rocm": "kerneldsl has no target for AMD GPUs",
    "metal": "kerneldsl has no target for Metal",
    "vulkan": "kerneldsl has no target for Vulkan",
    "opengl": "kerneldsl has no target for OpenGL's compute shaders",
    "webgpu": "kerneldsl has no target for WebGPU",
    "webgl2": "WebGL 2 has no compute shaders, and never will; WebGPU takes its place",
}


@dataclass(frozen=True, slots=True)
class Backend(AsDict):
    """A backend of this machine, such as CUDA, which kerneldsl may or may not use.

    Parameters
    ----------
    name : str
        ``"cuda"``, ``"rocm"``, ``"metal"``, ``"vulkan"``, ``"opengl"``, ``"webgpu"``,
        ``"webgl2"`` or ``"cpu"``.
    is_detected : bool
        Whether a driver or runtime was found.
    version : str or None
        Its version, if that can be read without loading it.
    is_usable : bool
        Whether kerneldsl can run kernels on it.
    reason : str
        The reason why it is usable or not.
    evidence : tuple of str
        The files, tools and packages that were found.
    is_faked : bool
        Whether ``KERNELDSL_FAKE_GPU`` simulates the backend.
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
    """All known backends, in a fixed order; shown as a table.

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
            If no backend has this name.
        """
        for backend in self:
            if backend.name == name:
                return backend
        raise KeyError(name)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the fields of each backend by its name, for JSON."""
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


def backends() -> Backends:
    """List backends: whether this machine has them, and whether kerneldsl can use them.

    It checks files, tools and packages. The only driver that it starts is CUDA's, to find out
    whether kernels can run.

    Returns
    -------
    Backends
        A tuple of :class:`Backend`: cuda, rocm, metal, vulkan, opengl, webgpu, webgl2, cpu.

    Raises
    ------
    ArgumentValueError
        If ``KERNELDSL_FAKE_GPU`` names a backend that does not exist.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.backends().named("cpu").is_usable
    True
    """
    found = probes()
    spec = environment.fake_gpu_spec()
    faked = None if spec is None else faked_names(spec)
    if faked is not None:
        return Backends(_fake(name, name in faked) for name in found)
    provided = target_names()
    return Backends(_report(name, probe(), provided) for name, probe in found.items())


def _report(name: str, finding: Finding, provided: tuple[str, ...]) -> Backend:
    if name in provided:
        is_usable, why = _query_target(name, finding)
    else:
        is_usable, why = False, f"{finding.what}; {_NO_TARGET[name]}"
    return Backend(
        name,
        # If a target runs kernels, the backend exists, even if no file was found.
        is_detected=finding.is_detected or is_usable,
        version=finding.version,
        is_usable=is_usable,
        reason=why,
        evidence=finding.evidence,
    )


def _query_target(name: str, finding: Finding) -> tuple[bool, str]:
    """Return whether the target of a backend's name can run kernels, and the reason."""
    try:
        target = get_target(name)
        reason = target.unavailable_reason()
        found = () if reason is not None else target.devices()
    except (KernelError, ImportError) as error:
        return False, f"its target cannot be loaded: {' '.join(str(error).split())}"
    if reason is not None and not finding.is_detected and not finding.evidence:
        # Nothing of it was found, so the user need not repair anything.
        return False, f"{finding.what}; kernels run on the CPU"
    if reason is not None:
        return False, " ".join(reason.split())
    return True, ", ".join(f"{d}: {d.name} ({d.arch})" for d in found)


def faked_names(spec: str) -> frozenset[str]:
    """Return the backends that ``KERNELDSL_FAKE_GPU`` names, separated by commas.

    Raises `ArgumentValueError` for one that does not exist.
    """
    known = probes()
    names = frozenset(filter(None, (part.strip().lower() for part in spec.split(","))))
    unknown = sorted(names - set(known))
    if unknown:
        raise ArgumentValueError(
            f"KERNELDSL_FAKE_GPU names {', '.join(unknown)}",
            value=spec,
            limit=f"Known backends are {', '.join(known)}",
            remedy="Name some of them with commas in between, or leave it empty for no GPU",
        )
    return names


def _fake(name: str, is_detected: bool) -> Backend:
    if name == target_of_memory(MemoryType.CPU):
        return Backend(
            name, True, None, True, "always there; KERNELDSL_FAKE_GPU does not hide it", (), True
        )
    said = "pretends that it is there" if is_detected else "pretends that it is not there"
    return Backend(
        name,
        is_detected=is_detected,
        version=None,
        is_usable=False,
        reason=f"KERNELDSL_FAKE_GPU {said}; kernels run where they would without it",
        is_faked=True,
    )
