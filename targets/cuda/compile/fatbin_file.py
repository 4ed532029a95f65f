"""Reads fat binaries: the code for one architecture, of those in the file.

A fat binary has a head, and images of machine code and PTX, each with a head. The head of the file
is that of ``fatbinary.h``. NVIDIA does not describe the heads of images; the tests compare what is
read with what fatbinary was given. Compressed images are left out.

References
----------
``fatbinary.h`` of the CUDA toolkit; CUDA Programming Guide, section "Binary Compatibility".
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kerneldsl.errors import DeviceCodeError
from kerneldsl.frontend.code_form import CodeForm
from targets.cuda.architectures import Architecture

__all__ = ["FatImage", "choose_image", "read_fatbin"]

#: Magic, version, size of the head, size of what follows.
_FILE = struct.Struct("<IHHQ")
_MAGIC = 0xBA55ED50
#: Kind, version, size of the head, size of the image, its size without padding if it is
#: compressed, architecture.
_IMAGE = struct.Struct("<HHIQI8xI")
_KINDS = {1: CodeForm.PTX, 2: CodeForm.CUBIN}


class FatImage(NamedTuple):
    """One image of a file."""

    #: PTX, or a cubin.
    form: CodeForm
    #: The architecture, such as 90 for ``sm_90`` and ``sm_90a``.
    number: int
    contents: bytes
    is_compressed: bool


def read_fatbin(data: bytes, name: str) -> tuple[FatImage, ...]:
    """Return the images of a file, in order.

    Raises
    ------
    DeviceCodeError
        If it is not a whole fat binary.
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


def _read(data: bytes) -> tuple[FatImage, ...]:
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
            found.append(FatImage(_KINDS[kind], number, contents, compressed != 0))
        at += head + nbytes
    return tuple(found)


def choose_image(data: bytes, name: str, device: Architecture) -> FatImage:
    """Return the image that devices of an architecture run: machine code, or else PTX.

    Raises
    ------
    DeviceCodeError
        If it is not a whole fat binary, or has no such image that is not compressed.
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
