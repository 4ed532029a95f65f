"""``@kd.func(link=…)``: read what a device function is linked with."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from kerneldsl.contract.cuda_options import CudaOptions
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.frontend.linked_code import (
    CodeForm,
    LinkedCode,
    form_of_binary,
    without_byte_order_mark,
)
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind
from kerneldsl.language.signatures import read_function_signature
from kerneldsl.utilities.flags import read_flag
from kerneldsl.utilities.paths import find_beside, path_text, read_beside

__all__ = ["FORMS", "read_link"]

#: Form of code by the suffix of a file.
FORMS = {
    ".cu": CodeForm.CUDA,
    ".ptx": CodeForm.PTX,
    ".ltoir": CodeForm.LTO_IR,
    ".cubin": CodeForm.CUBIN,
    ".fatbin": CodeForm.FATBIN,
}
#: PTX ISA, "Identifiers": the names that C has too.
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_EXAMPLE = '@kd.func(link="scale.cu", signature="float32(float32, float32)")'


def read_link(
    function: Callable[..., Any],
    link: Any,
    signature: Any,
    name: Any,
    options: Any,
    pure: Any,
) -> LinkedCode:
    """Read the options of a linked function.

    - raises `ArgumentTypeError`, `ArgumentValueError` if one is invalid, or the file cannot be
      read.
    """
    result, parameters = _read_signature(function, signature)
    is_pure = read_flag("pure", pure)
    if is_pure and any(isinstance(kind, ArrayKind) for kind in parameters):
        raise ArgumentValueError(
            f"pure=True, and the signature is {safe_repr(signature)}",
            value=signature,
            limit="A function that takes an array may read and write it",
            remedy="Leave out pure, or pass elements",
        )
    symbol = function.__name__ if name is None else name
    if not isinstance(symbol, str) or not _IDENTIFIER.fullmatch(symbol):
        raise ArgumentValueError(
            f"name is {safe_repr(symbol)}",
            value=symbol,
            limit='It must be the name of a function in the code; in CUDA C++ it is extern "C"',
        )
    code, form, shown, path = _read_code(function, link)
    return LinkedCode(
        symbol, parameters, result, code, form, shown, path, _read_options(options, form), is_pure
    )


def _read_signature(
    function: Callable[..., Any], signature: Any
) -> tuple[ScalarKind | None, tuple[ScalarKind | ArrayKind, ...]]:
    if signature is None:
        raise ArgumentTypeError(
            f"{function.__name__} has link= and no signature=",
            limit="A linked function declares the types of its result and its parameters",
            remedy=f"Write {_EXAMPLE}",
        )
    try:
        result, parameters = read_function_signature(signature)
    except ValueError as error:
        raise ArgumentValueError(
            str(error),
            value=signature,
            limit="It names the type of the result, and the type of each parameter",
            remedy=f"Write {_EXAMPLE}",
        ) from error
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    if count != len(parameters) or code.co_flags & 0x0C:  # CO_VARARGS, CO_VARKEYWORDS
        raise ArgumentValueError(
            f"{function.__name__} takes {', '.join(code.co_varnames[:count]) or 'no arguments'}, "
            f"and its signature {safe_repr(signature)} has {len(parameters)}",
            value=signature,
            limit="The Python function has a parameter for each type, without * and **",
        )
    checked = tuple(_checked(kind, signature) for kind in parameters)
    if result is not None and not isinstance(_checked(result, signature), ScalarKind):
        _refuse(result, signature, "A function returns a number, or void")
    assert result is None or isinstance(result, ScalarKind)
    return result, checked


def _checked(kind: Kind, signature: Any) -> ScalarKind | ArrayKind:
    """Return a kind that can be passed to a function of C."""
    if isinstance(kind, ArrayKind):
        if kind.layout != "C":
            _refuse(
                kind,
                signature,
                "An array is passed as the address of its first element",
                f"Write {ArrayKind(kind.dtype, kind.ndim)}",
            )
        return kind
    if isinstance(kind, ScalarKind):
        row = kind.element
        if row.is_integer or row.kind.name == "BOOL" or row.name in ("float32", "float64"):
            return kind
    _refuse(
        kind,
        signature,
        "Values are integers, bool, float32 and float64",
        f"Pass an array, such as {kind}[::1], of which the function is given the address"
        if isinstance(kind, ScalarKind)
        else "Pass its members one by one",
    )


def _refuse(kind: Kind, signature: Any, limit: str, remedy: str | None = None) -> NoReturn:
    raise ArgumentValueError(
        f"the signature {safe_repr(signature)} has {kind}",
        value=signature,
        limit=limit,
        remedy=remedy,
    )


def _read_options(options: Any, form: CodeForm) -> CudaOptions | None:
    if options is None:
        return None
    if not isinstance(options, CudaOptions):
        raise ArgumentTypeError(
            f"options is {safe_repr(options)}",
            value=options,
            limit="It must be kd.CudaOptions",
            remedy='Write options=kd.CudaOptions(defines={"WIDTH": 4})',
        )
    if form is not CodeForm.CUDA:
        raise ArgumentValueError(
            f"options is {safe_repr(options)}",
            value=options,
            limit="They are options of the compiler of CUDA C++, and the code is compiled already",
            remedy="Leave them out",
        )
    return options


def _read_code(function: Callable[..., Any], link: Any) -> tuple[bytes, CodeForm, str, str | None]:
    """Return the code, its form, its name in messages, and its path."""
    if isinstance(link, (bytes, bytearray, memoryview)):
        code = bytes(link)
        return code, _form_of(code), f"the code of {function.__name__}", None
    text = path_text(link)
    if text is None or "\0" in text:
        raise ArgumentTypeError(
            f"link is {safe_repr(link)}",
            value=link,
            limit="It must be a path, or the bytes of PTX, LTO-IR or a cubin",
            remedy=f"Write {_EXAMPLE}",
        )
    form = FORMS.get(Path(text).suffix)
    if form is None:
        raise ArgumentValueError(
            f"link is {safe_repr(text)}",
            value=text,
            limit=f"The suffix of the file says what it is: {', '.join(FORMS)}",
            remedy="Rename it, or pass its bytes",
        )
    module = function.__globals__
    found = find_beside(text, function.__code__.co_filename, module)
    try:
        code = without_byte_order_mark(read_beside(found, module))
        return code, form, text, os.path.abspath(found)
    except OSError as error:
        raise ArgumentValueError(
            f"{os.path.abspath(found)} cannot be read: {error.strerror}",
            value=text,
            limit="A path is relative to the folder of the Python file, and in a notebook to the "
            "current folder",
            remedy="Check the path",
        ) from error


def _form_of(code: bytes) -> CodeForm:
    if (form := form_of_binary(code)) is not None:
        return form
    if re.search(rb"^\s*\.version\s", code, re.MULTILINE) and b"\0" not in code.rstrip(b"\0"):
        return CodeForm.PTX
    raise ArgumentValueError(
        f"link is {safe_repr(code[:16])}…, {len(code)} bytes",
        value=safe_repr(code[:64]),
        limit="Bytes are PTX, LTO-IR, a cubin or a fat binary",
        remedy="Pass the path of a file of CUDA C++",
    )
