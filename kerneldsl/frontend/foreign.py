"""Resolve numba.cuda's names inside a kernel to kerneldsl's names of the same meaning.

Nothing of Numba is imported here: its objects are recognized by their module's name.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from kerneldsl.language.intrinsics.intrinsic import Dim3, Intrinsic, Scope
from kerneldsl.language.other_names import kernel_remedy

__all__ = [
    "foreign_dim3",
    "foreign_group",
    "foreign_intrinsic",
    "foreign_name",
    "foreign_remedy",
    "is_cuda_dispatcher",
    "is_dispatcher",
    "is_numba_type",
    "is_of_drop_in",
    "is_overloaded",
    "is_ufunc_of_numba",
    "names_numba_cuda",
]

_ROOTS = ("numba.cuda", "numba_cuda.numba.cuda")

_SAME_MEANING = {
    "atomic.nanmax": "atomic.max",
    "atomic.nanmin": "atomic.min",
    "atomic.compare_and_swap": "atomic.cas",
    "cg.this_grid.sync": "grid_group.sync",
}


def _is_below_root(module: object) -> bool:
    if not isinstance(module, str) or not module.startswith(_ROOTS):
        return False
    return not is_of_drop_in(module) and any(
        module == root or module.startswith(root + ".") for root in _ROOTS
    )


def is_of_drop_in(module: str) -> bool:
    """Return whether a module below numba.cuda is a program's own, since numba.cuda is kerneldsl.

    See :mod:`kerneldsl.drop_in`.
    """
    if not module.startswith(_ROOTS):
        return False
    return getattr(sys.modules.get("numba.cuda"), "__kerneldsl__", False) is True


def foreign_name(value: Any, rest: tuple[str, ...]) -> str | None:
    """Name below ``numba.cuda`` that an object and the attributes after it stand for.

    Parameters
    ----------
    value : object
        An object found on the way along a chain.
    rest : tuple of str
        The attributes that follow.

    Returns
    -------
    str or None
        Such as ``"threadIdx.x"``. ``None`` if the name is not from numba.cuda or the chain is still
        in its modules, and for its decorated functions and types.
    """
    if is_numba_type(value) or _is_users_dispatcher(value):
        return None
    module_name = getattr(value, "__name__", "") if _is_module(value) else None
    if module_name is not None:
        if not _is_below_root(module_name) or not rest:
            return None
        # A submodule, a type or a decorated function is looked at in its turn.
        found = getattr(value, rest[0], None)
        if _is_module(found) or is_numba_type(found):
            return ".".join(rest) if kernel_remedy(rest[0]) else None
        return None if _is_users_dispatcher(found) else ".".join((*_group_of(module_name), *rest))
    if not _is_below_root(getattr(value, "__module__", None)):
        return None
    own = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    group = _group_of(value.__module__)
    return ".".join((*group, own, *rest)) if isinstance(own, str) else None


def _group_of(module: str) -> tuple[str, ...]:
    """Return the group of intrinsics that a module of numba.cuda holds."""
    return ("libdevice",) if module.endswith(".libdevice") else ()


def foreign_intrinsic(name: str) -> Intrinsic | None:
    """Return our intrinsic that means the same, or ``None``."""
    from kerneldsl.language.intrinsics.table import find_intrinsic  # few kernels need all of them

    try:
        return find_intrinsic(_SAME_MEANING.get(name, name))
    except KeyError:
        return None


def foreign_dim3(name: str) -> Dim3 | None:
    """Return our group of three numbers that means the same, or ``None``."""
    from kerneldsl.language.intrinsics import places

    found = getattr(places, name, None)
    return found if isinstance(found, Dim3) else None


def foreign_group(name: str) -> bool:
    """Return whether a name is a group of intrinsics, such as ``threadIdx``."""
    from kerneldsl.language.intrinsics.table import INTRINSICS

    return any(known.startswith(name + ".") for known in INTRINSICS)


def foreign_remedy(name: str) -> str:
    """Say what to write instead of a name that has no counterpart."""
    known = kernel_remedy(name)
    if known is not None:
        return known
    if name.startswith(("xoroshiro128p", "create_xoroshiro128p", "init_xoroshiro128p")):
        return f"Use kd.random.{name}, which draws the same numbers"
    from kerneldsl.language.intrinsics.table import INTRINSICS

    if name.endswith(("_sync", "_sync_intrinsic")):
        exchanges = (f"kd.{i.name}" for i in INTRINSICS.values() if i.scope is Scope.WARP)
        return f"Between the lanes of a warp there are {', '.join(exchanges)}"
    first = name.partition(".")[0]
    near = sorted(n for n in INTRINSICS if n.partition(".")[0] == first)
    listed = near or [n for n in INTRINSICS if "." not in n]
    return f"kerneldsl has no such operation; it has {', '.join('kd.' + n for n in listed)}"


def _is_module(value: object) -> bool:
    return type(value).__name__ == "module"


def is_dispatcher(value: object) -> bool:
    """Return whether an object is a function that Numba compiles (``@njit``, ``@cuda.jit``)."""
    module = type(value).__module__
    return module.startswith(("numba.", "numba_cuda.")) and hasattr(value, "py_func")


def is_cuda_dispatcher(value: object) -> bool:
    """Return whether a dispatcher is numba.cuda's."""
    return _is_below_root(type(value).__module__)


def names_numba_cuda(function: types.FunctionType) -> bool:
    """Return whether a function names numba.cuda, which is kerneldsl."""
    return any(
        getattr(function.__globals__.get(name), "__kerneldsl__", False) is True
        for name in function.__code__.co_names
    )


def is_overloaded(function: types.FunctionType) -> bool:
    """Return whether a program has registered with Numba what one of its functions compiles to.

    By `overload` or `type_callable` of ``numba.extending``. By `register_jitable` it compiles to
    itself, so it is a device function.
    """
    templates = sys.modules.get("numba.core.typing.templates")
    registry = getattr(templates, "builtin_registry", None)
    return any(
        value is function and not all(map(_is_jitable, kind.templates))
        for value, kind in getattr(registry, "globals", ())
    )


def _is_jitable(template: Any) -> bool:
    """Return whether `register_jitable` has made what Numba knows of a function."""
    maker = getattr(template, "_overload_func", None)
    return getattr(maker, "__module__", None) == "numba.core.extending"


def is_ufunc_of_numba(value: object) -> bool:
    """Return whether an object is a function that ``numba.vectorize`` made."""
    kind = type(value)
    return kind.__name__ == "DUFunc" and kind.__module__.partition(".")[0] == "numba"


def is_numba_type(value: object) -> bool:
    """Return whether an object is a Numba type such as ``numba.float32``."""
    # A launch of compiled code has not imported it, and looks at hundreds of objects.
    return "numba" in sys.modules and any(
        base.__name__ == "Type"
        and base.__module__.startswith(("numba.", "numba_cuda."))
        and base.__module__.endswith("types.abstract")
        for base in type(value).__mro__
    )


def _is_users_dispatcher(value: object) -> bool:
    """Return whether an object is a compiled function other than numba.cuda's own."""
    return is_dispatcher(value) and not _is_below_root(getattr(value, "__module__", None))
