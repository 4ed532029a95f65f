"""Machine code of one kernel for several architectures in one file, by the toolkit's fatbinary.

The driver takes the code for its device from such a file. For a device that is newer than all of
them it assembles the PTX.

References
----------
CUDA Compiler Driver NVCC, sections "Fatbinaries" and "GPU Compilation".
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from kerneldsl.errors import CompileError, DeviceCodeError
from kerneldsl.frontend.linked_code import CodeForm
from targets.cuda.architectures import Architecture, parse_arch
from targets.cuda.compile.ptxas import find_tool

__all__ = ["choose_image", "make_fatbin", "read_fatbin"]

_TIMEOUT_SECONDS = 60


def make_fatbin(cubins: Mapping[str, bytes], ptx: Mapping[str, str]) -> bytes:
    """Return the fat binary of machine code and PTX, each by its architecture.

    - raises `ToolMissingError` without fatbinary.
    - raises `CompileError` if it refuses the code.
    """
    tool = find_tool("fatbinary", "pip install nvidia-cuda-nvcc")
    contents = {("elf", arch): cubins[arch] for arch in _in_order(cubins)}
    contents |= {("ptx", arch): ptx[arch].encode() for arch in _in_order(ptx)}
    with tempfile.TemporaryDirectory(prefix="kerneldsl-") as directory:
        # Names without folders, so that the result is the same in every folder.
        command = [str(tool), "-64", "--create=kernel.fatbin", "--compress=false"]
        for (kind, arch), data in contents.items():
            name = f"{arch}.{kind}"
            Path(directory, name).write_bytes(data)
            command.append(f"--image3=kind={kind},sm={arch.removeprefix('sm_')},file={name}")
        done = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode:
            log = (done.stderr + done.stdout).strip()
            images = ", ".join(f"{kind} for {arch}" for kind, arch in contents)
            raise CompileError(
                f"fatbinary refuses the code: {log}",
                value=log,
                limit=f"It was called with {images}",
                remedy="Install the version of nvidia-cuda-nvcc that kerneldsl is tested with",
            )
        return Path(directory, "kernel.fatbin").read_bytes()


def _in_order(architectures: Iterable[str]) -> list[str]:
    return sorted(architectures, key=lambda each: parse_arch(each).number)


# Reads fat binaries: the code for one architecture, of those in the file.
#
# A fat binary has a head, and images of machine code and PTX, each with a head. The head of the
# file is that of ``fatbinary.h``. NVIDIA does not describe the heads of images; the tests compare
# what is read with what fatbinary was given. Compressed images are left out.
#
# See ``fatbinary.h`` of the CUDA toolkit; CUDA Programming Guide, section "Binary Compatibility".

#: Magic, version, size of the head, size of the rest.
_FILE = struct.Struct("<IHHQ")
_MAGIC = 0xBA55ED50
#: Kind, version, size of the head, size of the image, its size without padding if it is
#: compressed, architecture.
_IMAGE = struct.Struct("<HHIQI8xI")
_KINDS = {1: CodeForm.PTX, 2: CodeForm.CUBIN}


class _FatImage(NamedTuple):
    """One image of a file."""

    #: PTX, or a cubin.
    form: CodeForm
    #: The architecture, such as 90 for ``sm_90`` and ``sm_90a``.
    number: int
    contents: bytes
    is_compressed: bool


def read_fatbin(data: bytes, name: str) -> tuple[_FatImage, ...]:
    """Return the images of a file, in order.

    - raises `DeviceCodeError` if it is not a whole fat binary.
    """
    try:
        return _read(data)
    except (struct.error, LookupError, ValueError) as error:
        raise DeviceCodeError(
            f"{name} is not a whole fat binary: {error}",
            value=len(data),
            limit=f"It has {len(data)} bytes",
            remedy="Write it again, as by nvcc -fatbin or kerneldsl compile -o kernel.fatbin",
        ) from error


def _read(data: bytes) -> tuple[_FatImage, ...]:
    magic, _, at, size = _FILE.unpack_from(data)
    end = at + size
    if magic != _MAGIC or end > len(data):
        raise ValueError(f"by its head it has {end} bytes")
    found = []
    while at < end:
        kind, _, head, nbytes, compressed, number = _IMAGE.unpack_from(data, at)
        if not head or at + head + nbytes > end:
            raise ValueError(f"an image ends at byte {at + head + nbytes}")
        if kind in _KINDS:
            contents = data[at + head : at + head + nbytes]
            found.append(_FatImage(_KINDS[kind], number, contents, compressed != 0))
        at += head + nbytes
    return tuple(found)


def choose_image(data: bytes, name: str, device: Architecture) -> _FatImage:
    """Return the image that devices of an architecture run: machine code, or else PTX.

    - raises `DeviceCodeError` if it is not a whole fat binary, or has no such image that is not
      compressed.
    """
    images = read_fatbin(data, name)
    major = device.compute_capability[0]
    fitting = [
        each
        for each in images
        if not each.is_compressed
        and each.number <= device.number
        and (each.form is CodeForm.PTX or each.number // 10 == major)
    ]
    if fitting:
        return max(fitting, key=lambda each: (each.form is CodeForm.CUBIN, each.number))
    known = [
        f"{each.form} for sm_{each.number}" + " (compressed)" * each.is_compressed
        for each in images
    ]
    raise DeviceCodeError(
        f"{name} has no code for {device.name}",
        value=device.name,
        limit=f"It has {', '.join(known) or 'no images'}; compressed images are not read",
        remedy=f"Add {device.name} when it is compiled, and write it with --compress-mode=none",
    )
