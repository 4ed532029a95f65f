"""The code that a kernel is linked with, joined with its PTX.

PTX, and what is compiled to it, becomes part of the kernel's module. Machine code and LTO-IR stay
apart, and nvJitLink links them when the kernel is assembled
(:mod:`targets.cuda.compile.linker`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import NoReturn
from warnings import warn

from kerneldsl.contract import Specialization
from kerneldsl.contract.cuda_options import DEFAULT_CUDA_OPTIONS, CudaOptions
from kerneldsl.errors import DeviceCodeError, KernelWarning, ToolMissingError
from kerneldsl.frontend.linked_code import CodeForm, LinkedCode
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import ArrayKind, ScalarKind
from kerneldsl.utilities.formatting import format_version
from targets.cuda.architectures import Architecture, PtxVersion, newest_ptx_of_driver
from targets.cuda.compile.nvrtc import CudaText, compile_text, headers_digest, nvrtc_identity
from targets.cuda.compile.pipeline import Pipeline, Stage
from targets.cuda.compile.ptx_modules import PtxModule, PtxModuleError, join_modules, parse_module

__all__ = ["binary_codes", "identify_compiler", "join_linked", "require_driver"]

_POINTER_BITS = 64
#: Forms of code that become part of a kernel's module.
_JOINED = (CodeForm.PTX, CodeForm.CUDA)
_TARGET = re.compile(r"sm_(\d+)([af]?)")


def binary_codes(unit: FunctionUnit, ptx: str) -> tuple[LinkedCode, ...]:
    """Return the compiled code that the PTX of a kernel needs to be linked with."""
    found = {
        file.digest: file
        for code in unit.linked_functions().values()
        for file in code.files
        if file.form not in _JOINED
        and re.search(rf"\.func[^;{{]*[\s)]{re.escape(code.symbol)}\s*[(;]", ptx)
    }
    return tuple(found.values())


def require_driver(unit: FunctionUnit, version: PtxVersion, cuda: tuple[int, int]) -> None:
    """Refuse the PTX of a kernel with linked functions that is newer than the driver.

    Raises `DeviceCodeError`.
    """
    newest = newest_ptx_of_driver(cuda)
    if newest is None or version <= newest:
        return
    names = dict.fromkeys(code.name for code in unit.linked_functions().values())
    raise DeviceCodeError(
        f"{unit.qualname}, linked with {', '.join(names)}, is PTX {format_version(version)}",
        where=unit.locate(unit.tree),
        value=version,
        limit=f"The driver supports CUDA {format_version(cuda)}, and PTX up to "
        f"{format_version(newest)}",
        remedy="Update the driver, or use PTX or NVRTC of an older CUDA toolkit",
    )


def join_linked(
    ptx: str,
    specialization: Specialization,
    called: Collection[str],
    arch: Architecture,
    version: PtxVersion,
    pipeline: Pipeline,
) -> tuple[str, PtxVersion]:
    """Return a kernel's PTX joined with the modules of the functions that it calls.

    `version` is the kernel's version of PTX. The result is of the newest of all versions.

    Raises `DeviceCodeError` if a module cannot be read or compiled, lacks the function, or defines
    it with other types, and if two define one name.
    """
    found: dict[tuple[str, str], tuple[str, PtxModule]] = {}
    joined: dict[str, str] = {}
    for unit, code in specialization.unit.linked_functions().items():
        if code.symbol not in called:
            continue
        if not code.files:
            _fail(
                unit,
                f"{code.symbol} is declared, and no code is linked that defines it",
                remedy="Give the code: link= of cuda.declare_device, or of the kernel",
            )
        modules: list[PtxModule] = []
        for file in code.files:
            if file.form not in _JOINED:
                continue
            key = (file.digest, repr(file.options))  # one module may have several functions
            if key not in found:
                found[key] = (file.name, _module_of(unit, file, arch))
            modules.append(found[key][1])
            _check_target(unit, file, modules[-1], arch)
        defining = [each for each in modules if code.symbol in each.functions]
        if not defining and len(modules) < len(code.files):
            continue  # the linker finds it in compiled code
        _check_function(unit, code, (defining or modules)[0])
        joined[code.symbol] = defining[0].definitions[code.symbol]
    named = _named(found.values())
    if not joined:
        return ptx, version
    newest = max(version, *(module.version for module in named.values()))
    inlined = pipeline.run(Stage.LINKED, ptx, joined)
    try:
        return join_modules(inlined, named, joined), newest
    except PtxModuleError as error:
        kernel = specialization.unit
        raise DeviceCodeError(
            f"{kernel.qualname} cannot be linked: {error}",
            where=kernel.locate(kernel.tree),
            remedy="Define each function and variable in one of the linked files, and give those "
            "of one file static linkage",
        ) from error


def _named(modules: Iterable[tuple[str, PtxModule]]) -> dict[str, PtxModule]:
    """Return modules by their names; files of the same name are numbered."""
    named: dict[str, PtxModule] = {}
    for name, module in modules:
        named[name if name not in named else f"{name} ({len(named) + 1})"] = module
    return named


def _module_of(unit: FunctionUnit, code: LinkedCode, arch: Architecture) -> PtxModule:
    if code.form is CodeForm.CUDA:
        return _parsed(_compile(_source_of(code), code.options or DEFAULT_CUDA_OPTIONS, arch.name))
    try:
        return _parsed(code.code.rstrip(b"\0").decode())
    except (PtxModuleError, UnicodeDecodeError) as error:
        _fail(unit, f"{code.name} cannot be read as PTX: {error}")


def _source_of(code: LinkedCode) -> CudaText:
    """Return the source of a function of CUDA C++."""
    name = code.path or f"<{code.symbol or code.name.strip('<>')}>"
    return CudaText(code.code.decode(errors="replace"), name)


def _compile(source: CudaText, options: CudaOptions, arch: str) -> str:
    """Compile a source, once for the specializations of a process."""
    try:
        headers = headers_digest(source, options)
    except LookupError:  # it includes a file that cannot be told
        return _compile_now(source, options, arch)
    return _compile_once(source, options, arch, headers)


@lru_cache(maxsize=16)
def _compile_once(source: CudaText, options: CudaOptions, arch: str, headers: str) -> str:
    return _compile_now(source, options, arch)


def _compile_now(source: CudaText, options: CudaOptions, arch: str) -> str:
    made = compile_text(source, arch, options, form=CodeForm.PTX, is_relocatable=True)
    if made.log:
        warn(KernelWarning(f"NVRTC log messages of {source.name}:\n{made.log}"), stacklevel=2)
    return made.code.decode()


def identify_compiler(unit: FunctionUnit) -> dict[str, str] | None:
    """Return what the code of linked functions depends on, beside what the functions say.

    ``None`` says that it is unknown, as without NVRTC.
    """
    found: dict[str, str] = {}
    codes = unit.linked_functions().values()
    try:
        for code in codes:
            for number, file in enumerate(code.files):
                if file.form is CodeForm.CUDA:
                    digest = headers_digest(_source_of(file), file.options or DEFAULT_CUDA_OPTIONS)
                    found[f"headers of {code.symbol} {number or ''}".rstrip()] = digest
                    found["NVRTC"] = nvrtc_identity()
    except (ToolMissingError, LookupError):
        return None
    return found


@lru_cache(maxsize=16)
def _parsed(text: str) -> PtxModule:
    return parse_module(text)


def _check_function(unit: FunctionUnit, code: LinkedCode, module: PtxModule) -> None:
    """Compare the signature with the function's head."""
    found = module.functions.get(code.symbol)
    if found is None:
        what = f"{code.name} has no function {code.symbol}"
        if code.symbol in module.entries:
            what = f"{code.symbol} in {code.name} is a kernel (.entry), which cannot be called"
        elif code.symbol in module.called():
            what = f"{code.name} declares {code.symbol}, and does not define it"
        known = ", ".join(module.functions) or "none"
        _fail(
            unit,
            what,
            limit=f"Its functions: {known}",
            remedy='Check the name; in CUDA C++ write extern "C" __device__ before the function'
            if any(name.startswith("_Z") for name in module.functions) or not module.functions
            else "Check the name, or give it by name=",
        )
    declared = tuple(
        bits
        for number, kind in enumerate(code.parameters)
        for bits in _bits_passed(kind, has_strides=code.passes_strides(number))
    )
    results = () if code.result is None else (_bits_of(code.result),)
    if code.by_address:
        declared, results = (_POINTER_BITS, *declared), (32,)
    if (declared, results) == (found.parameters, found.results):
        return
    mine, its = _shown(declared, results), _shown(found.parameters, found.results)
    _fail(
        unit,
        f"{unit.name} is declared as {code.signature}, which is {mine}; {code.symbol} in "
        f"{code.name} is {its}",
        limit=f"An address has {_POINTER_BITS} bits, and integers below 32 bits are passed in 32",
        remedy="Write the signature of the linked function",
    )


def _bits_of(kind: ScalarKind | ArrayKind) -> int:
    """Return the bits in which a value is passed: 32 at least."""
    return _POINTER_BITS if isinstance(kind, ArrayKind) else max(32, 8 * kind.element.nbytes)


def _bits_passed(kind: ScalarKind | ArrayKind, *, has_strides: bool) -> tuple[int, ...]:
    """Return the bits of what is passed of an argument."""
    if has_strides and isinstance(kind, ArrayKind):
        return (_POINTER_BITS,) * (5 + 2 * kind.ndim)
    return (_bits_of(kind),)


def _shown(parameters: Sequence[int | None], results: Sequence[int | None]) -> str:
    """Write the widths of a function's parameters and results."""

    def listed(widths: Sequence[int | None]) -> str:
        return ", ".join("a structure" if bits is None else f"{bits} bits" for bits in widths)

    return f"({listed(parameters)}) -> {listed(results) or 'nothing'}"


def _check_target(
    unit: FunctionUnit, code: LinkedCode, module: PtxModule, arch: Architecture
) -> None:
    """Refuse code for newer devices, and code with features of one architecture for others."""
    found = _TARGET.fullmatch(module.target)
    if found is not None:
        number, feature = int(found[1]), found[2]
        if number <= arch.number and (not feature or module.target == arch.name):
            return
    _fail(
        unit,
        f"{code.name} is PTX for {module.target}, and the kernel is compiled for {arch.name}",
        limit="PTX runs on its architecture and on newer ones; with an a or f, on its own family",
        remedy=f"Compile it for {arch.name} or an older architecture",
    )


def _fail(
    unit: FunctionUnit, what: str, *, limit: str | None = None, remedy: str | None = None
) -> NoReturn:
    raise DeviceCodeError(what, where=unit.locate(unit.tree), limit=limit, remedy=remedy)
