"""Work of ``kerneldsl build``: finds what a package ships, and compiles it.

Kernels with declared signatures are compiled for each of them. Scripts are run for the processor,
and for each GPU, and what their launches compile is recorded. For a GPU nothing runs. The tasks of
a build do not depend on each other (:mod:`kerneldsl.tools.cli.tasks` runs them).
"""

from __future__ import annotations

import importlib
import linecache
import os
import pkgutil
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any, NamedTuple

from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.contract import Artifact, Compiler, Specialization
from kerneldsl.errors import ArgumentValueError, KernelError, SourceLocation
from kerneldsl.errors.base import compose
from kerneldsl.kernels.constants import ParameterizedKernel
from kerneldsl.kernels.cuda_kernel import CudaKernel
from kerneldsl.kernels.kernel import DeviceFunction, Kernel
from kerneldsl.kernels.spaces import OpenSpacedKernel, SpacedKernel
from kerneldsl.language.kinds import format_signature
from kerneldsl.launch.artifact import compile_or_load, notes_on
from kerneldsl.launch.recorded import Recorded, Recording, recording
from kerneldsl.placement.registry import get_target, target_writing
from kerneldsl.shipping.forms import text_of_functions
from kerneldsl.shipping.writer import PackageWriter
from kerneldsl.tools.cli.worker import described_gpu, dry_run
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Builder", "Job", "Part", "Task"]

#: Indices of launches that kernels with a signature are planned for on a GPU, from small to large.
_INDICES = (1 << 12, 1 << 20, 1 << 26)
#: Number of kernels from which on compiling takes longer than starting a process.
_WORTH_A_PROCESS = 16
#: Grid and block of an explicit launch of a kernel without a block.
_GRID, _BLOCK = 1024, 256


class Job(NamedTuple):
    """A kernel to compile."""

    #: Text for a person.
    label: str
    #: Compiles the kernel, and adds it to the written files.
    run: Callable[[], None]


class Task(NamedTuple):
    """A part of a build, which can be done in another process."""

    #: Text for a person.
    label: str
    #: Returns the kernels to compile.
    jobs: Callable[[], Sequence[Job]]


class Part(NamedTuple):
    """Results of a task of a build."""

    writer: PackageWriter
    #: Kernels that are not shipped, with the reason.
    left_out: dict[str, str]
    #: Module to the lines of functions that kernels consist of.
    functions: dict[str, set[int]]


@dataclass
class Builder:
    """Compiles the kernels of a package.

    It is used while launches are recorded, so that nothing is read from the cache or the package.

    - raises `ArgumentValueError` if the package cannot be imported, or an architecture is not
      known.
    """

    #: Name of the package, or its folder.
    place: str
    #: Levels of processors.
    levels: Sequence[str]
    #: Architectures of GPUs.
    architectures: Sequence[str]
    #: Kernels that are not shipped, with the reason.
    left_out: dict[str, str] = field(default_factory=dict)
    #: Writes a C library of the same kernels, where one is wanted.
    c_library: Any = None

    def __post_init__(self) -> None:
        self.host = get_target(target_writing("asm")).compiler
        self.gpu = get_target(target_writing("ptx")).compiler
        for level in self.levels:
            if level not in self.host.usual_architectures:
                raise ArgumentValueError(
                    f"--cpu names {level!r}",
                    value=level,
                    limit=f"Levels of processors are {', '.join(self.host.usual_architectures)}",
                )
        for arch in self.architectures:
            _require_architecture(arch)
        if not self.levels and not self.architectures:
            raise ArgumentValueError(
                "--cpu names no level, and there is no --arch",
                limit="Kernels are compiled for levels of processors and for architectures of GPUs",
                remedy="Leave out --cpu for all levels, or write --arch sm_90",
            )
        self.package = _import(self.place)
        self.modules = list(self._import_modules())
        self.writer = PackageWriter(self.package.__name__)
        self._functions: dict[str, set[int]] = {}
        self._seen: set[tuple[Specialization, str]] = set()

    @property
    def folder(self) -> Path:
        """The package's own folder."""
        return Path(next(iter(self.package.__path__)))

    def _import_modules(self) -> Iterator[ModuleType]:
        yield self.package
        prefix = f"{self.package.__name__}."
        for info in pkgutil.walk_packages(self.package.__path__, prefix, lambda name: None):
            if info.name.rpartition(".")[2] == "__main__":
                continue
            try:
                yield importlib.import_module(info.name)
            except Exception as error:  # noqa: BLE001 -- a module may need what is not installed
                self.left_out[info.name] = f"it cannot be imported: {error}"

    # ------------------------------------------------------------------ what is compiled

    def tasks(
        self, scripts: Sequence[Path], arguments: Sequence[str], workers: int = 1
    ) -> list[Task]:
        """Return the tasks of a build, divided for a number of processes.

        A task compiles a share of the declared signatures, or the launches of a script. Scripts are
        first: one that fails ends the build before anything is compiled.
        """
        declared = [job for kernel in self.kernels() for job in self._declared(kernel)]
        shares = min(workers, -(-len(declared) // _WORTH_A_PROCESS))
        found = []
        for script in scripts:
            for levels in _divided(self.levels, -(-workers // len(scripts))):
                jobs = partial(self._traced_host, script, arguments, levels)
                found.append(Task(f"{script} for {', '.join(levels)}", jobs))
            for arch in self.architectures:
                jobs = partial(self._traced_gpu, script, arguments, arch)
                found.append(Task(f"{script} for {arch}", jobs))
        return found + [
            Task("declared signatures", partial(list, declared[share::shares]))
            for share in range(shares)
        ]

    def kernels(self) -> list[Kernel[Any, Any]]:
        """Return the kernels of the package's modules."""
        own = {id(each): each for each in self._values() if isinstance(each, Kernel)}
        return sorted(own.values(), key=lambda each: (each.__module__, each.__qualname__))

    def _values(self) -> Iterator[Any]:
        for module in self.modules:
            for value in tuple(vars(module).values()):
                if isinstance(value, Kernel | DeviceFunction) and self._is_own(value.__module__):
                    yield value

    def _is_own(self, module: str) -> bool:
        name = self.package.__name__
        return module == name or module.startswith(f"{name}.")

    def _declared(self, kernel: Kernel[Any, Any]) -> Iterator[Job]:
        signatures = kernel.options.signatures
        name = f"{kernel.__module__}.{kernel.__qualname__}"
        if not signatures:
            return
        if isinstance(kernel, CudaKernel):
            self.left_out[name] = (
                "it is compiled code of another language; put a cubin or PTX into the package, and "
                "load it by kd.module"
            )
            return
        if isinstance(kernel, SpacedKernel | OpenSpacedKernel | ParameterizedKernel):
            self.left_out[name] = "it has compile-time parameters; trace a script with launches"
            return
        traits = kernel._dispatcher.state().traits
        block = kernel.options.block
        needs_block = not traits.uses_grid_only and block is None
        ranks = sorted(traits.grid_ndims) or [1]
        for signature in map(format_signature, signatures):
            label = f"{name}({signature})"
            if needs_block and self.levels:
                self.left_out[label] = (
                    "its code depends on the block; write @kd.kernel(block=…), or trace a script"
                )
            for level in () if needs_block else self.levels:
                for rank in (*ranks, None):
                    run = partial(self._compile_host, kernel, signature, rank, level)
                    yield Job(f"{label} for {level}", run)
            for arch in self.architectures:
                can_map = traits.uses_grid_only or block is not None
                for indices in _INDICES if can_map else ():
                    for rank in ranks:
                        extent = (max(1, round(indices ** (1 / rank))),) * rank
                        run = partial(self._compile_planned, kernel, signature, extent, arch)
                        yield Job(f"{label} for {arch}", run)
                run = partial(self._compile_explicit, kernel, signature, arch)
                yield Job(f"{label} for {arch}", run)
                if self.c_library is not None:
                    run = partial(self._compile_for_c, kernel, signature, (*ranks, None), arch)
                    yield Job(f"{label} for {arch} and C", run)

    def _compile_host(
        self, kernel: Kernel[Any, Any], signature: str, rank: int | None, level: str
    ) -> None:
        compiler, specialization = kernel.specialization(
            signature, forall=rank, arch=level, target=self.host.name
        )
        self._add(compiler, specialization)

    def _compile_planned(
        self, kernel: Kernel[Any, Any], signature: str, extent: tuple[int, ...], arch: str
    ) -> None:
        with recording() as recorded:
            compiler, found = kernel.launched(
                signature, extent=extent, arch=arch, target=self.gpu.name
            )
        # A launch compiles other mappings as well to choose one.
        self._add_works(recorded)
        for specialization in (*(each.specialization for each in recorded.compiled), *found):
            self._add(compiler, specialization)

    def _compile_for_c(
        self, kernel: Kernel[Any, Any], signature: str, ranks: Sequence[int | None], arch: str
    ) -> None:
        """Compile a GPU's code that depends on nothing that a launch in Python checks."""
        for rank in ranks:
            artifact = kernel.artifact(signature, forall=rank, arch=arch, target=self.gpu.name)
            self.c_library.add(artifact)
            self.c_library.add(artifact, as_cubin=True)

    def _compile_explicit(self, kernel: Kernel[Any, Any], signature: str, arch: str) -> None:
        from kerneldsl.launch.pipeline import may_compile

        shape = kernel._read_grid(_GRID, kernel.options.block or _BLOCK, None, 0)
        request = kernel._dispatcher.request(shape, (signature,), None, arch)
        for specialization in may_compile(request):
            self._add(request.device.compiler, specialization)

    # ------------------------------------------------------------------ scripts

    def _traced_host(
        self, script: Path, arguments: Sequence[str], levels: Sequence[str]
    ) -> list[Job]:
        jobs = []
        for found in self._launches(script, arguments, self.host.name):
            for level in levels:
                leveled = replace(found.specialization, arch=level)
                run = partial(self._add, self.host, leveled)
                jobs.append(Job(f"{_label(leveled)} for {level}", run))
        return jobs

    def _traced_gpu(self, script: Path, arguments: Sequence[str], arch: str) -> list[Job]:
        null: Any = get_target(dry_run())
        null.set_devices(described_gpu(arch, null.devices()[0]))
        jobs = []
        for found in self._launches(script, arguments, null.name):
            run = partial(self._add, null.compiler, found.specialization, found.artifact)
            jobs.append(Job(f"{_label(found.specialization)} for {arch}", run))
        return jobs

    def _launches(self, script: Path, arguments: Sequence[str], target: str) -> list[Recorded]:
        """Run a script, and return what launches of the package's kernels have compiled."""
        with recording() as recorded, _as_script(script, arguments, target):
            try:
                runpy.run_path(str(script), run_name="__main__")
            except (Exception, SystemExit) as error:
                if isinstance(error, SystemExit) and not error.code:
                    pass
                else:
                    raise ArgumentValueError(
                        f"{script} failed: {_error_text(error)}",
                        where=_place_in(script, error),
                        value=str(script),
                        limit="For a GPU that is named, kernels are compiled and do not run, so "
                        "results are not right"
                        if target != self.host.name
                        else None,
                        remedy="Run it by itself"
                        if target == self.host.name
                        else "Run it by itself, and check no results in it",
                    ) from error
        self._add_works(recorded)
        found = {
            each.specialization: each
            for each in recorded.compiled
            if each.compiler.name == target and self._is_own(each.specialization.unit.module)
        }
        return list(found.values())

    # ------------------------------------------------------------------ output

    def _add_works(self, recorded: Recording) -> None:
        """Add what plans have counted of the package's kernels."""
        for each in recorded.counted:
            if self._is_own(each.unit.module):
                with suppress(UncacheableError):  # its code is left out, and a note says why
                    self.writer.add_work(*each)

    def _add(
        self, compiler: Compiler, specialization: Specialization, artifact: Artifact | None = None
    ) -> None:
        """Compile a kernel that is not compiled yet, and add it; note why it is left out."""
        if (specialization, compiler.code_family) in self._seen:
            return
        self._seen.add((specialization, compiler.code_family))
        label = f"{_label(specialization)} for {specialization.arch}"
        try:
            if artifact is None:
                artifact, _ = compile_or_load(compiler, specialization)
            entry = self.writer.add(compiler, artifact, notes_on(artifact))
        except UncacheableError as error:
            self.left_out[label] = str(error)
            return
        except KernelError as error:
            self.left_out[label] = f"it is not compiled: {error.what}"
            return
        if entry is None:
            self.left_out[label] = "its code works in this process alone"
            return
        if self.c_library is not None and compiler is self.host:
            self.c_library.add(artifact)
        for unit in specialization.unit.reachable():
            if self._is_own(unit.module):
                self._functions.setdefault(unit.module, set()).add(unit.first_line)

    def note_unused(self) -> None:
        """Note kernels without a signature that no script has launched."""
        known = {each.kernel for each in self.writer.entries}
        known |= {name.partition("(")[0] for name in self.left_out}
        for kernel in self.kernels():
            name = f"{kernel.__module__}.{kernel.__qualname__}"
            if name not in known:
                self.left_out[name] = "it declares no signature, and no script launches it"

    def part(self) -> Part:
        """Return what was compiled in this process."""
        return Part(self.writer, self.left_out, self._functions)

    def add(self, part: Part) -> None:
        """Add what was compiled in another process."""
        self.writer.merge(part.writer)
        self.left_out |= part.left_out
        for module, lines in part.functions.items():
            self._functions.setdefault(module, set()).update(lines)

    def add_sources(self) -> None:
        """Add the texts of all kernels, for installations without source files."""
        for value in self._values():
            code = value.function.__code__
            self._functions.setdefault(value.__module__, set()).add(code.co_firstlineno)
        for name, lines in sorted(self._functions.items()):
            module = sys.modules.get(name)
            file = getattr(module, "__file__", None)
            text = "".join(linecache.getlines(file, vars(module))) if file else ""
            if text:
                self.writer.add_source(name, text_of_functions(text, lines))


def _divided(values: Sequence[str], parts: int) -> list[Sequence[str]]:
    """Divide values into a number of parts, or into as many as there are values."""
    count = min(parts, len(values))
    return [values[number::count] for number in range(count)]


def _label(specialization: Specialization) -> str:
    unit = specialization.unit
    return f"{unit.module}.{unit.qualname}({format_signature(specialization.kinds)})"


def _require_architecture(arch: str) -> None:
    """Refuse an architecture of GPUs that launches cannot be planned for."""
    try:
        get_target(target_writing("ptx")).described(arch)
    except ArgumentValueError as error:
        raise ArgumentValueError(
            f"--arch names {arch!r}",
            value=arch,
            limit=error.limit,
            remedy="Name some of them, separated by commas: --arch sm_80,sm_90",
        ) from error


def _error_text(error: BaseException) -> str:
    """Return an error's class and message, without the lines that show its place."""
    text = str(error)
    if isinstance(error, KernelError):
        text = compose(error.what, None, error.limit, error.remedy, ())
    return f"{type(error).__name__}: {text}"


def _place_in(script: Path, error: BaseException) -> SourceLocation | None:
    """Return the place that an error names, or the last line of a script that it came through."""
    if isinstance(error, KernelError) and error.where is not None:
        return error.where
    if isinstance(error, SyntaxError) and error.filename == str(script) and error.lineno:
        return SourceLocation(str(script), error.lineno)
    lines = [
        line
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_code.co_filename == str(script)
    ]
    return SourceLocation(str(script), lines[-1]) if lines else None


def _import(place: str) -> ModuleType:
    """Import a package by its name, or by its folder."""
    path = Path(place)
    if path.is_file():
        raise ArgumentValueError(
            f"{place} is a file",
            value=place,
            limit="The compiled kernels are a folder of a package",
            remedy=f"Name the package, or its folder: {path.parent}",
        )
    is_folder = os.sep in place or place.startswith(".")
    root, name = (path.resolve().parent, path.resolve().name) if is_folder else (Path.cwd(), place)
    sys.path.insert(0, str(root))
    try:
        found = importlib.import_module(name)
    except Exception as error:
        raise ArgumentValueError(
            f"{name} cannot be imported: {type(error).__name__}: {error}",
            value=place,
            limit="It is imported to find its kernels",
            remedy="Run the command in the folder that contains the package, or install it",
        ) from error
    if not hasattr(found, "__path__"):
        raise ArgumentValueError(
            f"{name} is a module, and not a package",
            value=place,
            limit="The compiled kernels are a folder of the package",
            remedy=f"Make it a package: a folder {name} with an __init__.py",
        )
    if getattr(found, "__file__", None) is None:
        raise ArgumentValueError(
            f"{name} has no __init__.py",
            value=place,
            limit="The compiled kernels are a folder of the package, which its __init__.py loads",
            remedy="Name the folder of the package itself",
        )
    return found


@contextmanager
def _as_script(script: Path, arguments: Sequence[str], target: str) -> Iterator[None]:
    """Let a script find its arguments and the modules beside it, and launch on a target."""
    before = sys.argv, list(sys.path), os.environ.get("KERNELDSL_TARGET")
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    os.environ["KERNELDSL_TARGET"] = target
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before[0], before[1]
        if before[2] is None:
            del os.environ["KERNELDSL_TARGET"]
        else:
            os.environ["KERNELDSL_TARGET"] = before[2]
