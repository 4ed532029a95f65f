"""Write a C library of compiled kernels: headers, sources, object files and a shared object."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import field
from importlib.resources import files
from pathlib import Path
from typing import Any

from kerneldsl._version import __version__
from kerneldsl.contract import NO_PROMISES, ONE_EACH, Artifact
from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.errors import ArgumentValueError, CompileError, ToolMissingError
from kerneldsl.language.kinds import format_signature, leaf_kinds
from kerneldsl.utilities.dataclasses import dataclass
from targets.c_library.declarations import Declaration, array_types, c_name, fields_of
from targets.cpu.codegen.levels import LEVELS
from targets.cpu.runtime.artifact import (
    LEAST_SEGMENT,
    LEAST_STEP_THREADS,
    SERIAL_THREADS,
    STEPS_PER_THREAD,
    CpuArtifact,
)
from targets.cpu.runtime.native_tables import (
    ALIGNMENT,
    FINISHED,
    HEADER_BYTES,
    OVERRUN,
    SLOT_BYTES,
    LaunchWord,
    PoolPlace,
)
from targets.cpu.runtime.objects import POOL_CODE
from targets.cuda.compile.artifact import CudaArtifact

__all__ = ["CLibrary", "find_compiler", "link_shared", "numbers_header"]

_RUNTIME = ("kerneldsl.h", "kerneldsl_code.h", "kerneldsl_cpu.c", "kerneldsl_cuda.c")
_POOL = "kerneldsl_pool.o"
#: Levels of x86-64 by the number that the runtime finds out; other processors have one level.
_LEVELS = {f"x86-64-v{number}": number for number in (2, 3, 4)}
_COLUMNS = 16


@dataclass
class _Function:
    """A kernel for arguments of some kinds, with its code."""

    kernel: str
    layout: ParameterLayout
    block: tuple[int, int, int] | None = None
    uses_dynamic_shared: bool = False
    is_mapped: bool = False
    is_cooperative: bool = False
    cpu: list[CpuArtifact] = field(default_factory=list)
    cuda: list[tuple[CudaArtifact, bool]] = field(default_factory=list)


class CLibrary:
    """A C library of kernels for this machine's processors, and for GPUs.

    Parameters
    ----------
    name : str
        Begins the names of its files and functions.

    Examples
    --------
    ::

        library = CLibrary("mykernels")
        for arch in ("x86-64-v2", "x86-64-v3"):
            library.add(axpy.artifact("float32, float32[::1]", forall=1, target="cpu", arch=arch))
        library.add(axpy.artifact("float32, float32[::1]", forall=1, target="cuda", arch="sm_90"))
        library.write(Path("c"))
    """

    def __init__(self, name: str) -> None:
        self.name = c_name(name)
        self._functions: dict[Any, _Function] = {}

    def add(self, artifact: Artifact, *, as_cubin: bool = False) -> bool:
        """Add the code of a kernel for one architecture; return whether it can be used from C.

        Code for another machine than this one is not added, nor is code that works in this process
        alone.

        Parameters
        ----------
        artifact : Artifact
            The code, compiled without promises about the arguments: nothing checks them in C.
        as_cubin : bool
            Whether a GPU's code is added as machine code instead of PTX.

        Raises
        ------
        ArgumentValueError
            The code is of a debug mode, or depends on promises.
        ToolMissingError
            Machine code is wanted, and there is no ptxas.
        """
        specialization = artifact.specialization
        unit, traits = specialization.unit, specialization.traits
        is_usual = specialization.promises == NO_PROMISES and specialization.mapping == ONE_EACH
        if specialization.options.debug or not is_usual:
            raise ArgumentValueError(
                f"the code of {unit.qualname} cannot be in a C library",
                value=specialization.promises,
                limit="It is compiled in debug mode, with a planned mapping, or for properties of "
                "arguments that each launch checks",
                remedy="Compile it for a signature, not in debug mode",
            )
        if isinstance(artifact, CpuArtifact):
            level = LEVELS.get(specialization.arch or "")
            is_usable = level is not None and level.machine == platform.machine()
            if not is_usable or artifact.compiled.library.object_code() is None:
                return False
        elif not isinstance(artifact, CudaArtifact) or artifact.contents():
            return False
        key = (unit.module, unit.qualname, specialization.kinds, specialization.mode)
        function = self._functions.get(key)
        if function is None:
            function = self._functions[key] = _Function(
                f"{unit.module}.{unit.qualname}", specialization.layout
            )
            function.uses_dynamic_shared = traits.uses_dynamic_shared
            function.is_mapped = traits.uses_grid_only
            function.is_cooperative = traits.syncs_grid
        function.block = specialization.block_dim or function.block
        if isinstance(artifact, CpuArtifact):
            function.cpu.append(artifact)
        else:
            assert isinstance(artifact, CudaArtifact)
            function.cuda.append((artifact, as_cubin))
        return True

    def write(self, folder: Path) -> tuple[str, ...]:
        """Write the files, link the shared object, and return the names of all of them.

        Raises
        ------
        CompileError
            The C compiler refuses the files.
        ToolMissingError
            There is no C compiler.
        """
        find_compiler()
        folder.mkdir(parents=True, exist_ok=True)
        contents = self.contents()
        for name, data in contents.items():
            (folder / name).write_bytes(data)
        shared = f"lib{self.name}.so"
        link_shared(folder, shared, [name for name in contents if name.endswith((".c", ".o"))])
        return (*contents, shared)

    def contents(self) -> dict[str, bytes]:
        """Return the files but the shared object, by their names."""
        found = {name: (files(__package__) / "runtime" / name).read_bytes() for name in _RUNTIME}
        found["kerneldsl_numbers.h"] = numbers_header().encode()
        found[_POOL] = POOL_CODE.code()
        named = self._named()
        for name, function in named.items():
            for artifact in function.cpu:
                code = artifact.compiled.library.object_code()
                found[f"{name}-{artifact.specialization.arch}.o"] = code
        found[f"{self.name}.h"] = self._header(named).encode()
        found[f"{self.name}.c"] = self._source(named).encode()
        return found

    def _named(self) -> dict[str, _Function]:
        """Return the functions by their names in C, in a fixed order."""
        by_kernel: defaultdict[str, list[_Function]] = defaultdict(list)
        for each in sorted(self._functions.values(), key=_sort_key):
            by_kernel[c_name(each.kernel.rpartition(".")[2])].append(each)
        found: dict[str, _Function] = {}
        for stem, functions in sorted(by_kernel.items()):
            has_several = len({each.layout.kinds for each in functions}) > 1
            ranks = {each.layout.mode.forall_ndim for each in functions}
            for each in functions:
                parts = [self.name, stem, *([_suffix(each.layout)] if has_several else ())]
                parts += _launched_by(each, ranks)
                name = "_".join(parts)
                number = 1
                while name in found:  # of another module, or of dtypes in another order
                    number += 1
                    name = "_".join((*parts, str(number)))
                found[name] = each
        return found

    def _header(self, named: dict[str, _Function]) -> str:
        types: dict[str, str] = {}
        declarations = []
        for name, each in named.items():
            types |= array_types(fields_of(each.layout))
            declarations.append(
                Declaration(
                    name, each.kernel, each.layout, each.block, each.uses_dynamic_shared
                ).text()
            )
        guard = f"{self.name.upper()}_H"
        return "\n".join(
            (
                f"/* Kernels of {self.name}. Written by kerneldsl {__version__}. */",
                f'#ifndef {guard}\n#define {guard}\n\n#include "kerneldsl.h"\n',
                '#ifdef __cplusplus\nextern "C" {\n#endif\n',
                *(text for _, text in sorted(types.items())),
                *declarations,
                "#ifdef __cplusplus\n}\n#endif\n\n#endif\n",
            )
        )

    def _source(self, named: dict[str, _Function]) -> str:
        tables = "\n".join(_table(name, each) for name, each in named.items())
        return (
            f"/* Code of the kernels of {self.name}. Written by kerneldsl {__version__}. */\n"
            f'#include "{self.name}.h"\n#include "kerneldsl_code.h"\n\n{tables}'
        )


def _sort_key(function: _Function) -> tuple[str, str, int]:
    layout = function.layout
    return function.kernel, format_signature(layout.kinds), layout.mode.forall_ndim or 0


def _launched_by(function: _Function, ranks: set[int | None]) -> list[str]:
    """Return the part of a name for another launch than the usual one of such a kernel.

    By an extent it is launched if it has its indices of ``grid`` alone, else by grid and block.
    `ranks` are those of all launches of the kernel; ``None`` is one by grid and block.
    """
    rank, extents = function.layout.mode.forall_ndim, ranks - {None}
    if rank is None:
        return ["grid"] if function.is_mapped and extents else []
    is_unusual = not function.is_mapped and None in ranks
    return ["forall"] * is_unusual + [f"{rank}d"] * (len(extents) > 1)


def _suffix(layout: ParameterLayout) -> str:
    """Return the part of a name that differs between signatures: the dtypes, each once."""
    return "_".join(dict.fromkeys(c_name(each.dtype) for each in leaf_kinds(layout.kinds)))


def _table(name: str, function: _Function) -> str:
    """Return the C object that describes a kernel."""
    layout = function.layout
    cpu = sorted(function.cpu, key=_level_of)
    cuda = sorted(function.cuda, key=lambda each: (_capability(each[0]), each[1]))
    extents = [each.offset for each in layout.parameters if each.is_extent]
    given = [each for each in layout.parameters if not each.is_extent]
    end = given[-1].offset + given[-1].nbytes if given else 0
    ndim = layout.mode.forall_ndim or 0
    block = function.block or (0, 0, 0)
    offsets = ", ".join(str(each.offset) for each in layout.parameters) or "0"
    rows = (
        "KD_CODE_VERSION",
        *(end, extents[0] if extents else end, ndim),
        f"{{{', '.join(map(str, block))}}}",
        *(int(function.is_mapped), int(function.is_cooperative)),
        *(len(layout.parameters), f"{name}_offsets"),
        *_listed(f"{name}_cpu_code", cpu),
        *_listed(f"{name}_cuda_code", cuda),
    )
    return "".join(
        (
            *(f"extern kd_entry {_entry(each)};\n" for each in cpu),
            _array("kd_cpu_code", f"{name}_cpu_code", map(_cpu_row, cpu)),
            *(_image(f"{name}_image_{i}", *each) for i, each in enumerate(cuda)),
            _array(
                "kd_cuda_code",
                f"{name}_cuda_code",
                (_cuda_row(f"{name}_image_{i}", *each) for i, each in enumerate(cuda)),
            ),
            f"static const uint16_t {name}_offsets[] = {{{offsets}}};\n",
            f"const kd_kernel {name}_kernel = {{{', '.join(map(str, rows))}}};\n",
        )
    )


def _listed(name: str, values: Sequence[Any]) -> tuple[int, str]:
    return len(values), name if values else "NULL"


def _array(type_: str, name: str, rows: Iterable[str]) -> str:
    listed = "".join(f"    {row},\n" for row in rows)
    return f"static const {type_} {name}[] = {{\n{listed}}};\n" if listed else ""


def _level_of(artifact: CpuArtifact) -> int:
    return _LEVELS.get(artifact.specialization.arch or "", 1)


def _entry(artifact: CpuArtifact) -> str:
    return artifact.entry_name


def _cpu_row(artifact: CpuArtifact) -> str:
    rows_along = {None: 0, "first": 1, "last": 2}[artifact.rows_along]
    part_bytes = -1 if artifact.part_bytes is None else artifact.part_bytes
    values = (_level_of(artifact), _entry(artifact), rows_along, artifact.longest_segment)
    return f"{{{', '.join(map(str, values))}, {part_bytes}}}"


def _capability(artifact: CudaArtifact) -> int:
    return int("".join(filter(str.isdigit, artifact.arch)))


def _cuda_row(image: str, artifact: CudaArtifact, is_cubin: bool) -> str:
    kind = int(not is_cubin)
    return f'{{{_capability(artifact)}, {kind}, "{artifact.entry_name}", {image}}}'


def _image(name: str, artifact: CudaArtifact, is_cubin: bool) -> str:
    # The driver reads PTX as a text that ends with a zero.
    data = artifact.code("cubin") if is_cubin else artifact.code("ptx") + b"\0"
    lines = (data[at : at + _COLUMNS] for at in range(0, len(data), _COLUMNS))
    text = "".join(f"    {','.join(map(str, line))},\n" for line in lines)
    return f"static const unsigned char {name}[] __attribute__((aligned(64))) = {{\n{text}}};\n"


# -- numbers that the C runtime shares with the CPU target ----------------------------------------


_NUMBERS = {
    "STEP_UNITS": LaunchWord.STEP_UNITS,
    "ALL_UNITS": LaunchWord.UNITS,
    "SPACE": LaunchWord.SPACE,
    "SHARED_BYTES": LaunchWord.SHARED_BYTES,
    "FAILURE": LaunchWord.FAILURE,
    "FIRST_UNITS": LaunchWord.FIRST_UNITS,
    "PARTS": LaunchWord.PARTS,
    "HEADER_WORDS": HEADER_BYTES // 8,
    "OVERRUN": OVERRUN,
    "FINISHED": FINISHED,
    "ALIGNMENT": ALIGNMENT,
    "SERIAL_THREADS": SERIAL_THREADS,
    "STEPS_PER_THREAD": STEPS_PER_THREAD,
    "LEAST_STEP_THREADS": LEAST_STEP_THREADS,
    "LEAST_ROW": LEAST_SEGMENT,
    "POOL_SLOTS": PoolPlace.SLOTS,
    "POOL_SLOT_BYTES": SLOT_BYTES,
    "POOL_PARALLEL_FOR": PoolPlace.PARALLEL_FOR,
}


def numbers_header() -> str:
    """Return ``kerneldsl_numbers.h``."""
    rows = "".join(f"#define {name} ({value})\n" for name, value in _NUMBERS.items())
    return f"/* Numbers of the code that kerneldsl has written; not for programs. */\n{rows}"


# -- the system's C compiler ----------------------------------------------------------------------


#: Functions that no library has are refused here; no path or time becomes part of the file.
_OPTIONS = (
    *("-std=gnu11", "-O2", "-fPIC", "-shared", "-pthread"),
    *("-Wl,-z,defs", "-Wl,-z,noexecstack", "-Wl,--build-id=none"),
)
_LIBRARIES = ("-lm", "-ldl")


def find_compiler() -> list[str]:
    """Return the command of the C compiler: ``CC`` of the environment, else ``cc``.

    Raises `ToolMissingError` if there is none.
    """
    command = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if shutil.which(command[0]) is None:
        raise ToolMissingError(
            f"the C compiler {command[0]} was not found",
            value=command[0],
            limit="A C library of kernels is linked by the system's C compiler, CC or cc",
            remedy="Install gcc or clang, or name one with CC",
        )
    return command


def link_shared(folder: Path, output: str, files: Sequence[str]) -> None:
    """Compile and link sources and object files of a folder into a shared object there.

    Raises
    ------
    CompileError
        The compiler refuses them; its messages are part of the error.
    ToolMissingError
        There is no compiler.
    """
    # The command runs in the folder, so that no other path becomes part of the file.
    command = [*find_compiler(), *_OPTIONS, "-o", output, *files, *_LIBRARIES]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(
            f"{command[0]} could not link {output}:\n{done.stderr.strip()}",
            value=output,
            limit=f"It was called in {folder} as: {shlex.join(command)}",
        )
