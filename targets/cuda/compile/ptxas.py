"""NVIDIA's assembler, if it is installed: the resources of a kernel, without a GPU.

References
----------
CUDA Compiler Driver NVCC, section "ptxas Options".
"""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from kerneldsl.contract import Resources
from kerneldsl.errors import CompileError, ToolMissingError
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.architectures import ARCHITECTURES
from targets.cuda.compile.libdevice import toolkit_directories, wheel_directories
from targets.cuda.compile.ptx_lines import is_for_debuggers

__all__ = [
    "Assembled",
    "assemble",
    "disassemble",
    "find_nvdisasm",
    "find_problem",
    "find_ptxas",
    "find_tool",
    "problem_of",
    "threads_with",
    "tool_places",
]

# SASS, the machine code of a kernel as text, by NVIDIA's disassembler if it is installed.
#
# See CUDA Binary Utilities, section "nvdisasm".

_DISASSEMBLY_SECONDS = 60


@cache
def find_nvdisasm() -> Path:
    """Return where nvdisasm is; see :func:`~targets.cuda.compile.ptxas.find_tool`."""
    return find_tool("nvdisasm", "pip install nvidia-cuda-nvdisasm")


def disassemble(cubin: bytes) -> str:
    """Return machine code as text, with the lines of the source if the code has them.

    Raises `ToolMissingError` if nvdisasm is missing. Raises `CompileError` if it cannot read the
    code, such as that of an architecture that is newer than it.
    """
    tool = find_nvdisasm()
    with tempfile.TemporaryDirectory(prefix="kerneldsl-") as directory:
        code = Path(directory, "kernel.cubin")
        code.write_bytes(cubin)
        done = subprocess.run(
            [str(tool), "--print-code", "--print-line-info", str(code)],
            capture_output=True,
            text=True,
            timeout=_DISASSEMBLY_SECONDS,
            check=False,
        )
    if done.returncode:
        raise CompileError(
            f"nvdisasm cannot read the machine code: {(done.stderr or done.stdout).strip()[:500]}",
            remedy="Install the nvdisasm of a newer CUDA toolkit",
        )
    return done.stdout


_ASSEMBLY_SECONDS = 300
#: Registers are given out to warps in units of this many (CUDA occupancy calculator).
_REGISTER_UNIT = 256
_REGISTERS_PER_BLOCK = 65536
_WARP = 32


@dataclass(frozen=True)
class Assembled:
    """Output of ptxas."""

    #: Machine code, an ELF file.
    cubin: bytes
    #: Output of ptxas with ``-v``.
    log: str
    #: Maps the name of each entry to its resources.
    resources: dict[str, Resources]


@cache
def find_ptxas() -> Path:
    """Return where ptxas is; see :func:`~find_tool`."""
    return find_tool("ptxas", 'pip install "kerneldsl[dev]"')


def assemble(ptx: str, arch: str, *, optimize: bool = True, is_whole: bool = True) -> Assembled:
    """Assemble PTX.

    With `optimize` it takes the time that a good result needs. PTX that is not `is_whole` calls
    functions of code that it will be linked with.

    Raises `ToolMissingError` if ptxas is missing, or does not know the architecture. Raises
    `CompileError` if it refuses the PTX; its log is in the message.
    """
    tool = find_ptxas()
    with tempfile.TemporaryDirectory(prefix="kerneldsl-") as directory:
        source, target = Path(directory, "kernel.ptx"), Path(directory, "kernel.cubin")
        source.write_text(ptx)
        command = [str(tool), "-v", f"-arch={arch}", "-o", str(target), str(source)]
        if not optimize:
            command.insert(1, "-O0")
        elif is_for_debuggers(ptx):
            command.insert(1, "--device-debug")
        elif "\t.loc\t" in ptx:
            command.insert(1, "--generate-line-info")
        if not is_whole:
            command.insert(1, "--compile-only")
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ASSEMBLY_SECONDS, check=False
        )
        log = (done.stderr + done.stdout).replace(str(source), source.name)
        if done.returncode:
            _refuse(tool, arch, log)
        return Assembled(target.read_bytes(), log, _parse(log, arch))


def _refuse(tool: Path, arch: str, log: str) -> None:
    if "is not defined for option 'gpu-name'" in log:
        raise ToolMissingError(
            f"{tool} does not know {arch}",
            value=arch,
            limit=f"It knows {', '.join(_architectures(tool)) or log.strip()}",
            remedy="Install another version of the CUDA toolkit",
        )
    raise CompileError(f"ptxas refuses the PTX for {arch}:\n{log.strip()}", value=log)


@cache
def _architectures(tool: Path) -> tuple[str, ...]:
    """Return the architectures that a ptxas assembles for, as it says itself."""
    done = subprocess.run(
        [str(tool), "--help"], capture_output=True, text=True, timeout=60, check=False
    )
    text = done.stdout.partition("--gpu-name")[2].partition("\n--")[0]
    names = set(re.findall(r"'(sm_\w+)'", text)) & ARCHITECTURES.keys()
    return tuple(each for each in ARCHITECTURES if each in names)


_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def _parse(log: str, arch: str) -> dict[str, Resources]:
    found: dict[str, Resources] = {}
    parts = _ENTRY.split(log)
    limit = ARCHITECTURES[arch].max_threads_per_block
    for name, text in zip(parts[1::3], parts[3::3], strict=True):
        registers = int(_first(_REGISTERS, text))
        stack = _STACK.search(text)
        found[name] = Resources(
            registers=registers,
            spill_bytes=int(stack[2]) + int(stack[3]) if stack else 0,
            local_bytes=int(stack[1]) if stack else 0,
            static_shared_bytes=int(_first(_SHARED, text)),
            max_block_threads=min(limit, threads_with(registers)),
        )
    return found


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else "0"


def threads_with(registers: int) -> int:
    """Return the threads that a block can have when each takes this many registers."""
    per_warp = -(-max(registers, 1) * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    return _REGISTERS_PER_BLOCK // per_warp * _WARP


# Programs of NVIDIA's toolkit. It is not needed; its usual folders are searched.


def find_tool(name: str, install: str) -> Path:
    """Return where a program is; `install` is the command that installs it.

    Looked for in: NVIDIA's wheels beside this Python's packages, ``PATH``, ``CUDA_HOME``,
    ``CUDA_PATH``, ``/usr/local/cuda``.

    Raises `ToolMissingError` if it is missing.
    """
    for place in tool_places(name):
        if place.is_file():
            return place
    raise ToolMissingError(
        f"{name} was not found",
        value=name,
        limit="Looked for in NVIDIA's wheels, PATH, CUDA_HOME, CUDA_PATH and /usr/local/cuda",
        remedy=f"Run: {install}, or install the CUDA toolkit",
    )


def tool_places(name: str) -> Iterator[Path]:
    """Yield where a program may be, in the order in which they are tried."""
    for wheel in wheel_directories():
        yield from sorted(wheel.glob(f"**/bin/{name}"), reverse=True)
    found = shutil.which(name)
    if found:
        yield Path(found)
    for root in toolkit_directories():
        yield root / "bin" / name


_log = logging.getLogger("kerneldsl.cuda.compiler")
#: Most bytes that a thread may spill.
MOST_SPILLED = 64
#: Codes of ptxas's messages about ``wgmma``.
_SERIALIZED = re.compile(r"\((C75\d\d)\)")


def find_problem(ptx: str, entry_name: str, arch: str) -> str | None:
    """Assemble the code of warpgroups, and say why it would be slow; ``None`` if it is not.

    Where ptxas does not see that results stay in their registers it puts waits between
    instructions, which it reports (C7508 to C7520). A thread with too few registers spills them.
    Such code is right, but slower than that of other plans. A few registers that are spilled
    outside of the innermost loop cost nothing: gradients of attention with 28 bytes were as fast as
    without.

    Without an assembler nothing is known against it.
    """
    try:
        assembled = assemble(ptx, arch)
    except ToolMissingError as error:
        _log.debug("%s is not assembled before it is loaded: %s", entry_name, error)
        return None
    except CompileError as error:
        return f"ptxas refuses the code: {error}"
    return problem_of(assembled, entry_name)


def problem_of(assembled: Assembled, entry_name: str) -> str | None:
    """Say why assembled code would be slow; ``None`` if it is not."""
    codes = sorted(set(_SERIALIZED.findall(assembled.log)))
    if codes:
        return f"ptxas serializes the products ({', '.join(codes)})"
    spilled = assembled.resources[entry_name].spill_bytes or 0
    return f"a thread spills {spilled} bytes" if spilled > MOST_SPILLED else None
