"""``kerneldsl compile``: from a file and a kernel's name to PTX or assembly in a file."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from kerneldsl._version import __version__
from kerneldsl.contract import Artifact
from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.errors import ArgumentValueError, KernelError
from kerneldsl.kernels.kernel import Kernel
from kerneldsl.kernels.members import MemberKernel
from kerneldsl.language.kinds import format_signature
from kerneldsl.placement.registry import built_in_targets, target_writing
from kerneldsl.tools.cli.output import progress

__all__ = ["compile_to_file", "find_kernel", "read_dims"]


def compile_to_file(
    place: str,
    signature: str | None = None,
    *,
    output: Path | None = None,
    as_json: bool = False,
    target: str | None = None,
    forall: int | None = None,
    block: str | None = None,
    arch: str | None = None,
    ptx_version: str | None = None,
) -> None:
    """Compile, write the files, and say what was made; see ``kerneldsl compile --help``.

    Raises `KernelError` if the file, the kernel or the code is not what it has to be.
    """
    chosen = target or target_writing("ptx")
    forms = {name: entry.forms[0] for name, entry in built_in_targets().items() if entry.forms}
    form = forms.get(chosen)
    if form is None:
        raise ArgumentValueError(
            f"--target is {target!r}",
            value=target,
            limit=f"Files are made for {' and '.join(forms)}",
        )
    block_dim = None if block is None else read_dims(block, "--block")
    kernel = find_kernel(place)._member_of_block(block_dim)
    with progress(f"Compiling {place}", is_quiet=as_json):
        artifact = kernel.artifact(
            *(() if signature is None else (signature,)),
            forall=forall,
            block=block_dim,
            arch=arch,
            target=chosen,
            ptx_version=ptx_version,
        )
        text = artifact.text(form)
    layout = _describe(kernel, artifact)
    written: dict[str, str] = {}
    if output is not None:
        described = output.with_suffix(".params.txt")
        try:
            output.write_text(text, encoding="utf-8")
            described.write_text(layout, encoding="utf-8")
        except OSError as error:
            raise ArgumentValueError(
                f"cannot write {error.filename}: {error.strerror}",
                value=str(output),
                remedy="Choose another file with --output",
            ) from error
        written = {form: str(output), "parameters": str(described)}
    if as_json:
        print(
            json.dumps(_report(kernel, artifact, written, text if not written else None), indent=2)
        )
    elif written:
        print(f"{artifact.entry_name}: {written[form]}, {written['parameters']}")
    else:
        print(text, end="" if text.endswith("\n") else "\n")


def find_kernel(place: str) -> Kernel[..., Any]:
    """Return the kernel that ``FILE:KERNEL`` names.

    Raises `ArgumentValueError` if there is none.
    """
    filename, colon, name = place.rpartition(":")
    if not colon or not filename or not name:
        raise ArgumentValueError(
            f"{place!r} names no kernel",
            value=place,
            limit="It must be FILE:KERNEL, as in axpy.py:axpy",
        )
    module = _load_file(Path(filename))
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Kernel):
        return found
    kernels = sorted(n for n, v in vars(module).items() if isinstance(v, Kernel))
    raise ArgumentValueError(
        f"{filename} has no kernel {name!r}",
        value=name,
        limit=f"It has {', '.join(kernels)}" if kernels else "It has no kernel at all",
    )


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ArgumentValueError(
            f"there is no file {path}", value=str(path), remedy="Check the path before the colon"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ArgumentValueError(
            f"{path} is not a Python file", value=str(path), limit="Its name must end in .py"
        )
    module = importlib.util.module_from_spec(spec)
    # As a script would, the file finds what lies beside it.
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except KernelError:
        raise
    except Exception as error:
        raise ArgumentValueError(
            f"{path} cannot be run: {type(error).__name__}: {error}",
            value=str(path),
            limit="The file is run to find the kernel in it, with its imports",
            remedy=f"Run it alone first: python {path}",
        ) from error
    return module


def read_dims(text: str, option: str) -> tuple[int, ...]:
    """Return the ints that an option such as ``--block`` names.

    Raises `ArgumentValueError` if it names none.
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ArgumentValueError(
            f"{option} is {text!r}", value=text, limit="It must be 1 to 3 ints with commas, as 32,8"
        ) from None


def _layout(artifact: Artifact) -> ParameterLayout:
    return artifact.specialization.layout


def _describe(kernel: Kernel[..., Any], artifact: Artifact) -> str:
    """Return the entry's parameters as text for whoever launches the file without kerneldsl."""
    specialization = artifact.specialization
    layout = _layout(artifact)
    ndim = specialization.mode.forall_ndim
    mode = "kernel[grid, block]" if ndim is None else f"kernel.forall, extent of rank {ndim}"
    return (
        f"entry       {artifact.entry_name}\n"
        f"kernel      {kernel.__module__}.{kernel.__qualname__}\n"
        f"signature   {format_signature(specialization.kinds)}\n"
        f"launched by {mode}\n"
        + "".join(f"member      {each}\n" for each in _members(kernel))
        + f"arch        {specialization.arch or 'default'}\n"
        f"made by     kerneldsl {__version__}\n\n"
        f"Parameters, {layout.nbytes} bytes in all; offsets in bytes. Pointers are device\n"
        "addresses, shapes count elements, strides are in bytes.\n\n"
        f"{layout.describe()}\n"
    )


def _members(kernel: Kernel[..., Any]) -> list[str]:
    """Say which members of a space the code is, and what a launch has to know of each."""
    if not isinstance(kernel, MemberKernel):
        return []
    space = kernel.space
    return [
        f"{each}: block_dim {each.block_dim}, shared_bytes {space.shared_bytes(each)}, "
        f"a block serves {space.tile(each)} indices"
        for each in space
    ]


def _report(
    kernel: Kernel[..., Any], artifact: Artifact, files: dict[str, str], text: str | None
) -> dict[str, Any]:
    specialization = artifact.specialization
    report: dict[str, Any] = {
        "entry": artifact.entry_name,
        "signature": format_signature(specialization.kinds),
        "arch": specialization.arch,
        "forall_ndim": specialization.mode.forall_ndim,
        "members": _members(kernel),
        "static_shared_bytes": specialization.traits.static_shared_bytes,
        "parameters": [
            {"name": p.name, "dtype": p.dtype, "offset": p.offset, "nbytes": p.nbytes}
            for p in _layout(artifact).parameters
        ],
        "files": files,
        "timings_s": dict(artifact.timings),
        "kerneldsl": __version__,
    }
    if text is not None:
        report["text"] = text
    return report
