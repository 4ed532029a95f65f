"""Kernels that a command names: of a file, or of a module that Python can import."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from kerneldsl.errors import ArgumentValueError, KernelError
from kerneldsl.kernels.kernel import Kernel
from kerneldsl.kernels.spaces import OpenSpacedKernel, SpacedKernel
from kerneldsl.utilities.formatting import format_count

__all__ = ["choose_member", "find_kernel", "read_dims", "read_member", "signature_arguments"]


def find_kernel(place: str) -> Kernel[..., Any]:
    """Return the kernel that ``FILE:KERNEL`` or ``MODULE:KERNEL`` names.

    ``FILE`` alone names the only kernel in it.

    Raises `ArgumentValueError` if there is none.
    """
    source, colon, name = place.rpartition(":")
    if place.endswith(".py") or Path(place).is_file():
        source, name = place, ""
    elif not colon or not source or not name:
        raise ArgumentValueError(
            f"{place!r} names no kernel",
            value=place,
            limit="It must be FILE:KERNEL or MODULE:KERNEL, as in axpy.py:axpy or pkg.blas:axpy, "
            "or a FILE with one kernel in it",
        )
    path = Path(source)
    is_module = not path.exists() and re.fullmatch(r"\w+(\.\w+)*", source) and path.suffix != ".py"
    module = _load_module(source) if is_module else _load_file(path)
    if not name:
        return _only_kernel(source, module)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Kernel):
        return found
    kernels = sorted(n for n, v in vars(module).items() if isinstance(v, Kernel))
    raise ArgumentValueError(
        f"{source} has no kernel {name!r}",
        value=name,
        limit=f"It has {', '.join(kernels)}" if kernels else "It has no kernel at all",
    )


def _only_kernel(source: str, module: ModuleType) -> Kernel[..., Any]:
    """Return the kernel that a file defines; those that it imports do not count."""
    own = {
        id(each): (name, each)
        for name, each in sorted(vars(module).items(), reverse=True)
        if isinstance(each, Kernel) and each.__module__ == module.__name__
    }
    if len(own) == 1:
        ((_, kernel),) = own.values()
        return kernel
    names = sorted(name for name, _ in own.values())
    raise ArgumentValueError(
        f"{source} defines {format_count(len(names), 'kernel')}",
        value=source,
        limit=f"They are {', '.join(names)}" if names else "Kernels that it imports do not count",
        remedy=f"Name one: {source}:{names[0] if names else 'KERNEL'}",
    )


def _load_module(name: str) -> ModuleType:
    """Import a module as ``python -m`` would, from the current folder too."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        module: ModuleType = _run(name, lambda: importlib.import_module(name), f"python -m {name}")
    except ModuleNotFoundError as error:
        raise ArgumentValueError(
            f"there is no module {name}: {error}",
            value=name,
            remedy="Run it in the folder of the package, or give the file, as pkg/blas.py",
        ) from error
    return module


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
    # The file finds modules beside it, as a script would.
    sys.path.insert(0, str(path.parent.resolve()))
    root, name = _package_of(path.resolve())
    if "." in name:
        # A file of a package is imported as a part of it, so that relative imports work.
        sys.path.insert(0, str(root))
        imported: ModuleType = _run(
            str(path), lambda: importlib.import_module(name), f"python -m {name}"
        )
        if not Path(imported.__file__ or "").samefile(path):
            raise ArgumentValueError(
                f"{path} is the module {name}, and Python imports {imported.__file__} by this name",
                value=str(path),
                limit="Folders of sys.path are searched in their order",
            )
        return imported
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    loader = spec.loader
    _run(str(path), lambda: loader.exec_module(module), f"python {path}")
    return module


def _package_of(path: Path) -> tuple[Path, str]:
    """Return the folder that holds a file's outermost package, and the file's name from there."""
    folder, parts = path.parent, [] if path.stem == "__init__" else [path.stem]
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def _run(what: str, execute: Callable[[], Any], alone: str) -> Any:
    """Run a module's code; what it raises is an error that names it."""
    try:
        return execute()
    except KernelError:
        raise
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{what}.".startswith(f"{missing}."):
            raise  # the module itself is not there
        raise ArgumentValueError(
            f"{what} cannot be run: {type(error).__name__}: {error}",
            value=what,
            limit="It is run to find the kernel in it, with its imports",
            remedy=f"Run it alone first: {alone}",
        ) from error


def choose_member(
    kernel: Kernel[..., Any], member: Sequence[str], block: tuple[int, ...] | None = None
) -> Kernel[..., Any]:
    """Return the kernel of the member that ``--member`` and ``--block`` name.

    A kernel without a space is returned as it is.

    Raises `ArgumentValueError` if there is no such member, or several have different code.
    """
    values = read_member(member)
    if isinstance(kernel, SpacedKernel | OpenSpacedKernel):
        known = kernel.space.parameters
        if block is not None:
            values.setdefault("block", block)
        try:
            return kernel.member(**values)
        except ArgumentValueError as error:
            example = ",".join(f"{name}={_written(each[0])}" for name, each in known.items())
            raise ArgumentValueError(
                error.what,
                value=values,
                limit=error.limit,
                remedy=f"Name one of its members: --member {example}",
            ) from error
    if values:
        raise ArgumentValueError(
            f"--member names a member, and {kernel.__qualname__} has no space",
            value=list(member),
            remedy="Leave --member out",
        )
    return kernel


def _written(value: Any) -> str:
    """Return a parameter's value as an option gives it, without characters that shells read."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def read_member(member: Sequence[str]) -> dict[str, Any]:
    """Return the values that options such as ``--member block=64,items=4`` name.

    Raises `ArgumentValueError` if one is not of that form.

    Examples
    --------
    >>> read_member(["block=32,8,items=4", "order=rows"])
    {'block': (32, 8), 'items': 4, 'order': 'rows'}
    """
    values: dict[str, Any] = {}
    for text in member:
        # A comma separates two parameters, or the axes of a block.
        for part in re.split(r",(?=\s*[^\W\d]\w*\s*=)", text):
            name, equals, value = part.partition("=")
            if not equals or not name.strip().isidentifier() or not value.strip():
                raise ArgumentValueError(
                    f"--member is {text!r}",
                    value=text,
                    limit="It must be NAME=VALUE with commas between, as block=64,items=4",
                )
            try:
                values[name.strip()] = ast.literal_eval(value.strip())
            except (ValueError, SyntaxError):
                values[name.strip()] = value.strip()
    return values


def signature_arguments(kernel: Kernel[..., Any], signature: str | None) -> tuple[str, ...]:
    """Return what the inspecting methods take for ``--signature``.

    Raises `ArgumentValueError` if it is left out and the kernel declares none.
    """
    if signature is not None:
        return (signature,)
    code = kernel.function.__code__
    names = code.co_varnames[: code.co_argcount]
    if not kernel.options.signatures and names:
        raise ArgumentValueError(
            f"the types of {kernel.__qualname__}({', '.join(names)}) are not known",
            value=None,
            limit="A kernel without a declared signature has the types of its arguments, and a "
            "command has none",
            remedy="Give one type for each parameter, such as "
            f'--signature "{", ".join(["float32[::1]"] * len(names))}", or declare them: '
            f'@kd.kernel("float32[::1], …")',
        )
    return ()


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
