"""Reference results of the demo's stages, by NumPy and SciPy, in float64 and in integers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from kerneldsl_demo.pictures import missing_extra

__all__ = ["equalized", "reference"]

_Array: TypeAlias = np.ndarray[Any, Any]


def equalized(grey: _Array, counts: _Array) -> _Array:
    """Equalize by a table: rounded half up, in integers."""
    cumulative = np.cumsum(counts)
    darkest = cumulative[np.flatnonzero(counts)[0]]
    rest = grey.size - darkest
    if rest == 0:
        return grey
    table = (np.maximum(cumulative - darkest, 0) * 255 * 2 + rest) // (2 * rest)
    return np.asarray(table.astype(np.uint8)[grey])


def reference(image: _Array, sigma: float) -> dict[str, _Array]:
    """Return the result of every stage by its name: of ``uint8[h, w, 3]``, with a blur by sigma."""
    try:
        from scipy import ndimage
    except ImportError as error:
        raise missing_extra(error) from error
    red, green, blue = (image[..., c].astype(np.int64) for c in range(3))
    grey = ((299 * red + 587 * green + 114 * blue + 500) // 1000).astype(np.uint8)
    blurred = ndimage.gaussian_filter(grey.astype(np.float64), sigma)
    edges = np.hypot(ndimage.sobel(blurred, axis=0), ndimage.sobel(blurred, axis=1))
    counts = np.bincount(grey.ravel(), minlength=256)
    return {
        "grey": grey,
        "blur": blurred,
        "edges": edges,
        "histogram": counts,
        "equalize": equalized(grey, counts),
    }
