"""``kd.backends()``: which ways to compute are there, and which of them kerneldsl uses.

What is there is told by :mod:`~kerneldsl.tools.detection.probes`; what kerneldsl can use, by the
targets themselves. ``KERNELDSL_FAKE_GPU`` puts a made-up machine in place of both, so that people
can test what their programs do with or without a GPU; where kernels run is not touched by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kerneldsl.contract import MemoryType
from kerneldsl.errors import ArgumentValueError, KernelError
from kerneldsl.placement.registry import get_target, target_names, target_of_memory
from kerneldsl.tools.detection.probes import Finding, probes
from kerneldsl.utilities import environment
from kerneldsl.utilities.formatting import AsDict, AsTable

__all__ = ["Backend", "Backends", "backends", "faked_names"]

#: Why kerneldsl runs nothing there, for what no target of ours serves.
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


def backends() -> Backends:
    """Report the ways to compute on this machine, and which of them kerneldsl uses.

    Looks at files, tools and packages; of all drivers it starts CUDA's alone, and only to learn
    whether kernels can run there.

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
        is_usable, why = _ask_target(name, finding)
    else:
        is_usable, why = False, f"{finding.what}; {_NO_TARGET[name]}"
    return Backend(
        name,
        # A target that runs kernels is there, whatever the files say.
        is_detected=finding.is_detected or is_usable,
        version=finding.version,
        is_usable=is_usable,
        reason=why,
        evidence=finding.evidence,
    )


def _ask_target(name: str, finding: Finding) -> tuple[bool, str]:
    """Return whether the target of a backend's name runs kernels here, and why."""
    try:
        target = get_target(name)
        reason = target.unavailable_reason()
        found = () if reason is not None else target.devices()
    except (KernelError, ImportError) as error:
        return False, f"its target cannot be loaded: {' '.join(str(error).split())}"
    if reason is not None and not finding.is_detected and not finding.evidence:
        # Nothing of it is here, so there is nothing to mend.
        return False, f"{finding.what}; kernels run on the CPU"
    if reason is not None:
        return False, " ".join(reason.split())
    return True, ", ".join(f"{d}: {d.name} ({d.arch})" for d in found)


def faked_names(spec: str) -> frozenset[str]:
    """Return the backends that ``KERNELDSL_FAKE_GPU`` names, with commas in between.

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
