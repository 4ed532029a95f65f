"""Registered overloads: a program's own Numba implementations of functions that kernels call.

``numba.extending`` lets anybody say what a function of Python or NumPy compiles to. No key can hold
what such code does, so nothing is kept and nothing is taken while there is any. A process that has
not imported Numba has registered nothing.

The registries are private to Numba. If a release has renamed one of them, the registered overloads
are unknown. Then no code is stored in the cache, and none is taken from it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache, cached_property  # noqa: TID251 -- what Numba has
from types import CellType, FunctionType
from typing import Any

from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.utilities.locks import ForkSafeLock
from kerneldsl.utilities.modules import imported

__all__ = ["foreign_overload"]

#: Packages with implementations that the rest of the key identifies; templates derive from classes
#: of Python's.
_IDENTIFIED = frozenset(
    {"abc", "builtins", "kerneldsl", "llvmlite", "numba", "numpy", "stdlib_kernels", "targets"}
)
#: Packages with functions that cached kernels call, calls by Numba's code included.
_CALLED = _IDENTIFIED | sys.stdlib_module_names
#: Packages that implement functions of Python and NumPy for their own types alone, which no
#: argument of a kernel has.
_FOR_OWN_TYPES = frozenset({"awkward", "numba_scipy", "pandas", "sparse", "vector"})
#: Registries of numba.cuda have no part in kernels.
_NO_PART = "numba.cuda."
_OF_TYPING = ("functions", "attributes", "globals")
_OF_LOWERING = ("functions", "getattrs", "setattrs", "casts", "constants")
#: The registries that are there once Numba is: module, name, and the lists that it holds.
_ALWAYS_THERE = (
    ("numba.core.typing.templates", "builtin_registry", _OF_TYPING),
    ("numba.core.typing.npydecl", "registry", _OF_TYPING),
    ("numba.core.imputils", "builtin_registry", _OF_LOWERING),
)
#: Templates that Numba makes of a program's functions, and the attribute that holds the function.
_HOLDERS = (
    ("_OverloadFunctionTemplate", "_overload_func"),
    ("_OverloadAttributeTemplate", "_overload_func"),
    ("_OverloadMethodTemplate", "_overload_func"),
    ("CallableTemplate", "generic"),
)
#: Attributes of the CPU's target that hold its contexts, each once it was requested.
_CONTEXTS = ("_toplevel_typing_context", "_toplevel_target_context")


class _Watch:
    """Looks at Numba's registries, at each item once: their lists only grow."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._counts = (0, 0)
        self._lists: dict[int, tuple[str, list[Any]]] = {}
        self._seen: dict[int, int] = {}
        self._found: str | None = None

    def look(self) -> str | None:
        """Return what was found so far, and in what is new."""
        with self._lock:
            holders = _check_names()
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
                    self._found = self._found or _describe(name, item, holders)
                self._seen[number] = done + len(new)
            return self._found


_watch = _Watch()


def foreign_overload() -> str | None:
    """Name an implementation from outside that kernels may reach.

    Such as ``"comb by __main__"``; ``None`` if there is none. Raises `UncacheableError` if this
    cannot be determined, since Numba's registries are other ones than are known here.
    """
    # While it is being imported by another thread, no program can have used it.
    return _watch.look() if imported("numba") is not None else None


def _of_modules() -> Iterator[Any]:
    """Return every registry of Numba's modules, of types and of implementations."""
    for name, module in tuple(sys.modules.items()):
        if name.startswith("numba.") and not name.startswith(_NO_PART):
            for attribute in ("registry", "builtin_registry"):
                registry = getattr(module, "__dict__", {}).get(attribute)
                if hasattr(registry, "functions"):
                    yield registry


def _check_names() -> dict[type, str]:
    """Hold that what is read here is there; return `_HOLDERS` with the classes themselves."""
    for module, name, lists in _ALWAYS_THERE:
        registry = _get(_get(sys.modules, module), name)
        for each in lists:
            if not isinstance(_get(registry, each), list):
                raise _moved(f"{module}.{name}.{each}")
    kind = type(_get(_get(sys.modules, "numba.core.registry"), "cpu_target"))
    for name in _CONTEXTS:  # which puts what it makes into the instance's __dict__
        if not isinstance(_get(kind, name), cached_property):
            raise _moved(f"{kind.__name__}.{name}")
    templates = _get(sys.modules, "numba.core.typing.templates")
    return {_get(templates, base): holder for base, holder in _HOLDERS}


def _get(owner: Any, name: str) -> Any:
    """Return a member or attribute, which must be there."""
    try:
        return owner[name] if owner is sys.modules else getattr(owner, name)
    except (KeyError, AttributeError):
        of = "" if owner is sys.modules else f"{getattr(owner, '__name__', type(owner).__name__)}."
        raise _moved(of + name) from None


def _moved(name: str) -> UncacheableError:
    return UncacheableError(
        f"what a program has registered with numba cannot be read: this release has no {name} "
        "as known"
    )


def _installed() -> list[Any]:
    """Return every registry that was installed for the CPU, a program's own among them."""
    target = getattr(sys.modules.get("numba.core.registry"), "cpu_target", None)
    made = getattr(target, "__dict__", {})
    contexts = [made[name] for name in _CONTEXTS if name in made]
    return [registry for each in contexts for registry in tuple(_get(each, "_registries"))]


def _describe(kind: str, item: Any, holders: Mapping[type, str]) -> str | None:
    """Name what an item of a registry implements, and its package; ``None`` if it has no effect."""
    subjects: tuple[Any, ...]
    makers: tuple[Any, ...]
    if isinstance(item, type):  # a template
        holder = holders.get(item.__base__ or item)
        if holder is not None:
            _get(item, holder)
        subjects, makers = (getattr(item, "key", None),), (item,)
    elif not isinstance(item, tuple) or len(item) < 2:
        raise _moved(f"item of {kind}")
    elif kind == "globals":  # an object and its type
        is_function = isinstance(item[1], sys.modules["numba"].types.Function)
        subjects, makers = item[:1], _get(item[1], "templates") if is_function else ()
    elif callable(item[0]) and isinstance(item[-1], tuple):
        # An implementation, what it is of, unless that is a conversion, and for which types.
        subjects, makers = (*item[1:-1], *item[-1]), item[:1]
    else:
        raise _moved(f"item of {kind}")
    others = [a for maker in makers for a in _authors(maker) if a not in _IDENTIFIED]
    if not others or others[0] in _FOR_OWN_TYPES or not all(map(_is_called, subjects)):
        return None
    return f"{getattr(subjects[0], '__name__', subjects[0])} by {others[0]}"


def _authors(maker: Any) -> list[str]:
    """Return the packages in which a template or an implementation was written."""
    if isinstance(maker, type):
        return [author for each in maker.__mro__ for author in _authors_of_class(each)]
    if isinstance(maker, FunctionType):
        # Numba's decorators wrap the function that they are given in others.
        held = [_contents(cell) for cell in maker.__closure__ or ()]
        return [_package(each) for each in (maker, *held) if isinstance(each, FunctionType)]
    return [_package(type(maker))]


@cache
def _authors_of_class(each: type) -> list[str]:
    # Numba's decorators make classes, too, that hold the function.
    held = (each.__dict__.get("_overload_func"), each.__dict__.get("generic"))  # of _HOLDERS
    functions = [getattr(value, "__func__", value) for value in held if value is not None]
    return [_package(each), *(author for f in functions for author in _authors(f))]


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _is_called(subject: Any) -> bool:
    """Return whether kernels that are kept may meet what an implementation is of."""
    is_named = isinstance(subject, type) or hasattr(subject, "__qualname__")
    return _package(subject if is_named else type(subject)) in _CALLED


def _package(value: Any) -> str:
    # A function that Numba has made of text has no module.
    return str(getattr(value, "__module__", None) or "numba").partition(".")[0]
