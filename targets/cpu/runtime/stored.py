"""Compiled kernels as bytes and back: object code, and what it takes to call it."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from typing import Any, get_args

from kerneldsl.analysis.work import KernelWork
from kerneldsl.contract import Specialization, UnusableCodeError
from kerneldsl.lowering.captured_arrays import captured_addresses
from kerneldsl.utilities.address_space import require_addresses
from kerneldsl.utilities.untrusted import parse_json
from targets.cpu.codegen.levels import LEVELS
from targets.cpu.runtime.artifact import Compiled, CpuArtifact, RowAxis
from targets.cpu.runtime.linking import undefined_symbols
from targets.cpu.runtime.native_tables import RUNNER
from targets.cpu.runtime.objects import (
    IS_SUPPORTED,
    POOL_CODE,
    RUNNER_CODE,
    VERSION,
    is_of_system,
    load_object,
    runner_symbols,
)
from targets.cpu.runtime.signals import HANDLERS_CODE

__all__ = ["dump", "restore", "ship"]

#: Code of the process that is stored beside each kernel's code, by the name of its section.
_OF_PROCESS = {"handlers": HANDLERS_CODE, "pool": POOL_CODE, "runner": RUNNER_CODE}


def dump(artifact: CpuArtifact) -> dict[str, bytes] | None:
    """Write a compiled kernel; ``None`` where the code works in this process alone."""
    library = artifact.compiled.library
    if not IS_SUPPORTED or isinstance(library, StoredLibrary) or artifact.fault_table is not None:
        return None
    code = library.object_code()
    if code is None:
        return None
    try:
        load_object(code, artifact.entry_name, _symbols(artifact.specialization, code))
    except UnusableCodeError:
        return None
    return {
        "metadata": _metadata(artifact, timings=dict(artifact.timings)),
        "object": code,
        # Compiling these takes longer than a small kernel, and each process needs them at once.
        **{name: code.code() for name, code in _OF_PROCESS.items()},
        "source": artifact.text("source").encode("utf-8", "surrogatepass"),
    }


def ship(artifact: CpuArtifact) -> dict[str, bytes] | None:
    """Write a kernel that is compiled for a level; ``None`` if it works in this process alone.

    A package has the code of the process once for each architecture.
    """
    level, code = LEVELS.get(artifact.specialization.arch or ""), None
    if level is not None and artifact.fault_table is None:
        code = artifact.compiled.library.object_code()
    if level is None or code is None:
        return None
    known = captured_addresses(artifact.specialization.unit)
    if any(name not in known and not is_of_system(name) for name in undefined_symbols(code)):
        return None
    sections = {"metadata": _metadata(artifact, process_code=VERSION), "object": code}
    if level.machine == platform.machine():
        sections |= {name: code.code() for name, code in _OF_PROCESS.items()}
    return sections


def restore(
    specialization: Specialization,
    sections: Mapping[str, bytes],
    compile_anew: Callable[[], CpuArtifact],
) -> CpuArtifact:
    """Make a compiled kernel of what :func:`dump` wrote.

    `compile_anew` serves a person who looks at LLVM's module.

    Raises `UnusableCodeError` if it cannot be used in this process.
    """
    if not IS_SUPPORTED:
        raise UnusableCodeError("object code is loaded on Linux alone")
    try:
        metadata = parse_json(sections["metadata"])
        entry_name, rows_along = metadata["entry_name"], metadata["rows_along"]
        part_bytes, work = metadata["part_bytes"], KernelWork.from_json(metadata["work"])
        straight_nodes = metadata["straight_nodes"]
        times = metadata.get("timings", {})
        timings = {str(step): float(seconds) for step, seconds in times.items()}
        source = sections["source"].decode("utf-8", "surrogatepass") if "source" in sections else ""
        code = sections["object"]
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise UnusableCodeError(f"the metadata cannot be read: {error!r}") from error
    if (
        not isinstance(entry_name, str)
        or rows_along not in (None, *get_args(RowAxis))
        or not isinstance(part_bytes, int | None)
        or not isinstance(straight_nodes, int)
    ):
        raise UnusableCodeError("the metadata is of other types")
    unit = specialization.unit
    require_addresses(f"linking {unit.qualname}", compiles=False, where=unit.place)
    if metadata.get("process_code", VERSION) == VERSION:
        for name, each in _OF_PROCESS.items():
            each.offer(sections.get(name))
    loaded = load_object(code, entry_name, _symbols(specialization, code))
    compiled = Compiled(StoredLibrary(compile_anew), loaded.address, entry_name, loaded)
    return CpuArtifact(
        *(specialization, entry_name, timings),
        source or (lambda: compile_anew().text("source")),
        *(compiled, rows_along),
        part_bytes=part_bytes,
        work=work,
        straight_nodes=straight_nodes,
    )


def _metadata(artifact: CpuArtifact, **others: Any) -> bytes:
    assert artifact.work is not None
    metadata = {
        "entry_name": artifact.entry_name,
        "rows_along": artifact.rows_along,
        "part_bytes": artifact.part_bytes,
        "work": artifact.work.to_json(),
        "straight_nodes": artifact.straight_nodes,
        **others,
    }
    return json.dumps(metadata).encode()


def _symbols(specialization: Specialization, code: bytes) -> dict[str, int]:
    """Return the addresses of what the code needs of this process, by name."""
    found = dict(captured_addresses(specialization.unit))
    if RUNNER.encode() in code:  # a library for C has its own
        found |= runner_symbols()
    return found


class StoredLibrary:
    """Kept code in the place of Numba's library.

    `compile_anew` makes the same with Numba, which has LLVM's module and the assembly too.
    """

    #: Numba's own libraries have LLVM's module at hand.
    has_module = False

    def __init__(self, compile_anew: Callable[[], CpuArtifact]) -> None:
        self._compile_anew = compile_anew

    def get_llvm_str(self) -> str:
        """Return LLVM's module as text; compile the kernel again."""
        return self._compile_anew().text("llvm")

    def get_asm_str(self) -> str:
        """Return the assembly; compile the kernel again."""
        return self._compile_anew().text("asm")
