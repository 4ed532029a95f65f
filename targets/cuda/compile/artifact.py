"""A compiled kernel: its PTX and everything that loading, launching and looking at it needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import Artifact, Resources, Specialization
from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.contract.findings import NO_BARRIERS, BarrierFacts
from kerneldsl.errors import CompileError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.lowering.captured_arrays import CAPTURED, elements, large_arrays
from kerneldsl.utilities.locks import ForkSafeLock
from targets.cuda.architectures import Architecture, PtxVersion, parse_arch
from targets.cuda.compile.lowered import NO_ADDITIONS, LaunchAdditions
from targets.cuda.compile.ptx_lines import matrix_shared_bytes, shared_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kerneldsl.contract import PassRemark
    from kerneldsl.contract.findings import Finding
    from kerneldsl.frontend.linked_code import LinkedCode
    from kerneldsl.frontend.unit import FunctionUnit
    from kerneldsl.lowering.faults import FaultTable

__all__ = ["CudaArtifact", "naming_inline_text"]


#: Characters of PTX that ptxas assembles in some tenths of a second.
_SOON_ASSEMBLED = 50_000


class CudaArtifact(Artifact):
    """PTX for one kernel.

    `llvm` is the optimized module that the PTX was written from, or a function that compiles it
    again. `fault_table` says in debug mode what the sites in a fault record mean. `timings` are
    seconds of ``prepare``, ``numba``, ``link`` and ``llvm``. `cubin` is the machine code, if it is
    known. `additions` are what each launch has beyond what the program declares.
    """

    arch: str

    def __init__(
        self,
        specialization: Specialization,
        entry_name: str,
        *,
        ptx: str,
        llvm: str | Callable[[], str],
        arch: Architecture,
        ptx_version: PtxVersion,
        timings: Mapping[str, float],
        fault_table: FaultTable | None = None,
        uses_libdevice: bool = False,
        passes: tuple[PassRemark, ...] | Callable[[], tuple[PassRemark, ...]] = (),
        cubin: bytes | None = None,
        findings: tuple[Finding, ...] = (),
        barriers: BarrierFacts = NO_BARRIERS,
        additions: LaunchAdditions = NO_ADDITIONS,
    ) -> None:
        self.specialization = specialization
        self.entry_name = entry_name
        self.ptx = ptx
        self.arch = arch.name
        self.ptx_version = ptx_version
        self.fault_table = fault_table
        self.timings = dict(timings)
        self.uses_libdevice = uses_libdevice
        self._passes = passes
        self.findings = findings
        self.barriers = barriers
        self.additions = additions
        self.tensor_maps = additions.tensor_maps
        self._cubin = cubin
        self._llvm = llvm
        self._lock = ForkSafeLock()
        self._resources: Resources | None = None
        #: Compiled code that the PTX calls.
        self.binaries = _binaries_of(specialization.unit, ptx)

    def __repr__(self) -> str:
        major, minor = self.ptx_version
        return f"<CudaArtifact {self.entry_name} for {self.arch}, PTX ISA {major}.{minor}>"

    @property
    def layout(self) -> ParameterLayout:
        """The entry's parameters."""
        return self.specialization.layout

    def explaining(self) -> AbstractContextManager[None]:
        """Return a context in which errors of an assembler or of loading get their place."""
        return naming_inline_text(self.specialization, self.ptx, self.arch)

    def require(self, arch: str, cuda: tuple[int, int]) -> None:
        """Refuse to be loaded on a device of an architecture, with a driver of a CUDA release.

        Code that was compiled here is for the device, so only the PTX of linked functions can be
        too new. Raises `DeviceCodeError`.
        """
        unit = self.specialization.unit
        if unit.linked_functions() and not self.binaries:
            from targets.cuda.compile.linked_modules import require_driver

            require_driver(unit, self.ptx_version, cuda)

    def contents(self) -> Mapping[str, NDArray[Any]]:
        """Return what a loaded module's memory has to hold, by its names: large captured arrays."""
        if CAPTURED not in self.ptx:
            return {}
        arrays = large_arrays(self.specialization.unit)
        return {name: elements(array) for name, array in arrays.items() if name in self.ptx}

    @property
    def image(self) -> str | bytes:
        """The code that the driver loads: PTX, or machine code.

        Raises what :meth:`code` raises, if the PTX calls compiled code.
        """
        if self._cubin is not None or self.binaries:
            return self.code("cubin")
        return self.ptx

    def without_machine_code(self) -> bool:
        """Let the driver assemble the PTX from now on; say whether there was machine code.

        PTX that calls compiled code needs it.
        """
        if self._cubin is None or self.binaries:
            return False
        self._cubin = None
        return True

    @property
    def owner(self) -> object:
        """The object with which the loaded code is shared and freed; by default the artifact."""
        return self

    @property
    def offsets(self) -> tuple[int, ...]:
        """Offsets of the declared parameters in the parameter buffer of a launch."""
        found = tuple(each.offset for each in self.layout.parameters)
        if not self.tensor_maps:
            return found
        from kerneldsl.contract.tensor_maps import map_offsets

        return (*found, *map_offsets(self.layout.nbytes, len(self.tensor_maps)))

    @property
    def passes(self) -> tuple[PassRemark, ...]:  # type: ignore[override]
        """The remarks of the optimizing passes."""
        if callable(self._passes):
            self._passes = self._passes()
        return self._passes

    @property
    def passes_addresses(self) -> bool:
        """True if the driver is given the parameters at the offsets alone, and not the buffer.

        An assembler aligns tensor maps in the memory where the device has parameters, so the places
        that it gives them are not those of PTX.
        """
        return bool(self.tensor_maps)

    @property
    def uses_dynamic_shared(self) -> bool:
        """True if a launch may use dynamic shared memory."""
        return self.specialization.traits.uses_dynamic_shared

    @property
    def static_shared_bytes(self) -> int:
        """Bytes of static shared memory of a block.

        The analysis knows the arrays of a program, and the compiler what tiles need.
        """
        traits = self.specialization.traits
        return shared_bytes(self.ptx) if traits.uses_tiles else traits.static_shared_bytes

    @property
    def matrix_shared_bytes(self) -> int:
        """Bytes of dynamic shared memory that each launch adds, for the factors of products."""
        return matrix_shared_bytes(self.ptx)

    def text(self, form: str) -> str:
        """Return the code as ``"ptx"``, ``"llvm"``, ``"source"`` or ``"sass"``.

        The form is ``"ptx"``; ``"llvm"``, the optimized module; ``"source"``, the normal form as
        Python; or ``"sass"``, the machine code as text. The last needs ptxas and nvdisasm.

        Raises `ValueError` for another form.
        """
        if form == "ptx":
            return self.ptx
        if form == "llvm":
            if callable(self._llvm):
                self._llvm = self._llvm()
            return self._llvm
        if form == "source":
            return self.specialization.unit.source()
        if form == "sass":
            from targets.cuda.compile.ptxas import disassemble, find_nvdisasm

            find_nvdisasm()  # before it is assembled for nothing
            return disassemble(self.code("cubin"))
        raise ValueError(
            f"a CUDA kernel has no form {form!r}; it has 'ptx', 'llvm', 'source' and 'sass'"
        )

    def forms_at_hand(self) -> tuple[str, ...]:
        """Return the forms that take no compiling; SASS takes assembling, of little PTX."""
        sass = ("sass",) if len(self.ptx) <= _SOON_ASSEMBLED else ()
        return ("ptx", *sass) if callable(self._llvm) else ("ptx", *sass, "llvm")

    def code(self, form: str) -> bytes:
        """Return a form of :meth:`text` as bytes, ``"cubin"``, the machine code, or ``"fatbin"``.

        Raises what :func:`~targets.cuda.compile.cubin_file.make_cubin` raises.
        """
        if form == "fatbin":
            return self.code_with((), form)
        if form != "cubin":
            return super().code(form)
        if self._cubin is not None:
            return self._cubin
        with self.explaining():
            if self.binaries:
                from targets.cuda.compile.linker import link_binaries

                self._cubin = link_binaries(self.ptx, self.binaries, self.arch)
                return self._cubin
            from targets.cuda.compile.cubin_file import make_cubin

            return make_cubin(self.ptx, self.arch)

    def code_with(self, others: Sequence[Artifact], form: str) -> bytes:
        """Return the fat binary of this code and that for other architectures.

        It has the PTX of the newest one, unless that calls compiled code. Raises what :meth:`code`
        and :func:`~targets.cuda.compile.fatbin.make_fatbin` raise.
        """
        if form != "fatbin":
            return super().code_with(others, form)
        from targets.cuda.compile.fatbin import make_fatbin

        made = [self, *(each for each in others if isinstance(each, CudaArtifact))]
        newest = max(made, key=lambda each: parse_arch(each.arch).number)
        ptx = {} if newest.binaries else {newest.arch: newest.ptx}
        return make_fatbin({each.arch: each.code("cubin") for each in made}, ptx)

    def resources(self) -> Resources:
        """Return what ptxas says the kernel takes, with the memory that each launch adds.

        It is assembled once. Raises `ToolMissingError` if ptxas is missing. Raises
        `CompileError` if ptxas refuses the PTX.
        """
        if self._cubin is not None:
            from targets.cuda.compile.cubin_file import read_cubin

            known = read_cubin(self._cubin, self.entry_name).entries[self.entry_name].resources
            if known is not None:
                return self._with_own_shared(known)
        from targets.cuda.compile.ptxas import assemble

        with self._lock, self.explaining():
            if self._resources is None:
                assembled = assemble(self.ptx, self.arch, is_whole=not self.binaries)
                found = assembled.resources[self.entry_name]
                self._resources = self._with_own_shared(found)
            return self._resources

    def _with_own_shared(self, resources: Resources) -> Resources:
        own = self.matrix_shared_bytes
        static_bytes = resources.static_shared_bytes + own
        return replace(resources, static_shared_bytes=static_bytes) if own else resources


def _binaries_of(unit: FunctionUnit, ptx: str) -> tuple[LinkedCode, ...]:
    if not unit.linked_functions():
        return ()
    from targets.cuda.compile.linked_modules import binary_codes

    return binary_codes(unit, ptx)


# LLVM writes ``// begin inline asm`` and ``// end inline asm`` around each text, and ptxas and the
# driver name the line of what they refuse.
_COMPLAINT = re.compile(r"line (\d+)\s*[;,]\s*(?:error|fatal)\s*:\s*(.*)")
_BEGIN, _END = "// begin inline asm", "// end inline asm"
_OPERAND = re.compile(r"\$(\$|\d+)")


@contextmanager
def naming_inline_text(specialization: Specialization, ptx: str, arch: str) -> Iterator[None]:
    """Raise what an assembler says of a text of ``kd.ptx`` with the text and its line."""
    try:
        yield
    except CompileError as error:
        named = _named(error, specialization.unit, ptx, arch)
        if named is None:
            raise
        raise named from error


def _named(error: CompileError, unit: FunctionUnit, ptx: str, arch: str) -> CompileError | None:
    """Return an error about the first inline text that is refused, or ``None``."""
    lines = ptx.splitlines()
    refused: dict[str, list[str]] = {}
    for number, complaint in _COMPLAINT.findall(str(error)):
        block = _block_around(lines, int(number) - 1)
        if block is not None:
            refused.setdefault(block, []).append(complaint.strip())
    for block, complaints in refused.items():
        for each in unit.reachable():
            for name, use in each.uses.items():
                text = str(use.static.get("text", ""))
                if use.intrinsic.name == "ptx" and _pattern(text).fullmatch(block):
                    return CompileError(
                        f"{unit.qualname}: the PTX of {text!r} is refused for {arch}: "
                        + "; ".join(dict.fromkeys(complaints)),
                        where=each.locate_use(name),
                        value=text,
                        limit="kd.ptx hands its text to the assembler as it is",
                        remedy="Look the instruction up in the PTX ISA: its types, its operands, "
                        "and the architectures that have it",
                    )
    return None


def _block_around(lines: list[str], at: int) -> str | None:
    """Return the inline text that contains a line of PTX."""
    first = at
    while first >= 0 and lines[first].strip() != _BEGIN:
        if first < at and lines[first].strip() == _END:
            return None
        first -= 1
    last = at
    while last < len(lines) and lines[last].strip() != _END:
        last += 1
    return _squeezed("\n".join(lines[first + 1 : last])) if first >= 0 else None


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _pattern(text: str) -> re.Pattern[str]:
    """Return a pattern that finds a text after its operands have become registers."""
    parts, end = [], 0
    squeezed = _squeezed(text)
    for found in _OPERAND.finditer(squeezed):
        parts.append(re.escape(squeezed[end : found.start()]))
        parts.append(r"\$" if found[1] == "$" else r"[^\s,;]+?")
        end = found.end()
    return re.compile("".join((*parts, re.escape(squeezed[end:]))))
