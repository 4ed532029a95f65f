"""``kerneldsl compile``: from a file and a kernel's name to PTX, machine code or assembly."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kerneldsl._version import __version__
from kerneldsl.contract import Artifact
from kerneldsl.errors import ArgumentValueError
from kerneldsl.kernels.kernel import Kernel
from kerneldsl.kernels.members import MemberKernel
from kerneldsl.language.kinds import format_signature
from kerneldsl.placement.registry import built_in_targets, target_writing
from kerneldsl.tools.cli.find import choose_member, find_kernel, read_dims, signature_arguments
from kerneldsl.tools.cli.output import print_json, progress
from kerneldsl.utilities.paths import check_writable, writing

__all__ = ["compile_to_file"]


def compile_to_file(
    place: str,
    signature: str | None = None,
    *,
    output: Path | None = None,
    as_json: bool = False,
    target: str | None = None,
    forall: int | None = None,
    block: str | None = None,
    member: Sequence[str] = (),
    arch: Sequence[str] = (),
    ptx_version: str | None = None,
) -> None:
    """Compile, write the files, and say what was made; see ``kerneldsl compile --help``.

    Raises `KernelError` if the file, the kernel or the code is not what it has to be.
    """
    block_dim = None if block is None else read_dims(block, "--block")
    kernel = choose_member(find_kernel(place), member, block_dim)
    args = signature_arguments(kernel, signature)
    chosen, form = _read_form(target, output)
    _check_architectures(arch, chosen, form, output)
    if output is not None:
        check_writable(output, "--output")
    with progress(f"Compiling {place}", is_quiet=as_json):
        compiled = (
            kernel.artifact(
                *args,
                forall=forall,
                block=block_dim,
                arch=each,
                target=chosen,
                ptx_version=ptx_version,
            )
            for each in arch or (None,)
        )
        # An architecture may be named twice, in different ways.
        artifact, *others = {each.arch: each for each in compiled}.values()
        _refuse_own_code(artifact, kernel)
        if chosen != target_writing("asm"):
            _check_block(artifact, kernel, block)
        code = artifact.code_with(others, form) if others else artifact.code(form)
    made = (artifact, *others)
    entry = _entry_of(kernel, artifact, code)
    if entry != artifact.entry_name:
        code = code.replace(artifact.entry_name.encode(), entry.encode())
    written: dict[str, str] = {}
    if output is not None:
        # Each file has its own description: another target's has other parameters.
        layout, described = (output.with_name(output.name + end) for end in _DESCRIPTIONS)
        paths = {form: output, "parameters": layout, "description": described}
        written = {name: str(path) for name, path in paths.items()}
        # The files move together, so each names the others without a folder.
        beside = _report(kernel, made, entry, {name: path.name for name, path in paths.items()})
        _write(
            {
                output: code,
                layout: _describe(kernel, made, entry).encode(),
                described: json.dumps(beside, indent=2).encode() + b"\n",
            }
        )
    if as_json:
        report = {**_report(kernel, made, entry, written), "timings_s": dict(artifact.timings)}
        print_json(report if written else {**report, "text": code.decode()})
    elif written:
        print(f"{entry}: {', '.join(written.values())}")
    else:
        text = code.decode()
        print(text, end="" if text.endswith("\n") else "\n")


def _check_architectures(arch: Sequence[str], target: str, form: str, output: Path | None) -> None:
    """Refuse several architectures for a form of code that is for one."""
    entry = built_in_targets()[target]
    if len(arch) < 2 or form in entry.together:
        return
    known = [suffix for suffix, each in entry.files.items() if each in entry.together]
    raise ArgumentValueError(
        f"--arch is {', '.join(arch)}",
        value=", ".join(arch),
        limit=f"{output or 'Standard output'} takes the code for one architecture",
        remedy=f"Name one, or write --output {output.stem if output else 'kernel'}{known[0]}"
        if known
        else "Name one",
    )


def _refuse_own_code(artifact: Artifact, kernel: Kernel[..., Any]) -> None:
    """Refuse CUDA C++, PTX and cubins: their parameters are not those that files describe."""
    code = artifact.specialization.code
    if code is not None:
        raise ArgumentValueError(
            f"{kernel.__qualname__} is {code.module.form}, in {code.module.name}",
            value=kernel.__qualname__,
            limit="Files are written of kernels in Python, with descriptions of their parameters",
            remedy="Write kernel.ptx() to a file, or name a --target that compiles the CPU "
            "function",
        )


def _check_block(artifact: Artifact, kernel: Kernel[..., Any], block: str | None) -> None:
    """Refuse a block that neither the code depends on, nor a member of a space is chosen by."""
    is_used = isinstance(kernel, MemberKernel) or artifact.specialization.block_dim is not None
    if block is not None and not is_used:
        raise ArgumentValueError(
            f"--block is {block!r}, and this code of {kernel.__qualname__} serves every block",
            value=block,
            limit=f"For {artifact.arch or 'this machine'} the code of a kernel without tiles does "
            "not depend on the block, which the launch chooses",
            remedy=f"Leave --block out, or add --target {target_writing('asm')} for that "
            "processor's code",
        )


#: Endings of the descriptions of a file's parameters: for a person, and for a program.
_DESCRIPTIONS = (".params.txt", ".params.json")


def _read_form(target: str | None, output: Path | None) -> tuple[str, str]:
    """Return the target and the form of code: a file's ending says what is written into it."""
    files = {name: entry.files for name, entry in built_in_targets().items() if entry.files}
    usual = target_writing("ptx")
    if target is not None and target not in files:
        raise ArgumentValueError(
            f"--target is {target!r}",
            value=target,
            limit=f"Files are made for {' and '.join(files)}",
        )
    if output is None:
        chosen = target or usual
        return chosen, next(iter(files[chosen].values()))
    for chosen in (usual, *files) if target is None else (target,):
        form = files[chosen].get(output.suffix)
        if form is not None:
            return chosen, form
    known = "; ".join(
        f"{name}: {', '.join(suffixes)}"
        for name, suffixes in files.items()
        if target in (None, name)
    )
    raise ArgumentValueError(
        f"--output is {output}, with the suffix {output.suffix!r}",
        value=str(output),
        limit=f"Suffixes of code, by target: {known}",
        remedy=f"Write --output {output.stem or 'kernel'}{next(iter(files[target or usual]))}",
    )


def _write(contents: dict[Path, bytes]) -> None:
    for path, data in contents.items():
        with writing(path, "--output"):
            path.write_bytes(data)


def _entry_of(kernel: Kernel[..., Any], artifact: Artifact, code: bytes) -> str:
    """Return what the entry is called in a file: by the kernel's name, not by Numba's of it.

    In a process Numba's name distinguishes kernels and signatures; a file has one of each. A name
    that the code has for something else, such as ``exp``, is not taken.
    """
    name = kernel.__qualname__.rpartition(".")[2]
    is_numbas = artifact.entry_name.startswith("_Z") and name.isascii()
    is_taken = re.search(rb"(?<![\w.'\"])" + name.encode() + rb"(?![\w.'\"])", code) is not None
    return name if is_numbas and not is_taken else artifact.entry_name


def _describe(kernel: Kernel[..., Any], made: Sequence[Artifact], entry: str) -> str:
    """Return the entry's parameters as text for programs that launch the file without kerneldsl."""
    artifact = made[0]
    specialization = artifact.specialization
    layout = specialization.layout
    ndim = specialization.mode.forall_ndim
    mode = "kernel[grid, block]" if ndim is None else f"kernel.forall, extent of rank {ndim}"
    block = specialization.block_dim
    return (
        f"entry       {entry}\n"
        f"kernel      {kernel.__module__}.{kernel.__qualname__}\n"
        f"signature   {format_signature(specialization.kinds)}\n"
        f"launched by {mode}\n"
        + (f"block_dim   {block}, for which alone the code is right\n" if block else "")
        + "".join(f"member      {_member_line(each)}\n" for each in _members(kernel))
        + f"arch        {', '.join(_architectures(made)) or 'this machine'}\n"
        f"made by     kerneldsl {__version__}\n\n"
        f"Parameters, {layout.nbytes} bytes in all; offsets in bytes. Pointers are device\n"
        "addresses, shapes count elements, strides are in bytes.\n\n"
        f"{layout.describe()}\n"
    )


def _members(kernel: Kernel[..., Any]) -> list[dict[str, Any]]:
    """Return which members of a space the code is, and what a launch has to know of each."""
    if not isinstance(kernel, MemberKernel):
        return []
    space = kernel.space
    return [
        {
            "parameters": dict(each.values),
            "block_dim": each.block_dim,
            "shared_bytes": space.shared_bytes(each),
            "covers": space.tile(each),
        }
        for each in space
    ]


def _member_line(member: dict[str, Any]) -> str:
    values = ", ".join(f"{name}={value!r}" for name, value in member["parameters"].items())
    return (
        f"{values}: block_dim {member['block_dim']}, shared_bytes {member['shared_bytes']}, "
        f"a block serves {member['covers']} indices"
    )


def _architectures(made: Sequence[Artifact]) -> list[str]:
    """Return the architectures of artifacts; none of code for this machine."""
    return [each.arch for each in made if each.arch is not None]


def _report(
    kernel: Kernel[..., Any], made: Sequence[Artifact], entry: str, files: dict[str, str]
) -> dict[str, Any]:
    """Return what was made, for a program that launches it without kerneldsl."""
    artifact = made[0]
    specialization = artifact.specialization
    return {
        "entry": entry,
        "signature": format_signature(specialization.kinds),
        "arch": ", ".join(_architectures(made)) or None,
        "forall_ndim": specialization.mode.forall_ndim,
        "block_dim": specialization.block_dim,
        "members": _members(kernel),
        "static_shared_bytes": artifact.static_shared_bytes,
        "parameters": [
            {"name": p.name, "dtype": p.dtype, "offset": p.offset, "nbytes": p.nbytes}
            for p in specialization.layout.parameters
        ],
        "files": files,
        "kerneldsl": __version__,
    }
