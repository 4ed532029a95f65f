"""Finds libdevice and cuts out of it what a kernel needs.

libdevice is NVIDIA's library of mathematical functions, as LLVM bitcode. It is half a megabyte;
linking it whole costs more than compiling a kernel. So each set of functions is cut out once, with
what they call, and kept as bitcode of a few kilobytes. From the second set on, they are cut out of
libdevice's text, so that LLVM does not read all of it again.

References
----------
libdevice User's Guide, "Usage": the module flags and ``__nvvm_reflect``.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from kerneldsl.errors import LibdeviceMissingError, SourceLocation

__all__ = ["check_complete", "cut_out", "find_libdevice", "require_libdevice"]

_NAME = "libdevice.10.bc"


@cache
def find_libdevice() -> Path | None:
    """Return where libdevice is, or ``None``.

    Looked for in: what ``cuda.pathfinder`` finds, NVIDIA's wheels beside this Python's packages,
    ``CUDA_HOME`` and ``CUDA_PATH``, the toolkit with the ``nvcc`` on ``PATH``,
    ``/usr/local/cuda``.
    """
    for place in _places():
        if place.is_file():
            return place
    return None


def _places() -> Iterator[Path]:
    found = _ask_pathfinder()
    if found is not None:
        yield found
    for wheel in wheel_directories():
        yield from sorted(wheel.glob(f"**/nvvm/libdevice/{_NAME}"), reverse=True)
    for root in toolkit_directories():
        yield root / "nvvm" / "libdevice" / _NAME


def _ask_pathfinder() -> Path | None:
    if importlib.util.find_spec("cuda") is None:
        return None
    try:
        from cuda import pathfinder
    except ImportError:
        return None
    find = getattr(pathfinder, "find_bitcode_lib", None)
    if find is None:
        return None
    try:
        found = find("device")
    except (RuntimeError, ValueError):  # its ways of saying that there is none
        return None
    return Path(found) if found else None


def wheel_directories() -> Iterator[Path]:
    """Return the directories of NVIDIA's wheels (``site-packages/nvidia``)."""
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(place)


def toolkit_directories() -> Iterator[Path]:
    """Return the roots of installed CUDA toolkits, the user's choice first."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    nvcc = shutil.which("nvcc")
    if nvcc:
        yield Path(nvcc).resolve().parent.parent
    yield Path("/usr/local/cuda")


def require_libdevice(function: str, where: SourceLocation | None) -> Path:
    """Return where libdevice is, or say what needs it and how to get it.

    Raises `LibdeviceMissingError` if it is missing.
    """
    path = find_libdevice()
    if path is None:
        raise LibdeviceMissingError(
            f"{function} needs NVIDIA's libdevice ({_NAME}), which was not found",
            where=where,
            value=function,
            limit="Looked for in the nvidia-nvvm wheel, CUDA_HOME, CUDA_PATH, PATH and "
            "/usr/local/cuda",
            remedy='Run: pip install "kerneldsl[cuda13]"',
        )
    return path


def check_complete(module: Any, path: Path) -> None:
    """Refuse a libdevice without a function that a module calls, as older releases are.

    Raises `LibdeviceMissingError`.
    """
    for function in module.functions:
        if function.is_declaration and function.name.startswith("__nv_"):
            raise LibdeviceMissingError(
                f"{function.name} is not in {path}",
                value=function.name,
                limit="A kernel is linked with the libdevice that is installed",
                remedy='Take a newer release, as by pip install "kerneldsl[cuda13]", or another '
                "function",
            )


_cuttings: dict[tuple[Path, frozenset[str], bool], bytes] = {}
#: The question whether square roots are rounded correctly, which LLVM answers by no.
_ASKS_FOR_ROOTS = re.compile(r'(@[-.\w$]+) = .*c"__CUDA_PREC_SQRT\\00"')
_FUNCTION = re.compile(r"^define [^@\n]*@(\w+)\(.*?^}\n", re.M | re.S)
_CALLED = re.compile(r"@(__\w+)")


def cut_out(
    path: Path, functions: Iterable[str], layout: str, *, has_exact_roots: bool = True
) -> Any:
    """Return a module with some functions of libdevice and what they call.

    Functions have names such as ``"__nv_sinf"``; `layout` is the data layout of the module that the
    result, which is the caller's, will be linked with. With `has_exact_roots` the square roots in
    them are rounded correctly.
    """
    import llvmlite.binding as llvm

    from kerneldsl.lowering.numba_internals.llvm_modules import run_named_passes

    wanted = frozenset(functions)
    bitcode = _cuttings.get((path, wanted, has_exact_roots))
    if bitcode is None:
        # The text of all functions takes as long to write as libdevice to read.
        is_first = not any(other == path for other, *_ in _cuttings)
        module = (
            llvm.parse_bitcode(_read(path))
            if is_first
            else llvm.parse_assembly(_text_with(path, wanted))
        )
        for function in module.functions:
            if not function.is_declaration and function.name not in wanted:
                function.linkage = "internal"
        builder = llvm.create_pass_builder(
            _any_machine(), llvm.create_pipeline_tuning_options(speed_level=1)
        )
        run_named_passes(module, builder, "global_dead_code_eliminate")
        asks = _ASKS_FOR_ROOTS.search(str(module)) if has_exact_roots else None
        if asks is not None:
            call = rf"call i32 @__nvvm_reflect\(ptr {re.escape(asks[1])}\).*"
            module = llvm.parse_assembly(re.sub(call, "add i32 0, 1", str(module)))
        bitcode = _cuttings[(path, wanted, has_exact_roots)] = module.as_bitcode()
    module = llvm.parse_bitcode(bitcode)
    module.data_layout = layout
    return module


def _text_with(path: Path, wanted: Iterable[str]) -> str:
    """Return libdevice with some of its functions and what they call, in their order."""
    functions = _texts(path)
    found: set[str] = set()
    waiting = [name for name in wanted if name in functions]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += functions.keys() & _CALLED.findall(functions[name])
    return "".join(text for name, text in functions.items() if name in found or name.isdigit())


@cache
def _texts(path: Path) -> dict[str, str]:
    """Return the text of each function of libdevice, and of what is between them by numbers."""
    import llvmlite.binding as llvm

    texts: dict[str, str] = {}
    place, text = 0, str(llvm.parse_bitcode(_read(path)))
    for found in _FUNCTION.finditer(text):
        texts[str(place)] = text[place : found.start()]
        texts[found[1]] = found[0]
        place = found.end()
    return {**texts, str(place): text[place:]}


@cache
def _read(path: Path) -> bytes:
    return path.read_bytes()


@cache
def _any_machine() -> Any:
    from targets.cuda.compile.numba_device import initialize_nvptx

    return initialize_nvptx().create_target_machine(cpu="sm_75", opt=1)
