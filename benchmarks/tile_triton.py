"""Triton's side of ``tiles.py``: kernels built as its tutorials build them, and their launches.

References
----------
Triton's tutorials "Fused Softmax" and "Layer Normalization": a program walks over rows with its
loads pipelined, as many programs as fit the device; a program reads its row three times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

__all__ = ["cumulative_sum", "layer_norm", "segment_sort", "softmax", "ternary_product"]


@triton.jit
def _softmax(out, x, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    first, step = tl.program_id(0), tl.num_programs(0)
    for row in tl.range(first, rows, step, num_stages=STAGES):
        at = tl.arange(0, BLOCK)
        inside = at < columns
        v = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(out + row * columns + at, e / tl.sum(e, axis=0), mask=inside)


def softmax(x: Any, out: Any, warps: int) -> Callable[[], Any]:
    """Return a launch of the softmax of rows, with as many programs as the device holds."""
    rows, columns = x.shape
    limits = triton.runtime.driver.active.utils.get_device_properties(x.device.index or 0)
    block = triton.next_power_of_2(columns)
    for stages in (4, 2, 1):  # the tutorial's four, where shared memory has room for them
        compiled = _softmax.warmup(
            out, x, rows, columns, BLOCK=block, STAGES=stages, num_warps=warps, grid=(1,)
        )
        if compiled.metadata.shared <= limits["max_shared_mem"]:
            break
    compiled._init_handles()
    fit = limits["max_num_regs"] // (compiled.n_regs * warps * 32)
    fit = min(fit, limits["max_shared_mem"] // max(1, compiled.metadata.shared))
    programs = min(rows, limits["multiprocessor_count"] * max(1, fit))
    options = {"BLOCK": block, "STAGES": stages, "num_warps": warps}
    return lambda: _softmax[(programs,)](out, x, rows, columns, **options)


@triton.jit
def _layer_norm(x, out, weight, bias, means, scales, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * columns
    out += row * columns
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < columns, other=0.0)
    mean = tl.sum(total, axis=0) / columns
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < columns, other=0.0)
        d = tl.where(at < columns, v - mean, 0.0)
        total += d * d
    scale = 1 / tl.sqrt(tl.sum(total, axis=0) / columns + eps)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        w = tl.load(weight + at, mask=inside)
        b = tl.load(bias + at, mask=inside)
        v = tl.load(x + at, mask=inside, other=0.0)
        tl.store(out + at, (v - mean) * scale * w + b, mask=inside)


def layer_norm(
    x: Any, weight: Any, bias: Any, out: Any, eps: float, warps: int
) -> Callable[[], Any]:
    """Return a launch of the normalization of rows; a program takes up to 64 KB at a time."""
    rows, columns = x.shape
    block = min(65536 // x.element_size(), triton.next_power_of_2(columns))
    means, scales = (torch.empty(rows, device=x.device) for _ in range(2))
    return lambda: _layer_norm[(rows,)](
        x, out, weight, bias, means, scales, columns, eps, BLOCK=block, num_warps=warps
    )


@triton.jit
def _part_sums(x, sums, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    v = tl.load(x + part.to(tl.int64) * BLOCK + tl.arange(0, BLOCK))
    tl.store(sums + part, tl.sum(v, axis=0))


@triton.jit
def _part_scans(x, before, out, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    at = part.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    start = tl.load(before + part)
    tl.store(out + at, tl.cumsum(tl.load(x + at), axis=0) + start)


def cumulative_sum(x: Any, out: Any, block: int, warps: int) -> Callable[[], Any]:
    """Return launches that scan in two passes: sums of parts, then ``tl.cumsum`` of each part."""
    parts = x.numel() // block
    sums = torch.empty(parts, device=x.device)

    def run() -> None:
        _part_sums[(parts,)](x, sums, BLOCK=block, num_warps=warps)
        before = torch.cumsum(sums, 0) - sums
        _part_scans[(parts,)](x, before, out, BLOCK=block, num_warps=warps)

    return run


@triton.jit
def _segment_sort(x, out, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    tl.store(out + at, tl.sort(tl.load(x + at)))


def segment_sort(x: Any, out: Any, warps: int) -> Callable[[], Any]:
    """Return a launch that sorts each row by ``tl.sort``."""
    rows, width = x.shape
    return lambda: _segment_sort[(rows,)](x, out, WIDTH=width, num_warps=warps)


@triton.jit
def _ternary(w, a, y, scale, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros([ROWS, BLOCK], dtype=tl.int32)
    for start in range(0, columns // 4, BLOCK):
        at = start + tl.arange(0, BLOCK)
        codes = tl.load(w + rows[:, None] * (columns // 4) + at[None, :]).to(tl.int32)
        for g in tl.static_range(4):
            numbers = tl.load(a + g * (columns // 4) + at).to(tl.int32)
            total += ((codes >> (2 * g) & 3) - 1) * numbers[None, :]
    tl.store(y + rows, scale * tl.sum(total, axis=1).to(tl.float32))


def ternary_product(
    w: Any, a: Any, y: Any, scale: float, columns: int, rows: int, block: int, warps: int
) -> Any:
    """Launch the product of ternary weights, four in a byte, with int8 numbers.

    `w` is uint8 (rows, columns / 4); bits ``2 * g`` and above of byte `j` are the weight of column
    ``g * columns / 4 + j``.
    """
    grid = (w.shape[0] // rows,)
    return _ternary[grid](w, a, y, scale, columns, ROWS=rows, BLOCK=block, num_warps=warps)
