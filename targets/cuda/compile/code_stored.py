"""Compiled CUDA C++ as bytes and back, for the cache.

PTX and cubins of a program need no compiling, so they are not cached.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from kerneldsl.contract import Specialization, UnusableCodeError
from kerneldsl.contract.device_code import DeviceCode
from kerneldsl.errors import DeviceCodeError
from kerneldsl.frontend.code_form import CodeForm
from kerneldsl.utilities.untrusted import parse_json
from targets.cuda.architectures import parse_arch
from targets.cuda.compile.code_artifact import CodeArtifact
from targets.cuda.compile.code_image import read_image, text_of
from targets.cuda.compile.nvrtc_identity import headers_digest, nvrtc_identity

__all__ = ["dump_code", "identify_compiler", "restore_code"]


def identify_compiler(code: DeviceCode, arch: str) -> dict[str, str] | None:
    """Return architecture, NVRTC, and a digest of all headers that a source may include.

    It is ``None`` for code that is not cached: PTX, cubins, and a source that includes a macro with
    an unknown value. It is ``None``, too, if the file of NVRTC was replaced.
    """
    module = code.module
    if module.form is not CodeForm.CUDA:
        return None
    try:
        headers = headers_digest(text_of(module), module.options)
        compiler = nvrtc_identity()
    except LookupError:
        return None
    return {"architecture": parse_arch(arch).name, "NVRTC": compiler, "headers": headers}


def dump_code(artifact: CodeArtifact) -> dict[str, bytes]:
    """Write what NVRTC made."""
    image = artifact.image_parts
    metadata = {
        "form": image.form.name,
        "names": dict(image.names),
        "floats": {
            name: [each.is_float for each in entry.parameters]
            for name, entry in image.entries.items()
        },
        "log": image.log,
        "timings": dict(artifact.timings),
    }
    return {"metadata": json.dumps(metadata).encode(), "code": image.data}


def restore_code(
    specialization: Specialization, sections: Mapping[str, bytes], arch: str
) -> CodeArtifact:
    """Make a kernel of what :func:`dump_code` wrote.

    Raises
    ------
    ArgumentTypeError
        If the signature passes other parameters than the kernel declares.
    UnusableCodeError
        If the code cannot be read.
    """
    assert specialization.code is not None
    module = specialization.code.module
    try:
        metadata = parse_json(sections["metadata"])
        form = CodeForm[metadata["form"]]
        names = {str(name): str(lowered) for name, lowered in metadata["names"].items()}
        floats = {str(name): list(known) for name, known in metadata["floats"].items()}
        timings = {str(step): float(seconds) for step, seconds in metadata["timings"].items()}
        log, data = str(metadata["log"]), sections["code"]
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise UnusableCodeError(f"the metadata cannot be read: {error!r}") from error
    try:
        image = read_image(data, form, module.name, names=names, log=log).with_floats(floats)
        return CodeArtifact(specialization, image, parse_arch(arch), timings)
    except DeviceCodeError as error:
        raise UnusableCodeError(f"the code cannot be read: {error.what}") from error
