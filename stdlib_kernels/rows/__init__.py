"""Functions of rows: each row of an array, along one axis, becomes a row of the same length."""

from __future__ import annotations

from stdlib_kernels.rows.exponentials import log_softmax, softmax
from stdlib_kernels.rows.normalization import layer_norm, rms_norm

__all__ = ["layer_norm", "log_softmax", "rms_norm", "softmax"]
