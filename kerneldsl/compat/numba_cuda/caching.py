"""``cache=True``: compiled code beside the source, where Numba has it.

The files are Numba's: an index, and one with the code of each specialization. A file has the entry
of kerneldsl's own cache, which checks it as it checks its own. So code is never older than what it
was compiled from. Numba's files are unpickled, so that a folder that others can write is not used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kerneldsl.cache.disk import disk_cache
from kerneldsl.cache.folders import is_foreign, is_open_to_others
from kerneldsl.cache.key import Key
from kerneldsl.compat.numba_cuda.typing import argument_types
from kerneldsl.language.kinds import Kind
from kerneldsl.lowering.numba_internals.vocabulary import CacheImpl, IndexDataCacheFile

__all__ = ["FilesBeside"]


class _Place(CacheImpl):  # type: ignore[misc]
    """Finds the folder and the names of the files."""

    def reduce(self, data: Any) -> Any:
        return data

    def rebuild(self, target_context: Any, reduced_data: Any) -> Any:
        return reduced_data

    def check_cachable(self, data: Any) -> bool:
        return True


class FilesBeside:
    """The files of one function.

    Parameters
    ----------
    function : function
        The Python function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._locator = (place := _Place(function)).locator
        self.path: str = self._locator.get_cache_path()
        stamp = self._locator.get_source_stamp()
        self._files = IndexDataCacheFile(self.path, place.filename_base, stamp)
        #: Numbers of cache hits and misses, by the types of the parameters.
        self.hits: Counter[Any] = Counter()
        self.misses: Counter[Any] = Counter()

    def bring(self, key: Key, kinds: tuple[Kind, ...]) -> bool:
        """Put the code of a key into the cache, if it is here; return whether it is."""
        sections = self._files.load(key.digest) if self._is_own() else None
        if sections is None:
            self.misses[argument_types(kinds)] += 1
            return False
        self.hits[argument_types(kinds)] += 1
        if disk_cache().look_up(key) is None:
            disk_cache().keep(key, sections)
        return True

    def keep(self, key: Key) -> None:
        """Write the code of a key, which has just been put into the cache."""
        found = disk_cache().look_up(key)
        if found is not None:
            self._locator.ensure_cache_path()
            if self._is_own():
                self._files.save(key.digest, dict(found.entry.sections))

    def _is_own(self) -> bool:
        """Return whether the folder is there, and this user alone can write to it."""
        folder = Path(self.path)
        if not folder.is_dir():
            return False
        status = folder.stat()
        return not is_foreign(status, is_site=False) and not is_open_to_others(status)
