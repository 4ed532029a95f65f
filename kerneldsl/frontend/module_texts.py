"""Texts of modules that are installed without their sources, such as from ``.pyc`` files alone.

A function that finds such texts is registered for a package. A text is compared with the code of
the function, as every text is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

__all__ = ["packages_of", "register_texts", "text_of_module"]

_finders: dict[str, Callable[[str], str | None]] = {}


def register_texts(package: str, find: Callable[[str], str | None]) -> None:
    """Take the texts of a package's modules from a function, given the name of a module."""
    _finders[package] = find


def text_of_module(module: str) -> str | None:
    """Return the registered text of a module, or ``None``."""
    for package in packages_of(module):
        find = _finders.get(package)
        text = None if find is None else find(module)
        if text is not None:
            return text
    return None


def packages_of(module: str) -> Iterator[str]:
    """Return a module's name and those of the packages that it is in, the nearest first.

    Examples
    --------
    >>> list(packages_of("a.b.c"))
    ['a.b.c', 'a.b', 'a']
    """
    while module:
        yield module
        module = module.rpartition(".")[0]
