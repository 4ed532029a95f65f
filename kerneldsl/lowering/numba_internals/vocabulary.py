"""Signatures and dtypes of Numba's types, as programs of numba.cuda write them."""

from __future__ import annotations

from numba.core.sigutils import is_signature, normalize_signature
from numba.np.numpy_support import as_dtype

__all__ = ["as_dtype", "is_signature", "normalize_signature"]
