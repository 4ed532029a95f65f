"""Names that are written by habit, of numba.cuda or misspelled, and what to write instead.

The package's attributes and the front end use this table. Only Python is imported, since
``hasattr`` requests missing names, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

__all__ = [
    "ON_HOST",
    "VALUE_ALIASES",
    "VALUE_VECTORS",
    "WORDS_OF_C",
    "array_remedy",
    "closest_name",
    "host_remedy",
    "kernel_remedy",
    "option_remedy",
    "words_for_vectors",
]

_VECTOR_TYPE = re.compile(r"u?(?:int|float|char|short|long|longlong|double)\d*x?[1-4]")

#: numba.cuda's names for the host that are spelled otherwise here.
ON_HOST = {
    "as_cuda_array": "kd.as_array",
    "detect": "kd.backends",
    "device": "kd.func",
    "device_array": "kd.empty",
    "device_array_like": "kd.empty_like",
    "event": "kd.Event",
    "get_current_device": "kd.device_info",
    "gpus": "kd.devices",
    "is_available": "kd.devices",
    "jit": "kd.kernel",
    "list_devices": "kd.devices",
    "managed_array": "kd.managed_empty",
    "mapped_array": "kd.pinned_empty",
    "pinned": "kd.pinned_copy",
    "pinned_array": "kd.pinned_empty",
    "pinned_array_like": "kd.pinned_empty",
    "select_device": "kd.use",
    "stream": "kd.Stream",
    "to_device_async": "kd.to_device",
}

#: Further notes on some of these.
_HOST_NOTES = {
    "device": " above a function that kernels call, or nothing: a plain one is a device function, "
    "too. kd.devices lists devices, and kd.use chooses one",
    "jit": ", or for a function that kernels call kd.func or nothing: a plain one is a device "
    "function, too",
    "mapped_array": "(…, mapped=True), and kd.mapped_view of it",
    "pinned": ", which copies into pinned memory",
    "to_device_async": "(…, stream=stream)",
}

#: NumPy's functions that the library has, with an array as the first argument; and those without.
_OF_LIBRARY = (
    "all any argmax argmin argsort bincount clip concatenate cumprod cumsum dot flip histogram "
    "matmul max mean min nonzero pad prod put_along_axis repeat roll searchsorted sort stack std "
    "sum take take_along_axis transpose unique var"
)
_MAKING = "arange eye linspace meshgrid"
#: Replacements for methods of other arrays: NumPy's, numba.cuda's, CuPy's and torch's.
_OF_ARRAYS = {
    "copy_to_device": "array[:] = values, or array.copy_from_host(values)",
    **dict.fromkeys(("get", "numpy"), "array.copy_to_host()"),
    "flatten": "array.copy().reshape(-1)",
    "ravel": "array.reshape(-1)",
}
#: Least similarity of a name, from 0 to 1; 0.62 of "arange" is in "targets".
_SIMILAR = 0.65

#: Options of numba.cuda's decorators that a misspelling of kerneldsl is not.
_OPTIONS = {
    "device": "Write @kd.func above a function that kernels call, or nothing: a plain one is a "
    "device function, too",
}
#: Remedy for an array of tiles in shared memory, and for a copy into it.
_NO_COPY = (
    "A variable holds a tile, t = kd.tile.load(…); for threads that read elements of it, store it "
    "to a shared array: s = kd.shared.array(…), kd.tile.store(s, 0, t), kd.syncthreads()"
)

_IN_KERNEL = {
    "to_device": "Copy to the device outside the kernel, with kd.to_device",
    "device_array": "Use kd.local.array or kd.shared.array inside a kernel",
    "cg": "Of cooperative groups there is that of the grid: kd.grid_group().sync(), or "
    "cuda.cg.this_grid().sync()",
    "fp16": "Operators and the functions of math take float16: kd.float16(value) makes one, arrays "
    "hold them, and a NumPy or kd.float16 array is passed as it is",
    "shared.tile": _NO_COPY,
    "tile.copy": _NO_COPY,
    "random": "Use kd.random, which has numba.cuda's generators, and others by seed and index",
}


def closest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the public name that is spelled most like another, or ``None``.

    Examples
    --------
    >>> closest_name("gird", ["grid", "gridsize", "empty"])
    'grid'
    """
    from difflib import get_close_matches

    public = [n for n in names if not n.startswith("_")]
    found = get_close_matches(name, public, n=1, cutoff=_SIMILAR)
    return found[0] if found else None


def host_remedy(name: str, names: Iterable[str]) -> str | None:
    """Say what to write on the host for a name that kerneldsl lacks; it has `names`.

    Examples
    --------
    >>> host_remedy("device_array", [])
    'Write kd.empty'
    """
    known = ON_HOST.get(name)
    if known is not None:
        return f"Write {known}{_HOST_NOTES.get(name, '')}"
    if name in _OF_LIBRARY.split():
        return f"Write stdlib_kernels.{name}"
    if name in _MAKING.split():
        return f"Write stdlib_kernels.array_api.{name}"
    near = None if name.startswith("_") else closest_name(name, names)
    return near and f"The closest name is kd.{near}"


def array_remedy(name: str) -> str | None:
    """Say what to write for a method that device arrays lack, if anything is known.

    Examples
    --------
    >>> array_remedy("argsort")
    'Write stdlib_kernels.argsort(array, …)'
    """
    known = _OF_ARRAYS.get(name)
    if known is None and name in _OF_LIBRARY.split():
        known = f"stdlib_kernels.{name}(array, …)"
    return known and f"Write {known}"


def option_remedy(name: str, options: Iterable[str]) -> str:
    """Say what to write for an option that a call does not have; it has `options`.

    Examples
    --------
    >>> option_remedy("blocks", ["block", "stream"])
    'Write block=…'
    """
    near = closest_name(name, options)
    return _OPTIONS.get(name) or (f"Write {near}=…" if near else "Leave it out")


def kernel_remedy(name: str) -> str | None:
    """Say what to write in a kernel for a name of numba.cuda's or CUDA's, if anything is known."""
    first = name.partition(".")[0]
    known = _IN_KERNEL.get(name) or _IN_KERNEL.get(first)
    if known is None and _VECTOR_TYPE.fullmatch(first):
        return "Use kd.float32x4 or another vector of two or four numbers, or a tuple of numbers"
    return known


#: Words of CUDA C++ for element types.
WORDS_OF_C = {
    **{"char": "int8", "short": "int16", "int": "int32", "long": "int64", "longlong": "int64"},
    **{"uchar": "uint8", "ushort": "uint16", "uint": "uint32", "ulong": "uint64"},
    **{"ulonglong": "uint64", "float": "float32", "double": "float64"},
}
#: Vectors that are values of kernels alone: element type and count.
VALUE_VECTORS = {
    f"{dtype}x{count}": (dtype, count)
    for dtype in dict.fromkeys(WORDS_OF_C.values())
    for count in (1, 3, 4)
    if count < 4 or dtype.endswith("64")
}


def words_for_vectors(counts: tuple[int, ...], known: Collection[str]) -> dict[str, str]:
    """Return the names that CUDA C++ has for vectors, to those of kerneldsl."""
    return {
        f"{word}{count}": f"{dtype}x{count}"
        for word, dtype in WORDS_OF_C.items()
        for count in counts
        if f"{dtype}x{count}" in known
    }


#: Vector types by their names in CUDA C++.
VALUE_ALIASES = words_for_vectors((1, 3, 4), VALUE_VECTORS)
