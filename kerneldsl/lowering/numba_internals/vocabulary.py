"""Names of Numba in programs of numba.cuda: signatures, dtypes, files of a cache, warnings."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from numba.core import types, typing
from numba.core.bytecode import ByteCode, FunctionIdentity
from numba.core.byteflow import AdaptCFA, Flow
from numba.core.caching import CacheImpl, IndexDataCacheFile
from numba.core.errors import NumbaPerformanceWarning
from numba.core.imputils import builtin_registry as lowering_registry
from numba.core.sigutils import is_signature, normalize_signature
from numba.core.typing.templates import builtin_registry as typing_registry
from numba.np.numpy_support import as_dtype, from_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "CacheFiles",
    "CacheImpl",
    "NumbaPerformanceWarning",
    "as_dtype",
    "bytecode_of",
    "check_overloads",
    "from_dtype",
    "is_signature",
    "jumps_of",
    "lowering_registry",
    "normalize_signature",
    "typing_registry",
]


class CacheFiles(IndexDataCacheFile):
    """The files of a cache, with what the index refers to."""

    def keys(self) -> list[Any]:
        """Return the keys of all entries."""
        return list(self._load_index())

    def forget(self, is_old: Callable[[Any], bool]) -> None:
        """Remove entries from the index."""
        index = self._load_index()
        self._save_index({key: name for key, name in index.items() if not is_old(key)})


def bytecode_of(function: Callable[..., Any]) -> Any:
    """Return the bytecode of a function as Numba reads it."""
    return ByteCode(FunctionIdentity.from_function(function))


def jumps_of(function: Callable[..., Any]) -> Any:
    """Return the graph of the jumps in the bytecode of a function."""
    flow = Flow(bytecode_of(function))
    flow.run()
    return AdaptCFA(flow)


def check_overloads(
    function: Callable[..., Any], cases: Iterable[tuple[Any, ...]], given: tuple[Any, ...]
) -> None:
    """Raise ``TypeError`` if two signatures take arguments of some types equally well."""
    signatures = [types.void(*each) for each in cases]
    _context().resolve_overload(function, signatures, given, {}, allow_ambiguous=False)


@cache
def _context() -> typing.Context:
    return typing.Context()
