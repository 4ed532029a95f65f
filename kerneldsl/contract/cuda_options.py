"""Options with which a program's CUDA C++ is compiled."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from itertools import islice
from typing import Any

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.kernels import wrong_type, wrong_value
from kerneldsl.errors.values import a_type, safe_repr
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.paths import path_text

__all__ = ["DEFAULT_CUDA_OPTIONS", "CudaOptions"]

_STANDARDS = ("c++11", "c++14", "c++17", "c++20")
_MAX_LEVEL = 3
_MAX_REGISTERS = 255
_MOST_FOLDERS = 10_000
#: An identifier of C, which a macro's name is.
_NAME = re.compile(r"[A-Za-z_]\w*(\([\w, .]*\))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class CudaOptions:
    """Options of :func:`kerneldsl.cuda_source`, with which NVRTC compiles CUDA C++.

    Parameters
    ----------
    opt_level : int
        Optimization level of the assembler, 0 to 3.
    max_registers : int, optional
        Registers that a thread may use, 1 to 255.
    debug : bool
        Compile for a debugger, without optimization.
    lineinfo : bool
        Put source lines into the compiled code, for profilers.
    fastmath : bool
        Use approximate functions and divisions, and treat subnormal numbers as 0.
    std : str
        The standard of C++: ``"c++11"``, ``"c++14"``, ``"c++17"`` or ``"c++20"``.
    include : sequence of path
        Folders with headers. The headers of the CUDA toolkit are found after these.
    defines : mapping
        Macro to its value. With ``None`` the macro is defined as 1.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If an option has a value of another type, or outside its range.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.CudaOptions(defines={"WIDTH": 4}, max_registers=64).defines
    (('WIDTH', '4'),)
    """

    opt_level: int = _MAX_LEVEL
    max_registers: int | None = None
    debug: bool = False
    lineinfo: bool = False
    fastmath: bool = False
    std: str = "c++17"
    include: Iterable[str | os.PathLike[str]] = field(default=())
    defines: Mapping[str, object] | Iterable[tuple[str, str]] = field(default=())

    def __post_init__(self) -> None:
        _check_number("opt_level", self.opt_level, 0, _MAX_LEVEL)
        if self.max_registers is not None:
            _check_number("max_registers", self.max_registers, 1, _MAX_REGISTERS)
        for name in ("debug", "lineinfo", "fastmath"):
            if not isinstance(value := getattr(self, name), bool):
                raise wrong_type(name, value, "It must be a bool")
        if not isinstance(self.std, str) or self.std not in _STANDARDS:
            raise wrong_value(
                "std", self.std, f"NVRTC knows {', '.join(_STANDARDS)}", "Name one of them"
            )
        object.__setattr__(self, "include", _read_folders(self.include))
        object.__setattr__(self, "defines", _read_defines(self.defines))

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of `include`, as absolute paths."""
        return tuple(str(each) for each in self.include)

    @property
    def macros(self) -> tuple[tuple[str, str], ...]:
        """The macros of `defines`, with their values as text."""
        return tuple((str(name), str(value)) for name, value in dict(self.defines).items())


def _check_number(name: str, value: object, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise wrong_value(name, value, f"It must be an int, {low} to {high}")


def _read_folders(include: object) -> tuple[str, ...]:
    given: Any = (include,) if isinstance(include, (str, os.PathLike)) else include
    try:
        # Before Python 3.14 a tuple of a range of 10**12 numbers fails at once.
        folders = tuple(islice(given, _MOST_FOLDERS + 1))
    except Exception as error:
        raise ArgumentTypeError(
            f"include is {a_type(include)}", value=include, limit="It must be paths of folders"
        ) from error
    if len(folders) > _MOST_FOLDERS:
        raise ArgumentValueError(
            f"include is {a_type(include)} of more than {_MOST_FOLDERS} elements",
            value=include,
            limit=f"It must be paths of at most {_MOST_FOLDERS} folders",
        )
    found = []
    for each in folders:
        text = path_text(each)
        if text is None:
            raise ArgumentTypeError(
                f"include holds {a_type(each)}", value=each, limit="It must be paths of folders"
            )
        path = os.path.abspath(text)
        if not os.path.isdir(path):
            raise ArgumentValueError(
                f"include holds {safe_repr(path)}",
                value=path,
                limit="There is no such folder",
                remedy="Correct the path",
            )
        found.append(path)
    return tuple(found)


def _read_defines(defines: object) -> tuple[tuple[str, str], ...]:
    try:
        given = dict(defines)  # type: ignore[call-overload]
    except Exception as error:
        raise ArgumentTypeError(
            f"defines is {a_type(defines)}",
            value=defines,
            limit="It must be a mapping of macros to values",
            remedy='Write defines={"WIDTH": 4}',
        ) from error
    found = []
    for name, value in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ArgumentValueError(
                f"defines names {safe_repr(name)}",
                value=name,
                limit="A macro's name is an identifier of C++",
            )
        try:
            text = _as_c(value)
        except Exception as error:
            raise wrong_type(
                f"the macro {name}",
                value,
                "A macro's value is text, or a number of at most 4300 digits",
            ) from error
        if "\n" in text:
            raise wrong_value(f"the macro {name}", value, "A macro's value is one line")
        found.append((name, text))
    return tuple(found)


def _as_c(value: object) -> str:
    if value is None:
        return "1"
    return str(int(value)) if isinstance(value, bool) else str(value)


#: Options of a source that is given without options.
DEFAULT_CUDA_OPTIONS = CudaOptions()
