"""What a program has taught Numba: other implementations than Numba's own of what kernels call.

``numba.extending`` lets anybody say what a function of Python or NumPy compiles to. No key can hold
what such code does, so nothing is kept and nothing is taken while there is any. A process that has
not imported Numba has registered nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from types import CellType, FunctionType
from typing import Any

from kerneldsl.locks import ForkSafeLock

__all__ = ["foreign_overload"]

#: Whose implementations the rest of the key identifies; templates derive from classes of Python's.
_IDENTIFIED = frozenset(
    {"abc", "builtins", "kerneldsl", "llvmlite", "numba", "numpy", "stdlib_kernels", "targets"}
)
#: Whose functions kernels that are kept call, by themselves or within what Numba compiles for them.
_CALLED = _IDENTIFIED | sys.stdlib_module_names
#: Packages that implement functions of Python and NumPy for types of their own alone, which no
#: argument of a kernel has.
_FOR_OWN_TYPES = frozenset({"awkward", "numba_scipy", "pandas", "sparse", "vector"})
#: Registries of numba.cuda have no part in kernels.
_NO_PART = "numba.cuda."


class _Watch:
    """Looks at Numba's registries, whose lists only grow: at each item once."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._counts = (0, 0)
        self._lists: dict[int, tuple[str, list[Any]]] = {}
        self._seen: dict[int, int] = {}
        self._found: str | None = None

    def look(self) -> str | None:
        """What was found so far, and in what is new."""
        with self._lock:
            installed = _installed()
            counts = (len(sys.modules), len(installed))
            if counts != self._counts:
                self._counts = counts
                registries = (*_of_modules(), *installed)
                self._lists = {
                    id(items): (kind, items)
                    for registry in registries
                    for kind, items in vars(registry).items()
                    if isinstance(items, list)
                }
            for number, (name, items) in self._lists.items():
                done = self._seen.get(number, 0)
                new = items[done:]
                for item in new:
                    self._found = self._found or _describe(name, item)
                self._seen[number] = done + len(new)
            return self._found


_watch = _Watch()


def foreign_overload() -> str | None:
    """Name an implementation from outside that kernels may reach.

    Returns
    -------
    str or None
        Such as ``"comb by __main__"``; ``None`` where there is none.
    """
    return _watch.look() if "numba" in sys.modules else None


def _of_modules() -> Iterator[Any]:
    """Every registry of Numba's modules, of types and of implementations."""
    for name, module in tuple(sys.modules.items()):
        if name.startswith("numba.") and not name.startswith(_NO_PART):
            for attribute in ("registry", "builtin_registry"):
                registry = getattr(module, "__dict__", {}).get(attribute)
                if hasattr(registry, "functions"):
                    yield registry


def _installed() -> list[Any]:
    """Every registry that was installed for the CPU, a program's own among them."""
    target = getattr(sys.modules.get("numba.core.registry"), "cpu_target", None)
    contexts = (
        getattr(target, "__dict__", {}).get(f"_toplevel_{kind}_context")  # made when first asked
        for kind in ("typing", "target")
    )
    return [
        registry for context in contexts for registry in tuple(getattr(context, "_registries", ()))
    ]


def _describe(kind: str, item: Any) -> str | None:
    """Say what an item of a registry implements and whose it is, unless it is of no consequence."""
    subjects: tuple[Any, ...]
    makers: tuple[Any, ...]
    if not isinstance(item, tuple):  # a template
        subjects, makers = (getattr(item, "key", None),), (item,)
    elif kind == "globals":  # an object and its type
        subjects, makers = item[:1], getattr(item[1], "templates", ())
    else:  # an implementation, what it is of, unless that is a conversion, and for which types
        subjects, makers = (*item[1:-1], *item[-1]), item[:1]
    others = [a for maker in makers for a in _authors(maker) if a not in _IDENTIFIED]
    if not others or others[0] in _FOR_OWN_TYPES or not all(map(_is_called, subjects)):
        return None
    return f"{getattr(subjects[0], '__name__', subjects[0])} by {others[0]}"


def _authors(maker: Any) -> list[str]:
    """The packages in which a template or an implementation was written."""
    if isinstance(maker, type):
        return [author for each in maker.__mro__ for author in _authors_of_class(each)]
    if isinstance(maker, FunctionType):
        # Numba's decorators put functions of its own around the one they are given.
        held = [_contents(cell) for cell in maker.__closure__ or ()]
        return [_package(each) for each in (maker, *held) if isinstance(each, FunctionType)]
    return [_package(type(maker))]


@cache
def _authors_of_class(each: type) -> list[str]:
    # They make classes, too, that hold the function.
    held = (each.__dict__.get("_overload_func"), each.__dict__.get("generic"))
    functions = [getattr(value, "__func__", value) for value in held if value is not None]
    return [_package(each), *(author for f in functions for author in _authors(f))]


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _is_called(subject: Any) -> bool:
    """Whether kernels that are kept may meet what an implementation is of."""
    is_named = isinstance(subject, type) or hasattr(subject, "__qualname__")
    return _package(subject if is_named else type(subject)) in _CALLED


def _package(value: Any) -> str:
    # A function that Numba has made of text has no module.
    return str(getattr(value, "__module__", None) or "numba").partition(".")[0]
