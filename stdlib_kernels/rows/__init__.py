"""Functions of rows: along an axis, each element by what its row comes to; and their gradients."""

from stdlib_kernels.rows.backward import (
    layer_norm_backward,
    log_softmax_backward,
    rms_norm_backward,
    softmax_backward,
)
from stdlib_kernels.rows.cross_entropy import cross_entropy, cross_entropy_backward
from stdlib_kernels.rows.exponentials import log_softmax, softmax
from stdlib_kernels.rows.normalization import layer_norm, rms_norm

__all__ = [
    "cross_entropy",
    "cross_entropy_backward",
    "layer_norm",
    "layer_norm_backward",
    "log_softmax",
    "log_softmax_backward",
    "rms_norm",
    "rms_norm_backward",
    "softmax",
    "softmax_backward",
]
