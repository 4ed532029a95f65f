"""Attention and its gradients by NumPy, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["gradients", "weights_of"]


def weights_of(
    q: Any,
    k: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    lengths: Any = None,
    query_lengths: Any = None,
) -> tuple[Any, Any]:
    """Return weights (batch, heads, queries, keys), and logarithms of sums of exponentials."""
    q, k = q.astype(np.float64), k.astype(np.float64)
    (count, heads, queries, width), (_, shared, keys, _) = q.shape, k.shape
    every = np.broadcast_to
    known = every(keys if lengths is None else lengths, count)[:, None, None, None]
    asked = every(queries if query_lengths is None else query_lengths, count)[:, None, None, None]
    i, j = np.arange(queries)[:, None], np.arange(keys)
    is_seen = (j < known) & (i < asked)
    if causal:
        last = i + known - asked
        is_seen = (
            is_seen & (j <= last) & (j > last - (keys + queries if window is None else window))
        )
    scores = q @ k.repeat(heads // shared, axis=1).swapaxes(2, 3)
    scores = np.where(is_seen, scores * (1 / np.sqrt(width) if scale is None else scale), -np.inf)
    top = np.maximum(scores.max(axis=3, keepdims=True, initial=-np.inf), -1e300)
    parts = np.exp(scores - top)
    total = parts.sum(axis=3, keepdims=True)
    with np.errstate(divide="ignore"):
        logs = (top + np.log(total))[..., 0]
    return parts / np.where(total == 0, 1, total), logs


def gradients(grad: Any, q: Any, k: Any, v: Any, **options: Any) -> tuple[Any, Any, Any]:
    """Return the gradients with respect to queries, keys and values."""
    p, _ = weights_of(q, k, **options)
    grad, q, k, v = (each.astype(np.float64) for each in (grad, q, k, v))
    (count, heads, _, width), shared = q.shape, k.shape[1]
    scale = options.get("scale")
    scale = 1 / np.sqrt(width) if scale is None else scale
    group = heads // shared
    slope = grad @ v.repeat(group, axis=1).swapaxes(2, 3)
    inner = p * (slope - (p * slope).sum(axis=3, keepdims=True)) * scale

    def of_groups(each: Any) -> Any:
        return each.reshape(count, shared, group, *each.shape[2:]).sum(axis=2)

    of_queries = inner @ k.repeat(group, axis=1)
    return of_queries, of_groups(inner.swapaxes(2, 3) @ q), of_groups(p.swapaxes(2, 3) @ grad)
