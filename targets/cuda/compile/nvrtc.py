"""Compiles CUDA C++ by NVRTC, on a machine with or without a GPU.

The result is machine code (a cubin), PTX, or LTO-IR for nvJitLink. NVRTC is a library of the CUDA
toolkit; ``cuda.bindings`` finds and calls it, and both are imported at the first compilation.

References
----------
NVRTC documentation, "Supported Compile Options" and "Accessing Lowered Names".
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

from kerneldsl.cache.remembered import Computed, remembered
from kerneldsl.contract.cuda_options import DEFAULT_CUDA_OPTIONS, CudaOptions
from kerneldsl.errors import CompileError, ToolMissingError
from kerneldsl.frontend.linked_code import CodeForm
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import format_version
from kerneldsl.utilities.locks import ForkSafeLock
from targets.cuda.architectures import Architecture, parse_arch
from targets.cuda.compile.diagnostics import CudaText, compile_error
from targets.cuda.compile.headers import includes_anything, includes_digest, toolkit_headers
from targets.cuda.compile.libdevice import toolkit_directories, wheel_directories

__all__ = [
    "Compiled",
    "CudaText",
    "compile_text",
    "headers_digest",
    "nvrtc_identity",
    "nvrtc_version",
    "supported_architectures",
]


_log = logging.getLogger("kerneldsl.cuda.nvrtc")

_INSTALL = 'pip install "kerneldsl[nvrtc13]", or "kerneldsl[nvrtc12]" for a driver of CUDA 12'


#: Forms of code to the words in names of NVRTC's functions.
_WORDS = {CodeForm.CUBIN: "CUBIN", CodeForm.PTX: "PTX", CodeForm.LTO_IR: "LTOIR"}


@dataclass(frozen=True)
class Compiled:
    """A compiled source."""

    #: The cubin, the PTX or the LTO-IR.
    code: bytes
    #: Form of the code.
    form: CodeForm
    #: The architecture, such as ``"sm_90"``.
    arch: str
    #: Log of the compiler, such as warnings.
    log: str = ""
    #: The PTX, which is kept also if it was assembled to a cubin.
    ptx: bytes = b""
    #: Name expression, such as ``"scale<float>"``, to the name in the code.
    names: Mapping[str, str] = field(default_factory=dict)


@cache
def nvrtc_version() -> tuple[int, int]:
    """Return the CUDA release of NVRTC, such as ``(13, 0)``.

    Raises `ToolMissingError` where NVRTC is not installed.
    """
    api = _import_nvrtc()
    with suppress(LookupError):
        load_library()
    try:
        status, major, minor = api.nvrtcVersion()
    except RuntimeError as error:  # the bindings' way of saying that there is no library
        raise _missing("NVRTC was not found", str(error).splitlines()[0]) from error
    _expect(api, status, "ask for its version")
    return int(major), int(minor)


def _import_nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise _missing("cuda.bindings is not installed", None) from error
    return nvrtc


def _missing(what: str, limit: str | None) -> ToolMissingError:
    return ToolMissingError(
        f"CUDA C++ needs NVRTC: {what}", value="nvrtc", limit=limit, remedy=f"Run: {_INSTALL}"
    )


@cache
def supported_architectures() -> tuple[int, ...]:
    """Return the architectures that this NVRTC compiles for, as numbers such as 90."""
    nvrtc_version()
    api = _import_nvrtc()
    status, found = api.nvrtcGetSupportedArchs()
    _expect(api, status, "ask for its architectures")
    return tuple(sorted(int(each) for each in found))


def compile_text(
    source: CudaText,
    arch: str,
    options: CudaOptions = DEFAULT_CUDA_OPTIONS,
    *,
    form: CodeForm = CodeForm.CUBIN,
    expressions: Sequence[str] = (),
    is_relocatable: bool = False,
) -> Compiled:
    """Compile a source.

    - `source`: the text and its name.
    - `arch`: the architecture, such as ``"sm_90"``.
    - `options`: the user's options.
    - `form`: form of the code: a cubin, PTX or LTO-IR, which is always relocatable.
    - `expressions`: name expressions to instantiate and to look up, such as ``"scale<float>"``.
    - `is_relocatable`: whether a linker will resolve names of other files.
    - raises `CompileError` if the source is refused: at the line and column of the first error,
      with the log in ``error.details``.
    - raises `ToolMissingError` if NVRTC is not installed, or does not know the architecture.
    """
    architecture = parse_arch(arch)
    _require_architecture(architecture)
    api = _import_nvrtc()
    arguments = _arguments(architecture, options, form, is_relocatable=is_relocatable)
    with _program(api, source) as program:
        for expression in expressions:
            (status,) = api.nvrtcAddNameExpression(program, expression.encode())
            _expect(api, status, f"read the name expression {expression!r}")
        with _stack_limit:
            (status,) = api.nvrtcCompileProgram(program, len(arguments), arguments)
        log = _read_log(api, program, source)
        if int(status):
            raise compile_error(
                log or _describe(api, status),
                _title(source, expressions),
                source,
                architecture.name,
            )
        if log:
            _log.info("%s: %s", source.name, log)
        names = {expression: _lowered_name(api, program, expression) for expression in expressions}
        code = _read_code(api, program, form)
        ptx = _read_code(api, program, CodeForm.PTX) if form is CodeForm.CUBIN else b""
    return Compiled(code, form, architecture.name, log, ptx, names)


def _require_architecture(architecture: Architecture) -> None:
    known = supported_architectures()
    if architecture.number not in known:
        raise ToolMissingError(
            f"NVRTC {format_version(nvrtc_version())} does not compile for {architecture.name}",
            value=architecture.name,
            limit=f"It knows {', '.join(f'sm_{number}' for number in known)}",
            remedy="Install another release of NVRTC",
        )


def _arguments(
    architecture: Architecture, options: CudaOptions, form: CodeForm, *, is_relocatable: bool
) -> list[bytes]:
    kind = "compute" if form is CodeForm.PTX else "sm"
    found = [f"--gpu-architecture={kind}_{architecture.name[3:]}", f"--std={options.std}"]
    if form is CodeForm.LTO_IR:
        found.append("--dlink-time-opt")
    if is_relocatable or form is CodeForm.LTO_IR:
        found.append("--relocatable-device-code=true")
    if form is CodeForm.CUBIN and not options.debug:  # code for a debugger is not optimized
        found.append(f"--ptxas-options=-O{options.opt_level}")
    if options.max_registers is not None:
        found.append(f"--maxrregcount={options.max_registers}")
    flags = {
        "--device-debug": options.debug,
        "--generate-line-info": options.lineinfo and not options.debug,
        "--use_fast_math": options.fastmath,
    }
    found += [flag for flag, is_on in flags.items() if is_on]
    folders = (*options.folders, *toolkit_headers(nvrtc_version()[0]))
    found += [f"--include-path={folder}" for folder in folders]
    found += [f"--define-macro={name}={value}" for name, value in options.macros]
    return [os.fsencode(each) for each in found]


@contextmanager
def _program(api: Any, source: CudaText) -> Iterator[Any]:
    status, program = api.nvrtcCreateProgram(
        source.text.encode(), os.fsencode(source.unique_name), 0, [], []
    )
    _expect(api, status, f"take {source.name}")
    try:
        yield program
    finally:
        api.nvrtcDestroyProgram(program)


class _StackLimit:
    """Restores the stack limit of the process (``ulimit -s``) after the last compilation.

    NVRTC raises the limit to compile. After a fatal error, such as a missing header, it stays
    raised. Several threads may compile at a time, so only the first one reads the limit.
    """

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._process_id = 0
        self._compilations = 0
        self._limits = (0, 0)

    def __enter__(self) -> None:
        try:
            import resource
        except ImportError:  # Windows has no such limit
            return
        with self._lock:
            if self._process_id != os.getpid():  # a forked child has none of its parent's threads
                self._process_id, self._compilations = os.getpid(), 0
            if not self._compilations:
                self._limits = resource.getrlimit(resource.RLIMIT_STACK)
            self._compilations += 1

    def __exit__(self, *exc: object) -> None:
        try:
            import resource
        except ImportError:
            return
        with self._lock:
            self._compilations -= 1
            if not self._compilations:
                resource.setrlimit(resource.RLIMIT_STACK, self._limits)


_stack_limit = _StackLimit()


def _read_log(api: Any, program: Any, source: CudaText) -> str:
    status, size = api.nvrtcGetProgramLogSize(program)
    _expect(api, status, "give its log")
    room = bytearray(size)
    _expect(api, api.nvrtcGetProgramLog(program, room)[0], "give its log")
    text = bytes(room).rstrip(b"\0").decode(errors="replace").strip()
    return text.replace(source.unique_name, source.name)


def _lowered_name(api: Any, program: Any, expression: str) -> str:
    status, name = api.nvrtcGetLoweredName(program, expression.encode())
    _expect(api, status, f"find {expression!r}")
    return bytes(name).decode()


def _read_code(api: Any, program: Any, form: CodeForm) -> bytes:
    which = _WORDS[form]
    status, size = getattr(api, f"nvrtcGet{which}Size")(program)
    _expect(api, status, f"give its {form}")
    room = bytearray(size)
    _expect(api, getattr(api, f"nvrtcGet{which}")(program, room)[0], f"give its {form}")
    return bytes(room).rstrip(b"\0") if form is CodeForm.PTX else bytes(room)


def _expect(api: Any, status: Any, doing: str) -> None:
    if int(status):
        raise CompileError(
            f"NVRTC could not {doing}: {_describe(api, status)}",
            value=int(status),
            remedy=f"Install NVRTC again: {_INSTALL}",
        )


def _describe(api: Any, status: Any) -> str:
    _, text = api.nvrtcGetErrorString(status)
    return bytes(text).decode() if text else f"status {int(status)}"


def _title(source: CudaText, expressions: Sequence[str]) -> str:
    if expressions:
        return f"CUDA C++ of {', '.join(expressions)}"
    return re.sub(r"^<(.*)>$", r"\1", source.name)


# Loading NVRTC takes a tenth of a second, which a process with cached code saves. Its file is found
# as for loading it. A key is computed before and after compiling. So if another file is loaded, the
# code is not cached.
def nvrtc_identity() -> str:
    """Return the names and a digest of the files of NVRTC that compile a source.

    These are the file that would be loaded, and files that are loaded, such as another library's.

    Raises `LookupError` if a loaded file cannot be identified, `ToolMissingError` if there is none.
    """
    found = find_library()
    if found is None:  # it is not installed, or in a place that only the system knows
        nvrtc_version()
    libraries = sorted({*loaded_libraries(), *([] if found is None else [found])})
    try:
        return " ".join(_identify(library) for library in libraries)
    except OSError as error:
        raise LookupError(f"NVRTC cannot be read: {error}") from error


def headers_digest(source: CudaText, options: CudaOptions) -> str:
    """Return a digest of all files that a source may include.

    Raises `LookupError` if a macro with an unknown value is included.
    """
    toolkit = toolkit_headers(_release()) if includes_anything(source.text) else ()
    digest = includes_digest(source.text, source.folder, options.folders, toolkit, options.macros)
    return hashlib.sha256(f"{digest} {source.name}".encode()).hexdigest()


def _release() -> int:
    """Return the major release of CUDA that NVRTC is of."""
    found = find_library()
    if found is None:
        return nvrtc_version()[0]
    return int(found.name.removeprefix("libnvrtc.so.").partition(".")[0])


def _identify(library: Path) -> str:
    """Return the name of a library, and a digest of its contents and of its built-in functions.

    Raises `OSError` if a file cannot be read.
    """
    # The library loads the file of functions from its own folder.
    files = (library, *sorted(library.parent.glob("libnvrtc-builtins.so*")))
    about = {"NVRTC": "\n".join(map(str, files))}
    return f"{library.name} {remembered(about, lambda: _digest(files))}"


def _digest(files: Sequence[Path]) -> Computed:
    contents = [(each.name, _digest_of(each)) for each in files]
    digest = hashlib.sha256(repr(contents).encode()).hexdigest()
    return Computed(digest, map(str, files))


def _digest_of(file: Path) -> str:
    status = file.stat()
    times = status.st_mtime_ns, status.st_ctime_ns
    return _digest_as_it_is(file, status.st_ino, status.st_size, times)


@cache
def _digest_as_it_is(file: Path, _inode: int, _size: int, _changed_ns: tuple[int, int]) -> str:
    """Return the digest of a file, read once in a process."""
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


# References: cuda.pathfinder, ``load_nvidia_dynamic_lib``, "Search order"; ld.so(8);
# ldconfig(8).

#: Names of the library, the newest release first; others are of releases that nothing here calls.
_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12")
_MAPS = Path("/proc/self/maps")
_LOADED = re.compile(r"^(?:\S+\s+){5}(/.*/libnvrtc\.so\.\S+?)( \(deleted\))?$", re.MULTILINE)
_LINKER_CACHE = Path("/etc/ld.so.cache")


def loaded_libraries() -> list[Path]:
    """Return the files of NVRTC in this process, without links.

    Raises `LookupError` if one was replaced on the disk.
    """
    try:
        text = _MAPS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:  # not on Linux
        return []
    rows = dict(_LOADED.findall(text)) if "libnvrtc.so" in text else {}
    if any(rows.values()):
        raise LookupError("NVRTC was replaced after it was loaded")
    return [Path(path).resolve() for path in rows]


def find_library() -> Path | None:
    """Return the file of NVRTC that :func:`load_library` loads, without links."""
    return next((place.resolve() for place in _places() if place.is_file()), None)


def _places() -> Iterator[Path]:
    folders: list[Path] = []
    for wheel in wheel_directories():
        folders += [wheel / "cu13" / "lib", wheel / "cuda_nvrtc" / "lib"]
    if os.environ.get("CONDA_PREFIX"):
        folders.append(Path(os.environ["CONDA_PREFIX"]) / "lib")
    folders += map(Path, filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")))
    for folder in folders:
        yield from (folder / name for name in _NAMES)
    yield from _linked_places()
    for root in toolkit_directories():
        for name in _NAMES:
            yield root / "lib64" / name
            yield root / "lib" / name


def _linked_places() -> Iterator[Path]:
    """Yield where the system's linker finds the library."""
    try:
        data = _LINKER_CACHE.read_bytes()
    except OSError:
        return
    for name in _NAMES:
        found = re.search(rb"\0(/[^\0]*/%s)\0" % re.escape(name.encode()), data)
        if found:
            yield Path(os.fsdecode(found[1]))


def load_library() -> None:
    """Load NVRTC, if this process has not, so that ``cuda.bindings`` calls the file that is found.

    By itself it looks for packages in the folders of this Python alone, and not on all of its path.
    """
    library = None if loaded_libraries() else find_library()
    if library is not None:
        import ctypes

        # NVRTC does not search its own folder for its file of built-in functions, but finds a
        # loaded one.
        for each in (*sorted(library.parent.glob("libnvrtc-builtins.so.*")), library):
            with suppress(OSError):  # which the bindings report
                ctypes.CDLL(str(each))
