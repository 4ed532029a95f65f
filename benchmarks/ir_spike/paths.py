"""Both ways to compile a kernel for the CPU, and code that runs either.

:func:`install` has every kernel of the process compiled twice. Its entry jumps to the code that
:meth:`Switch.turn` has chosen, so whatever launches the kernel runs both: a launch, a function of
the library, a test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kerneldsl.ir.frontend.reader import NotReadError
from targets.cpu.regions.classes import is_by_regions
from targets.cpu.target import CpuCompiler, _with_block, refuse_divergent_barriers

__all__ = [
    "PATHS",
    "Compilation",
    "Switch",
    "by_path",
    "compile_by_regions",
    "compile_by_trees",
    "install",
]

#: Python text that Numba types, and the region IR.
PATHS = ("trees", "regions")
#: Kernels that can be compiled in one process.
_MOST = 1 << 14
_STUB = """
define void @{name}(i8* %ranges, i8* %counts, i8* %steps, i8* %launch) {{
  %slot = inttoptr i64 {slot} to void (i8*, i8*, i8*, i8*)**
  %code = load volatile void (i8*, i8*, i8*, i8*)*, void (i8*, i8*, i8*, i8*)** %slot
  tail call void %code(i8* %ranges, i8* %counts, i8* %steps, i8* %launch)
  ret void
}}
"""


def compile_by_regions(specialization: Any) -> Any:
    """Compile by the region IR, or raise `NotReadError`."""
    from targets.cpu.regions.compile import compile_regions

    refuse_divergent_barriers(specialization)
    return compile_regions(_with_block(specialization))


def compile_by_trees(specialization: Any) -> Any:
    """Compile by Python text that Numba types."""
    from targets.cpu.codegen.compile_trees import compile_trees

    refuse_divergent_barriers(specialization)
    return compile_trees(_with_block(specialization))


_COMPILERS: dict[str, Callable[[Any], Any]] = {
    "trees": compile_by_trees,
    "regions": compile_by_regions,
}


@contextmanager
def by_path(path: str) -> Iterator[None]:
    """Have kernels compiled one way."""
    before = CpuCompiler.compile
    CpuCompiler.compile = lambda self, specialization: _COMPILERS[path](specialization)
    try:
        yield
    finally:
        CpuCompiler.compile = before


@dataclass
class Compilation:
    """What compiling a kernel both ways took."""

    name: str
    #: Seconds of processor time, by path; without what both paths share and keep.
    seconds: dict[str, float]
    #: Why the IR does not compile it.
    problem: str = ""
    is_error: bool = False


class Switch:
    """Which code the kernels of this process run, and how they were compiled."""

    def __init__(self) -> None:
        self.compiled: list[Compilation] = []
        self._table = np.zeros(_MOST, np.int64)
        self._addresses = {path: np.zeros(_MOST, np.int64) for path in PATHS}
        self._kept: list[Any] = []
        self._engine: Any = None

    def turn(self, path: str) -> None:
        """Have all kernels run the code of a path; a kernel that the IR does not read has one."""
        self._table[:] = self._addresses[path]

    def compile(self, specialization: Any) -> Any:
        """Compile both ways, each twice in turns: the first also fills what both of them keep."""
        if is_by_regions(specialization):
            return compile_by_regions(specialization)
        made, seconds = {}, {}
        found = Compilation(specialization.unit.qualname, seconds)
        for _ in range(2):
            for path in PATHS:
                if found.problem and path == "regions":
                    continue
                began = time.process_time()
                try:
                    made[path] = _COMPILERS[path](specialization)
                except NotReadError as reason:
                    found.problem = str(reason)
                except Exception as error:
                    if path == "trees":
                        raise
                    found.problem, found.is_error = f"{type(error).__name__}: {error}", True
                seconds[path] = time.process_time() - began
        self.compiled.append(found)
        if found.problem:
            return made["trees"]
        return self._joined(made)

    def _joined(self, made: dict[str, Any]) -> Any:
        one, two = (made[path] for path in PATHS)
        for field in ("rows_along",):
            assert getattr(one, field) == getattr(two, field), field
        number = len(self._kept)
        for path in PATHS:
            self._addresses[path][number] = made[path].compiled.address
        self._table[number] = self._addresses[PATHS[0]][number]
        self._kept.append(made)
        parts = [each.part_bytes for each in (one, two) if each.part_bytes is not None]
        stub = self._stub(number)
        compiled = replace(one.compiled, address=stub, loaded=one.compiled.loaded)
        return replace(one, compiled=compiled, part_bytes=max(parts) if parts else None)

    def _stub(self, number: int) -> int:
        import llvmlite.binding as llvm

        if self._engine is None:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            machine = llvm.Target.from_default_triple().create_target_machine()
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        name, slot = f"stub_{number}", self._table.ctypes.data + 8 * number
        self._engine.add_module(llvm.parse_assembly(_STUB.format(name=name, slot=slot)))
        self._engine.finalize_object()
        return int(self._engine.get_function_address(name))


def install() -> Switch:
    """Compile every kernel of this process both ways from here on."""
    switch = Switch()
    CpuCompiler.compile = lambda self, specialization: switch.compile(specialization)
    return switch
