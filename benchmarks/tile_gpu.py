"""The cases of ``tiles.py`` on a CUDA device, against torch, torch.compile and Triton."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tile_kernels as ours
import tile_triton
import torch
from contest import Bound, Case, Prepared

import kerneldsl as kd

__all__ = ["cases"]

WIDTHS = (1024, 2048, 4096, 8192, 16384, 32768)
_ELEMENTS = 1 << 27
_SEGMENT = 4096
_EPS = 1e-5

_BOUNDS = (Bound("best peer", 1.0), Bound("copy", 0.9))


def cases(blocks: tuple[int, ...] = ()) -> Iterator[Case]:
    """Return the cases; `blocks` are tried beside the one that the kernels' file names."""
    for width in WIDTHS:
        yield Case(f"softmax {width}", lambda w=width: _softmax(w, blocks), _BOUNDS)
    for width in WIDTHS:
        yield Case(f"layer norm {width}", lambda w=width: _layer_norm(w, blocks), _BOUNDS)
    yield Case("cumulative sum 2^28", lambda: _cumulative_sum(1 << 28, blocks), _BOUNDS)
    for dtype in (torch.float32, torch.int32):
        name = f"sort of 4096 {str(dtype).removeprefix('torch.')}"
        yield Case(name, lambda d=dtype: _segment_sort(1 << 26, d, blocks), _BOUNDS)
    for rows, columns in ((4096, 4096), (16384, 8192)):
        yield Case(f"ternary {rows} x {columns}", lambda r=rows, c=columns: _ternary(r, c), _BOUNDS)


def _compiled(function: Callable[..., Any]) -> Any:
    """Return a function that torch has compiled for the shapes it is called with first."""
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)


def _error_to(reference: Any) -> Callable[[Any], float]:
    scale = float(reference.abs().max())

    def error(result: Any) -> float:
        return float((result.double() - reference).abs_().max()) / scale

    return error


def _poisoned(like: Any, names: list[str]) -> dict[str, Any]:
    return {name: torch.full_like(like, float("nan")) for name in names}


def _blocks(best: int, width: int, blocks: tuple[int, ...]) -> dict[str, int]:
    """Return names of our launches with their blocks."""
    others = [b for b in blocks if b != best and 4 <= width // b <= 128]
    return {"ours": best, **{f"ours, block {block}": block for block in others}}


def _softmax(width: int, blocks: tuple[int, ...]) -> Prepared:
    rows = _ELEMENTS // width
    x = torch.randn(rows, width, device="cuda")
    mine = _blocks(ours.SOFTMAX_BLOCKS[width], width, blocks)
    out = _poisoned(x, [*mine, "torch", "Triton", "Triton, 16 warps"])
    compiled = _compiled(lambda x: torch.softmax(x, 1))
    launches: dict[str, Callable[[], Any]] = {}
    for name, block in mine.items():
        arrays = [kd.as_array(each) for each in (x, out[name])]
        launch = ours.softmax.member(width=width)[rows, block]
        launches[name] = lambda launch=launch, arrays=arrays: launch(*arrays)
    launches |= {
        "torch": lambda: torch.softmax(x, 1, out=out["torch"]),
        "torch.compile": lambda: compiled(x),
        "Triton": tile_triton.softmax(x, out["Triton"], 8),
        "Triton, 16 warps": tile_triton.softmax(x, out["Triton, 16 warps"], 16),
    }
    error = _error_to(torch.softmax(x.double(), 1))
    return Prepared(launches, out, error, 2e-6, 2 * x.nbytes)


def _layer_norm(width: int, blocks: tuple[int, ...]) -> Prepared:
    rows = _ELEMENTS // width
    x = torch.randn(rows, width, device="cuda") * 2 + 1
    weight, bias = (torch.randn(width, device="cuda") for _ in range(2))
    best, early = ours.NORM_BLOCKS[width]
    mine = _blocks(best, width, blocks)
    out = _poisoned(x, [*mine, "Triton"])

    def of_torch(x: Any, weight: Any, bias: Any) -> Any:
        return torch.nn.functional.layer_norm(x, (width,), weight, bias, _EPS)

    compiled = _compiled(of_torch)
    launches: dict[str, Callable[[], Any]] = {}
    for name, block in mine.items():
        arrays = [kd.as_array(each) for each in (x, weight, bias, out[name])]
        launch = ours.layer_norm.member(width=width, early=early)[rows, block]
        launches[name] = lambda launch=launch, a=arrays: launch(*a, np.float32(_EPS))
    launches |= {
        "torch": lambda: of_torch(x, weight, bias),
        "torch.compile": lambda: compiled(x, weight, bias),
        "Triton": tile_triton.layer_norm(
            x, weight, bias, out["Triton"], _EPS, min(max(width // 256, 1), 8)
        ),
    }
    error = _error_to(of_torch(x.double(), weight.double(), bias.double()))
    return Prepared(launches, out, error, 4e-6, 2 * x.nbytes)


def _cumulative_sum(n: int, blocks: tuple[int, ...]) -> Prepared:
    x = torch.randn(n, device="cuda")
    block, part = ours.SCAN_BLOCK
    mine = {"ours": (block, part)}
    mine |= {
        f"ours, block {b} part {p}": (b, p)
        for b in blocks
        for p in (16 * b, 32 * b, 64 * b)
        if (b, p) != (block, part) and b <= block
    }
    out = _poisoned(x, [*mine, "torch", "Triton, two passes"])
    compiled = _compiled(lambda x: torch.cumsum(x, 0))
    launches: dict[str, Callable[[], Any]] = {}
    for name, (block, part) in mine.items():
        arrays = [kd.as_array(each) for each in (x, out[name])]
        state = kd.zeros(6 * (n // part), np.uint64)
        launch = ours.cumulative_sum.member(part=part)[n // part, block]
        launches[name] = lambda launch=launch, a=arrays, s=state: launch(*a, s)
    launches |= {
        "torch": lambda: torch.cumsum(x, 0, out=out["torch"]),
        "torch.compile": lambda: compiled(x),
        "Triton, two passes": tile_triton.cumulative_sum(x, out["Triton, two passes"], 4096, 8),
    }
    return Prepared(launches, out, _error_to(torch.cumsum(x.double(), 0)), 1e-4, 2 * x.nbytes)


def _segment_sort(n: int, dtype: Any, blocks: tuple[int, ...]) -> Prepared:
    x = torch.randn(n // _SEGMENT, _SEGMENT, device="cuda")
    if dtype is torch.int32:
        x = (x * (1 << 29)).to(dtype)
    mine = {"ours": ours.SORT_BLOCK}
    mine |= {f"ours, block {block}": block for block in blocks if block != ours.SORT_BLOCK}
    out = {name: torch.full_like(x, -1) for name in (*mine, "Triton", "Triton, 16 warps")}
    compiled = _compiled(lambda x: torch.sort(x, 1)[0])
    launches: dict[str, Callable[[], Any]] = {}
    for name, block in mine.items():
        arrays = [kd.as_array(each) for each in (x, out[name])]
        launch = ours.segment_sort.member(width=_SEGMENT)[len(x), block]
        launches[name] = lambda launch=launch, a=arrays: launch(*a)
    launches |= {
        "torch": lambda: torch.sort(x, 1)[0],
        "torch.compile": lambda: compiled(x),
        "Triton": tile_triton.segment_sort(x, out["Triton"], 8),
        "Triton, 16 warps": tile_triton.segment_sort(x, out["Triton, 16 warps"], 16),
    }
    return Prepared(launches, out, _error_to(torch.sort(x, 1)[0].double()), 0.0, 0)


def _ternary(rows: int, columns: int) -> Prepared:
    # As many copies of the weights as the second-level cache cannot hold, used in turn.
    copies = 1 + (1 << 28) // (rows * columns // 4)
    dense = torch.randint(-1, 2, (rows, columns), device="cuda", dtype=torch.int8)
    a = torch.randint(-127, 128, (columns,), device="cuda", dtype=torch.int8)
    scale = 0.25
    codes = (dense + 1).view(torch.uint8)
    by_word = codes.reshape(rows, 4, columns // 16, 4)  # g, word, byte
    shifts = torch.tensor([0, 2, 4, 6], device="cuda", dtype=torch.uint8)
    packed = (by_word << shifts[:, None, None]).sum(1, dtype=torch.uint8)
    words = packed.reshape(rows, columns // 4).view(torch.int32).repeat(copies, 1, 1)
    strided = (codes.reshape(rows, 4, columns // 4) << shifts[:, None]).sum(1, dtype=torch.uint8)
    bytes_ = strided.repeat(copies, 1, 1)
    a_sum = np.int32(int(a.long().sum()))
    out = _poisoned(torch.empty(rows, device="cuda"), ["ours", "Triton"])
    mine = [
        kd.as_array(each)
        for each in (words.view(torch.uint32), a.view(torch.int32).view(4, -1), out["ours"])
    ]
    weights = [mine[0][i] for i in range(copies)]
    turn = itertools.cycle(range(copies))
    together, block = ours.TERNARY_BLOCKS[rows]
    member = ours.ternary_product.member(words=columns // 16, rows=together)
    launch = member[rows // together * 32 // block, block]
    half, half_a = dense.half().repeat(min(copies, 4), 1, 1), a.half()
    many = torch.zeros(32, columns, device="cuda", dtype=torch.int8)
    many[0] = a
    wide = dense.repeat(min(copies, 4), 1, 1)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: launch(weights[next(turn)], mine[1], a_sum, np.float32(scale), mine[2]),
        "torch, float16": lambda: (half[next(turn) % len(half)] @ half_a).float() * scale,
        "torch, int8 as a matrix": lambda: (
            torch._int_mm(many, wide[next(turn) % len(wide)].T)[0].float() * scale
        ),
        "Triton": lambda: tile_triton.ternary_product(
            bytes_[next(turn)], a, out["Triton"], scale, columns, 4, 1024, 4
        ),
    }
    error = _error_to((dense.double() @ a.double()) * scale)
    return Prepared(launches, out, error, 2e-3, words[0].nbytes + 4 * rows, count=20)
