"""A kernel of a program's own CUDA C++, PTX or cubin, checked against its signature.

Of an array the kernel gets the address alone. The parameter buffer of a launch is that of other
kernels, and the driver is given the addresses of those parameters that C declares.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from kerneldsl.contract import Resources, Specialization
from kerneldsl.contract.abi import parameter_count
from kerneldsl.contract.device_code import DeviceCode
from kerneldsl.errors import (
    ArgumentTypeError,
    CompileError,
    DeviceCodeError,
    KernelImageError,
    ToolMissingError,
)
from kerneldsl.frontend.linked_code import CodeForm
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind, format_signature
from kerneldsl.utilities.formatting import format_count, format_version
from targets.cuda.architectures import Architecture, newest_ptx_of_driver, parse_arch
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.code_image import Image, compile_ptx, find_image
from targets.cuda.compile.cubin_file import Entry

__all__ = ["CodeArtifact", "compile_code"]

_POINTER_BYTES = 8


def compile_code(specialization: Specialization, arch: str) -> CodeArtifact:
    """Compile or read the code of a specialization.

    - raises `ArgumentTypeError` if the signature passes other parameters than the kernel declares.
    - raises `DeviceCodeError` if the code is refused, or has no such kernel.
    - raises `ToolMissingError` if NVRTC is needed and not installed.
    """
    assert specialization.code is not None
    started = time.perf_counter()
    image = find_image(specialization.code.module, arch)
    if specialization.arch is not None:  # a device, or an architecture that was named
        _require_architecture(image, specialization.code.module.name, parse_arch(arch))
    timings = {"nvrtc": time.perf_counter() - started}
    return CodeArtifact(specialization, image, parse_arch(arch), timings)


class CodeArtifact(CudaArtifact):
    """A kernel of a program's own code.

    - `device_code`: the kernel and its module.
    - `image_parts`: the image that the driver loads, with its properties.
    """

    def __init__(
        self,
        specialization: Specialization,
        image: Image,
        arch: Architecture,
        timings: Mapping[str, float],
    ) -> None:
        code = specialization.code
        assert code is not None
        entry_name = image.names.get(code.entry, code.entry)
        super().__init__(
            specialization,
            entry_name,
            ptx=image.ptx,
            llvm="",
            # PTX is assembled for the device.
            arch=arch if image.ptx and image.runs_on(arch) else image.arch,
            ptx_version=image.ptx_version,
            timings=timings,
        )
        self.device_code = code
        self.image_parts = image
        self.log = image.log
        self._entry = _find_entry(image, entry_name, code)
        _check_parameters(self._entry, specialization.kinds, code)
        self._offsets = _offsets(specialization)

    def __repr__(self) -> str:
        return f"<CodeArtifact {self.device_code.entry} of {self.device_code.module.name}>"

    @property
    def image(self) -> str | bytes:
        return self.ptx or self.image_parts.data

    @property
    def owner(self) -> object:
        return self.device_code.module

    @property
    def offsets(self) -> tuple[int, ...]:
        return self._offsets

    @property
    def passes_addresses(self) -> bool:
        return True

    @property
    def static_shared_bytes(self) -> int:
        known = self._entry.resources
        return known.static_shared_bytes if known is not None else super().static_shared_bytes

    def explaining(self) -> AbstractContextManager[None]:
        return _as_errors_of(self.device_code)

    def require(self, arch: str, cuda: tuple[int, int]) -> None:
        name, image, device = self.device_code.module.name, self.image_parts, parse_arch(arch)
        newest = newest_ptx_of_driver(cuda)
        if newest is not None and image.ptx_version > newest:
            raise DeviceCodeError(
                f"{name} is PTX {format_version(image.ptx_version)}",
                value=image.ptx_version,
                limit=f"The driver supports CUDA {format_version(cuda)}, and PTX up to "
                f"{format_version(newest)}",
                remedy="Update the driver, or compile with an older CUDA toolkit, or to a cubin",
            )
        _require_architecture(image, name, device)

    def text(self, form: str) -> str:
        """Return ``"ptx"``, ``"sass"``, or ``"source"``: the program's own text."""
        module = self.device_code.module
        if form == "ptx" and not self.ptx:
            if module.form is not CodeForm.CUDA:
                raise ToolMissingError(
                    f"{module.name} is a {module.form}, which has no PTX",
                    value=module.name,
                    remedy='Look at its machine code: kernel.artifact(target="cuda").text("sass")',
                )
            return compile_ptx(module, self.arch)
        if form == "source" and module.is_text:
            return module.text
        if form in ("llvm", "source"):
            raise ValueError(f"a kernel of {module.form} has no form {form!r}")
        return super().text(form)

    def forms_at_hand(self) -> tuple[str, ...]:
        return ("ptx", "sass") if self.ptx else ("sass",)

    def code(self, form: str) -> bytes:
        if form == "cubin" and not self.ptx:
            return self.image_parts.data
        return super().code(form)

    def resources(self) -> Resources:
        return self._entry.resources or super().resources()


def _require_architecture(image: Image, name: str, wanted: Architecture) -> None:
    """Refuse code that devices of an architecture cannot run."""
    if image.runs_on(wanted):
        return
    raise DeviceCodeError(
        f"{name} is {'a cubin' if image.form is CodeForm.CUBIN else 'PTX'} for "
        f"{image.arch.name}, and the device is {wanted.name}",
        value=image.arch.name,
        limit="A cubin runs on devices of its major version, from its minor version on"
        if image.form is CodeForm.CUBIN
        else "PTX runs on devices of its architecture and newer ones",
        remedy=f"Compile it for {wanted.name}",
    )


def _find_entry(image: Image, name: str, code: DeviceCode) -> Entry:
    found = image.entries.get(name)
    if found is None:
        raise DeviceCodeError(
            f"{code.module.name} has no kernel {name}",
            value=name,
            limit=f"Its kernels are {', '.join(sorted(image.entries))}",
            remedy='Name one of them. Names of C++ are mangled, unless the kernel is extern "C"',
        )
    return found


def _check_parameters(entry: Entry, kinds: tuple[Kind, ...], code: DeviceCode) -> None:
    """Refuse a signature with another number of parameters, or with other widths."""
    wanted = [each.nbytes for each in entry.parameters]
    given = [_passed_bytes(kind) for kind in kinds]
    if given == wanted:
        _check_floats(entry, kinds, code)
        return
    if len(given) != len(wanted):
        what = f"passes {format_count(len(given), 'parameter')}"
    else:
        position = next(
            i for i, pair in enumerate(zip(given, wanted, strict=True)) if len({*pair}) > 1
        )
        what = f"passes {given[position]} bytes as parameter {position + 1} ({kinds[position]})"
    limit = f"it declares {format_count(len(wanted), 'parameter')}"
    raise _wrong_signature(
        kinds,
        code,
        what,
        limit + (f" of {', '.join(map(str, wanted))} bytes" if wanted else ""),
    )


def _wrong_signature(
    kinds: tuple[Kind, ...], code: DeviceCode, what: str, limit: str
) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"the signature ({format_signature(kinds)}) of {code.entry} {what}",
        value=format_signature(kinds),
        limit=f"In {code.module.name} {limit}",
        remedy="Name the types as C declares them: float32 for float, int32 for int, "
        "float32[::1] for float*",
    )


def _check_floats(entry: Entry, kinds: tuple[Kind, ...], code: DeviceCode) -> None:
    """Refuse an integer or an array for a float, and a float for another type."""
    for number, (kind, known) in enumerate(zip(kinds, entry.parameters, strict=True), 1):
        is_float = isinstance(kind, ScalarKind) and kind.element.is_float
        if known.is_float is None or known.is_float == is_float:
            continue
        bits = 8 * known.nbytes
        limit = f"a float of {bits} bits" if known.is_float else f"no float, of {bits} bits"
        raise _wrong_signature(
            kinds, code, f"passes {kind} as parameter {number}", f"it is {limit}"
        )


def _passed_bytes(kind: Kind) -> int:
    if isinstance(kind, ArrayKind):
        return _POINTER_BYTES
    assert isinstance(kind, ScalarKind)
    return kind.element.nbytes


def _offsets(specialization: Specialization) -> tuple[int, ...]:
    """Return where C's parameters begin: of an array its address, of a number its first byte."""
    parameters, number, found = specialization.layout.parameters, 0, []
    for kind in specialization.kinds:
        found.append(parameters[number].offset)
        number += parameter_count(kind)
    return tuple(found)


@contextmanager
def _as_errors_of(code: DeviceCode) -> Iterator[None]:
    """Raise what an assembler or a driver says of the code as an error of the program."""
    try:
        yield
    except DeviceCodeError:
        raise
    except (CompileError, KernelImageError) as error:
        raise DeviceCodeError(
            f"{code.entry} of {code.module.name} cannot be loaded: {error.what}",
            value=error.value,
            limit=error.limit,
            remedy=error.remedy,
            chain=error.chain[:8],
        ) from error
