"""Names of Numba in programs of numba.cuda: signatures, dtypes, files of a cache, warnings."""

from __future__ import annotations

from numba.core.caching import CacheImpl, IndexDataCacheFile
from numba.core.errors import NumbaPerformanceWarning
from numba.core.sigutils import is_signature, normalize_signature
from numba.np.numpy_support import as_dtype, from_dtype

__all__ = [
    "CacheImpl",
    "IndexDataCacheFile",
    "NumbaPerformanceWarning",
    "as_dtype",
    "from_dtype",
    "is_signature",
    "normalize_signature",
]
