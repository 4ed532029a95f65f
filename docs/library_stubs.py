"""Write stubs for type checkers: of packages with a table of their names, and of the library.

A package that imports names at their first use, or all names of its modules, has a table of their
modules, of which its stub is made. Each family of the library has a stub of its functions, made of
their signatures and of the results that their docstrings name; `stdlib_kernels/__init__.pyi` has
the names of all. A call is typed by the kind of its first array: NumPy's, a device array, one of
another library, or what NumPy makes an array of. Run ``python docs/library_stubs.py`` after a name,
a signature or a result was changed; a test compares.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(_ROOT))

import stdlib_kernels as library  # noqa: E402 - found by the path above

__all__ = ["late_stubs", "stubs"]

_HEAD = '"""Written by docs/library_stubs.py."""\n'
_IMPORTS = """
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from kerneldsl import DeviceArray
from stdlib_kernels._kinds import ArrayLike, Axis, Foreign, Host, Ints, Number
"""
#: What an array parameter is, and a result, by the kind of the call's first array.
_KINDS = {
    "Host": ("Host", "Host"),
    "DeviceArray": ("DeviceArray", "DeviceArray"),
    "Foreign": ("Foreign", "Foreign"),
    "npt.ArrayLike": ("Host", "Host"),
}
#: The NumPy scalars that reductions return; those of others are numbers.
_SCALARS = {
    **dict.fromkeys(("argmax", "argmin", "count_nonzero"), "np.int64"),
    **dict.fromkeys(("all", "any"), "np.bool"),
    **dict.fromkeys(("max", "min", "reduce"), "np.number[Any] | np.bool"),
}
#: Packages with a table of their names, and what their stubs have beside them. Inside a kernel,
#: places of a thread are numbers, which is their type for a type checker.
_LATE = {
    "kerneldsl": """
from kerneldsl._version import __version__ as __version__

class _Index(Protocol):
    x: int
    y: int
    z: int

threadIdx: _Index
blockIdx: _Index
blockDim: _Index
gridDim: _Index
laneid: int
warpsize: int

def load_ipython_extension(shell: Any) -> None: ...
""",
    "kerneldsl.cache": "",
    "kerneldsl.contract": "",
    "kerneldsl.errors": "",
    "kerneldsl.planner": "",
    "kerneldsl.random": "\nxoroshiro128p_type: Any\n",
    "stdlib_kernels.array_api": "\nAPI_VERSIONS: tuple[str, ...]\n__array_api_version__: str\n",
}
_NAMED = re.compile(r"^([\w, ]+) : (.*)$")


def stubs() -> dict[Path, str]:
    """Return the text of each stub by its path."""
    families = [name for name in library.__all__ if (_ROOT / "stdlib_kernels" / name).is_dir()]
    found: dict[Path, str] = {}
    flat: list[str] = []
    for family in families:
        module = importlib.import_module(f"stdlib_kernels.{family}")
        found[_path(family)] = "\n".join([_HEAD.rstrip(), *_family(module)]) + "\n"
        # A family's own function is what the family is called as.
        names = [name for name in module.__all__ if getattr(library, name) is getattr(module, name)]
        flat += [f"from stdlib_kernels.{family} import ("]
        flat += [f"    {name} as {name}," for name in sorted(names)] + [")"]
    called = [each for each in families if callable(getattr(library, each))]
    modules = sorted({*families, "array_api"} - {*called})
    head = ["from stdlib_kernels import (", *[f"    {each} as {each}," for each in modules], ")"]
    head += [f"from stdlib_kernels.{each} import _Family as _{each}" for each in called]
    flat = [*head, *flat, "", "__all__: list[str]", *[f"{each}: _{each}" for each in called]]
    found[_path("")] = "\n".join([_HEAD.rstrip(), "", *flat]) + "\n"
    return found


def late_stubs() -> dict[Path, str]:
    """Return the text of each stub of a package with a table of its names, by its path."""
    return {_stub_of(name): _late_stub(name, beside) for name, beside in _LATE.items()}


def _late_stub(name: str, beside: str) -> str:
    homes: dict[str, list[str]] = {}
    for each, module in sorted(importlib.import_module(name)._HOME.items()):
        if f"\n{each}: " not in beside:
            homes.setdefault(module, []).append(each)
    lines = [_HEAD.rstrip(), "", *(["from typing import Any, Protocol", ""] if beside else [])]
    for module, names in sorted(homes.items()):
        lines += [f"from {module} import (", *[f"    {each} as {each}," for each in names], ")"]
    return "\n".join([*lines, *beside.rstrip().splitlines(), "", "__all__: list[str]", ""])


def _stub_of(package: str) -> Path:
    return _ROOT.joinpath(*package.split("."), "__init__.pyi")


def _path(family: str) -> Path:
    return _stub_of(f"stdlib_kernels.{family}".rstrip("."))


def _family(module: Any) -> Iterator[str]:
    body: list[str] = []
    is_called = callable(module)  # a family with a function of the same name
    for name in module.__all__:
        function = getattr(module, name)
        if inspect.isclass(function) or not hasattr(function, "__wrapped__"):
            yield f"from {function.__module__} import {name} as {name}"
        else:
            body += _overloads(name, function, "staticmethod" if is_called else "")
    if is_called:
        name = module.__name__.rpartition(".")[2]
        body += _overloads("__call__", getattr(module, name), "self")
        body = ["class _Family:", "    __all__: list[str]", *[f"    {line}" for line in body]]
        body += ["", *[f"{name} = _Family.{name}" for name in module.__all__]]
    text = "\n".join(body)
    if body:
        yield from (line for line in _used(text) if line or body)
        yield ""
        yield text
    yield ""
    yield "__all__: list[str]"


def _used(text: str) -> Iterator[str]:
    """Return the imports with the names that a text has."""
    for line in _IMPORTS.splitlines():
        head, found, names = line.partition(" import ")
        if not found:
            alias = line.rpartition(" ")[2]
            if not line or re.search(rf"\b{alias}\.", text):
                yield line
            continue
        used = [each for each in names.split(", ") if re.search(rf"\b{each}\b", text)]
        if used:
            yield f"{head} import {', '.join(used)}"


def _overloads(name: str, function: Callable[..., Any], of_class: str) -> Iterator[str]:
    """Return a function for each kind of arrays.

    In a class it is a ``"staticmethod"``, or a method with ``"self"``.
    """
    result = _result(function)
    for given, (other, made) in _KINDS.items():
        if result == "scalar" and made == "Host":
            scalar = _SCALARS.get(function.__name__, "np.number[Any]")
            fixed = {"axis": "None", "out": "None", "keepdims": "Literal[False]"}
            yield from _signature(name, function, (given, other, scalar), of_class, fixed)
        elif result == "optional":
            flags = [each for each in inspect.signature(function).parameters if "return_" in each]
            fixed = dict.fromkeys(flags, "Literal[False]")
            yield from _signature(name, function, (given, other, made), of_class, fixed)
        returned = {"scalar": "array", "optional": "tuple[array, ...]"}.get(result, result)
        returned = returned.replace("array", made)
        yield from _signature(name, function, (given, other, returned), of_class, {})


def _signature(
    name: str,
    function: Callable[..., Any],
    kinds: tuple[str, str, str],
    of_class: str,
    fixed: dict[str, str],
) -> Iterator[str]:
    given, other, result = kinds
    parts = ["self"] if of_class == "self" else []
    is_first = True
    is_named = False
    for each in inspect.signature(function).parameters.values():
        said = str(each.annotation)
        if each.kind is each.KEYWORD_ONLY and not is_named:
            is_named = True
            if not any(part.startswith("*") for part in parts):
                parts.append("*")
        kind = _annotation(each.name, said, given if is_first else "", other)
        is_first = is_first and not ("Array" in said and each.name != "out")
        default = "" if each.default is each.empty else f" = {each.default!r}"
        kind = fixed.get(each.name, kind)
        star = "*" if each.kind is each.VAR_POSITIONAL else ""
        parts.append(f"{star}{each.name}: {kind}{default}")
    yield "@overload"
    if of_class == "staticmethod":
        yield "@staticmethod"
    line = f"def {name}({', '.join(parts)}) -> {result}: ..."
    if len(line) <= 100:
        yield line
        return
    yield f"def {name}("
    yield from (f"    {part}," for part in parts)
    yield f") -> {result}: ..."


def _annotation(name: str, said: str, first: str, other: str) -> str:
    """Return the type of a parameter; `first` is that of the array that tells the kind."""
    beside = "ArrayLike" if other == "Host" else f"{other} | npt.ArrayLike"
    if name == "out":
        wanted = said.replace("Out", "Array | None").replace("Any", "Array | None")
        return wanted.replace("Array", other)
    if name == "dtype":
        return "npt.DTypeLike | None"
    if "Array" in said:
        return said.replace("tuple[Array, ...]", "Sequence[Array]").replace(
            "Array", first or beside
        )
    return said.replace("Bins", "int | Sequence[float] | " + beside)


def _result(function: Callable[..., Any]) -> str:
    """Return what a docstring says that a function returns, as a type of ``array``."""
    text = inspect.getdoc(function) or ""
    section = re.search(r"\nReturns\n-+\n((?:.*\n)+?)\n", text + "\n\n")
    lines = [each for each in (section[1].splitlines() if section else []) if each[:1].strip()]
    if section is None or not lines:
        return "None"
    named = [_NAMED.match(each) for each in lines]
    if all(named):
        pairs = [(name, each[2]) for each in named if each for name in each[1].split(",")]
        types = ["int" if said == "int" else "array" for _, said in pairs]
        optional = "\n    If `return_" in section[1]
        return "optional" if optional else f"tuple[{', '.join(types)}]"
    said = lines[0]
    if said.startswith("NumPy scalar"):
        return "scalar"
    if "tuple of" in said:
        return "Any" if said.startswith("array,") else "tuple[array, ...]"
    return "array"


def main() -> None:
    """Write the stubs."""
    for path, text in {**late_stubs(), **stubs()}.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
