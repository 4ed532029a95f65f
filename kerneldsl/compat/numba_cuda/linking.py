"""``link=`` and ``cuda.declare_device``: functions of CUDA C++, PTX and compiled code."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, ClassVar

from kerneldsl.compat.numba_cuda.errors import LinkerError
from kerneldsl.compat.numba_cuda.typing import (
    argument_types,
    kinds_of_signature,
    pointers_of_signature,
)
from kerneldsl.contract.cuda_options import CudaOptions
from kerneldsl.frontend.linked_code import CodeForm, LinkedCode
from kerneldsl.kernels.kernel import DeviceFunction
from kerneldsl.kernels.linking import FORMS
from kerneldsl.language.kinds import ArrayKind, ScalarKind
from kerneldsl.language.signatures import read_signature
from kerneldsl.utilities.modules import is_of_numba
from kerneldsl.utilities.written_functions import written_function

__all__ = [
    "LTOIR",
    "CUSource",
    "Cubin",
    "Fatbin",
    "LinkableCode",
    "PTXSource",
    "declare_device",
    "read_links",
]


class LinkableCode:
    """Code that a kernel is linked with.

    Parameters
    ----------
    data : str or bytes
        The code.
    name : str, optional
        What messages call it.
    setup_callback, teardown_callback : optional
        Refused: kerneldsl shares modules between kernels.
    """

    form: ClassVar[CodeForm]

    def __init__(
        self,
        data: str | bytes,
        name: str | None = None,
        setup_callback: Any = None,
        teardown_callback: Any = None,
    ) -> None:
        if setup_callback is not None or teardown_callback is not None:
            raise NotImplementedError("kerneldsl calls no function when it loads linked code")
        self.data = data
        self.name = name or f"<{type(self).__name__}>"


class CUSource(LinkableCode):
    """CUDA C++."""

    form = CodeForm.CUDA


class PTXSource(LinkableCode):
    """PTX."""

    form = CodeForm.PTX


class Cubin(LinkableCode):
    """Machine code that can be linked."""

    form = CodeForm.CUBIN


class Fatbin(LinkableCode):
    """Code for several architectures."""

    form = CodeForm.FATBIN


class LTOIR(LinkableCode):
    """LTO-IR."""

    form = CodeForm.LTO_IR


def read_links(link: Any) -> tuple[LinkedCode, ...]:
    """Return the code of ``link=``: a path, an object with code, or several in a collection."""
    if isinstance(link, (str, os.PathLike, LinkableCode)):
        link = [link]
    return tuple(map(_read, link))


def _read(item: Any) -> LinkedCode:
    if isinstance(item, LinkableCode):
        text = item.data
        code = text.encode() if isinstance(text, str) else bytes(text)
        return _code("", code, item.form, item.name)
    path = Path(item)
    if not path.suffix:
        raise RuntimeError(f"Don't know how to link file with no extension: {path}")
    if not path.is_file() and path.suffix not in (".cuh", ".h"):
        raise LinkerError(f"{path} not found")
    if path.suffix not in FORMS:
        raise RuntimeError(f"Don't know how to link file with extension {path.suffix}: {path}")
    form = FORMS[path.suffix]
    return _code("", path.read_bytes(), form, path.name, path=os.path.abspath(path))


def _code(symbol: str, code: bytes, form: CodeForm, name: str, **options: Any) -> LinkedCode:
    if form is CodeForm.CUDA:
        from numba import config

        folders = getattr(config, "CUDA_NVRTC_EXTRA_SEARCH_PATHS", "").split(":")
        options["options"] = CudaOptions(include=tuple(filter(None, folders)))
    return LinkedCode(symbol, (), None, code, form, name, **options)


def _kind_of_result(result: Any) -> Any:
    """Return the kind of a result; a pointer is its address."""
    return ScalarKind("uint64") if is_of_numba(result, "CPointer") else read_signature((result,))[0]


def declare_device(
    name: str, sig: Any, link: Any = None, use_cooperative: bool = False, abi: str = "numba"
) -> Any:
    """Declare a function of other code, which a GPU alone can run.

    Parameters
    ----------
    name : str
        Its name in the code.
    sig : signature
        The types of its parameters and its result: numbers and pointers, and arrays as parameters
        with the ABI ``"numba"``. For a pointer, a call gives an array. A pointer as the result is
        an address.
    link : optional
        The code, as of ``cuda.jit``; else the kernel's own.
    use_cooperative : bool, optional
        Whether it may wait for the whole grid. Kernels that call it are launched cooperatively.
    abi : str, optional
        ``"numba"`` if the function takes the address of its result first and returns 0, and ``"c"``
        for a function of C.
    """
    kinds, result = kinds_of_signature(sig, of_kernel=True)
    if result is None:
        raise TypeError("Return type must be provided for device declarations")
    pointers = pointers_of_signature(sig)
    if abi not in ("numba", "c"):
        raise NotImplementedError(f"Unsupported ABI: {abi}")
    returned = None if str(result) in ("none", "void") else _kind_of_result(result)
    for number, kind in enumerate((*kinds, *((returned,) if returned is not None else ()))):
        is_passed = abi == "numba" or number in pointers
        if isinstance(kind, ArrayKind) and is_passed and kind is not returned:
            continue
        is_number = isinstance(kind, ScalarKind) and not kind.element.is_record
        is_result_in_memory = abi == "numba" and number == len(kinds)
        by_memory_alone = re.match("complex|b?float(8|16)|u?int16x", kind.dtype)
        if not is_number or (by_memory_alone and not is_result_in_memory):
            raise NotImplementedError(
                f"cuda.declare_device({name!r}, …) passes {kind}, and functions of other code take "
                "integers, bool, float32 and float64. With the ABI 'numba' they take arrays, too, "
                "and return any number"
            )
    files = read_links(link or ())
    parameters = ", ".join(f"a{number}" for number in range(len(kinds)))
    body = "pass" if returned is None else "return 0"
    function = written_function(name, f"def {name}({parameters}):\n    {body}\n", {}, __name__)
    code = LinkedCode(
        name,
        kinds,  # type: ignore[arg-type]  # numbers, as was checked
        returned,
        b"",
        CodeForm.PTX,
        name,
        beside=files,
        by_address=abi == "numba",
        pointers=pointers,
        is_cooperative=use_cooperative,
        has_body=False,
    )
    made: Any = DeviceFunction(function, code)
    made.name = name
    made.sig = result(*argument_types(kinds))
    return made
