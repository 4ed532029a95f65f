"""Matrix products and attention on a GPU against cuBLAS and cuDNN, in one run.

On a GPU, with nothing else on it::

    python benchmarks/products.py --json benchmarks/results/products-h200.json

The kernels are those of ``docs/matrix-products.md``. Every result is compared with one in float64.
Contenders take turns, so that they share the clock, which a full load lowers. "ours" is the first
choice of the planner, which must be near the best member of the space, and in a case of a tuned
product the choice after ``tune("2s")``. Members are named by the extents of their tiles along m, n
and k, and by their threads. First launches are measured in new processes, with an empty cache and
with the code in it. ``--only`` runs some of the cases.
"""

# ruff: noqa: E402 -- the benchmark's own folder comes first
from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "benchmarks")]

import numpy as np
import torch
from contest import Bound, Case, Mean, Prepared, make_parser, report
from product_kernels import (
    attention,
    batched,
    fused,
    grouped,
    product,
    product_fast,
    product_int,
    product_tf32,
    product_tuned,
)
from torch.nn.attention import SDPBackend, sdpa_kernel

import kerneldsl as kd
import stdlib_kernels as sk
from stdlib_kernels.linalg import matmul

#: Extents of tiles along m and n, and threads, of members that are tried, too. Along k they have
#: 128 bytes. The first ones are tried of every dtype.
MEMBERS = (
    (128, 256, 256),
    (128, 128, 256),
    (128, 192, 256),
    (256, 128, 256),
    (128, 96, 256),
    (128, 64, 256),
    (64, 256, 128),
    (64, 128, 128),
    (64, 64, 128),
)
_OF_EVERY_DTYPE = 2
#: Fewest rows of a tile by warpgroups.
_FEWEST = 64
_ROW_BYTES = 128
#: (m, n, k), and the least ratio to cuBLAS.
SQUARES = {1024: 0.90, 2048: 1.00, 4096: 0.98, 8192: 1.00}
#: Layers of Llama 3 8B and 70B: (n, k).
LAYERS = ((6144, 4096), (28672, 4096), (4096, 14336), (10240, 8192), (8192, 28672))
ROWS = (256, 1024, 4096)
#: Rows of few, by a square matrix.
FEW = (1, 64)
_WIDE = 8192
SHORT = ((8192, 8192, 256), (8192, 8192, 512))
#: Products that are tuned, and for how long.
TUNED = ((1024, 1024, 1024), (8192, 8192, 8192), (8192, 8192, 256), (1024, 10240, 8192))
BUDGET = "2s"
#: Bounds of first launches in seconds: with an empty cache, and with the code in it.
FIRST = {"cold": 1.5, "cached": 0.02}
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
_FIRST_LAUNCH = """
import time
import numpy as np
import kerneldsl as kd
from product_kernels import product

with kd.use("cuda:0"):
    a, b, c = (kd.to_device(np.zeros((512, 512), np.float16)) for _ in range(3))
    kd.synchronize()
    started = time.perf_counter()
    product.forall(512, 512)(a, b, c)
    kd.synchronize()
print(time.perf_counter() - started)
"""
#: Geometric means over the products of matrices with at least 256 rows, except the deepest one.
MEANS = (
    Mean("float16 | bfloat16", "cuBLAS", 1.00, but=("bfloat16 1 x", "bfloat16 64 x", "65536")),
    Mean("float16 | bfloat16", "tile", 0.93),
    Mean("tuned", "tile", 0.99),
)
DEEP = (512, 512, 65536)
#: Shapes for the library, which computes the few tiles of most of them in parts.
OF_LIBRARY = (DEEP, *((rows, _WIDE, _WIDE) for rows in FEW), (256, 4096, 14336), (256, 8192, 28672))
#: Groups with up to ten times as many rows as others, and columns and depth of their products.
_GROUPS, _GROUP_ROWS, _GROUP_SIDE = 64, (200, 2000), 2048
_HALF = 0.6
#: Matrices of a stack, and their extents.
STACK = (64, 1024, 1024, 1024)
_HEADS, _TOKENS = 32, 8192
#: Seconds that the launches of a sample take together, about.
_SAMPLE_S = 4e-3


def cases() -> Iterator[Case]:
    """Return the cases."""
    for size, bound in SQUARES.items():
        yield _product(torch.bfloat16, (size, size, size), bound)
    for size in (4096, 8192):
        yield _product(torch.float16, (size, size, size), SQUARES[size])
    yield _product(torch.float32, (4096, 4096, 4096), 0.93)
    yield _product(torch.int8, (8192, 8192, 8192), 0.95)
    yield _product(torch.float8_e4m3fn, (8192, 8192, 8192), 0.95)
    yield Case("fused 8192", lambda: _fused(8192), (Bound("plain", 0.97),))
    for rows in FEW:
        yield _product(torch.bfloat16, (rows, _WIDE, _WIDE), 1.0)
    for shape in SHORT:
        yield _product(torch.bfloat16, shape, 0.90)
    yield _product(torch.bfloat16, DEEP, 0.95)
    for shape in OF_LIBRARY:
        name = f"library {' x '.join(map(str, shape))}"
        yield Case(name, lambda s=shape: _of_library(s), (Bound("cuBLAS", 0.95),))
    for rows in ROWS:
        for n, k in LAYERS:
            yield _product(torch.bfloat16, (rows, n, k), 0.90)
    for shape in TUNED:
        name = f"tuned {' x '.join(map(str, shape))}"
        yield Case(name, lambda s=shape: _tuned(s), (Bound("tile", 0.99),))
    for state in FIRST:
        name = f"first launch, {state}"
        yield Case(name, lambda s=state: _first(s), (Bound("limit", 1.0),))
    yield Case(f"grouped {_GROUPS}", _grouped, (Bound("one product", 0.90),))
    yield Case("batched {} of {} x {} x {}".format(*STACK), _batched, (Bound("cuBLAS", 0.90),))
    for width, is_causal, bound in ((128, False, 0.89), (128, True, 0.85), (64, False, 0.86)):
        name = f"attention d {width}{' causal' if is_causal else ''}"
        yield Case(name, lambda d=width, c=is_causal: _attention(d, c), (Bound("cuDNN", bound),))


def _product(dtype: torch.dtype, shape: tuple[int, int, int], bound: float) -> Case:
    name = f"{str(dtype).removeprefix('torch.')} {' x '.join(map(str, shape))}"
    bounds = (Bound("cuBLAS", bound), Bound("tile", 0.93))
    return Case(name, lambda: _prepared(dtype, shape), bounds)


def _tuned(shape: tuple[int, int, int]) -> Prepared:
    """Return a product by the member that a tuner finds, and by all others."""
    m, n, k = shape
    a, b = _random((m, k), torch.bfloat16), _random((n, k), torch.bfloat16)
    c = torch.empty((m, n), dtype=torch.bfloat16, device="cuda")
    product_tuned.forall(m, n).tune(a, b, c, budget=BUDGET, progress=False)
    return _prepared(torch.bfloat16, shape, product_tuned)


def _first(state: str) -> Prepared:
    """Return the time of first launches, each in a new process."""

    def in_turns(contenders: Any, rounds: int, count: int) -> dict[str, list[float]]:
        with tempfile.TemporaryDirectory() as folder:
            found = [_first_launch(folder if state == "cached" else None) for _ in range(4)]
        return {"ours": found[1:], "limit": [FIRST[state]]}

    contenders = {"ours": lambda: 0.0, "limit": lambda: 0.0}
    return Prepared(contenders, {}, lambda result: result, 0.0, 0, 1, in_turns)


def _first_launch(folder: str | None) -> float:
    """Return seconds of a first launch, with the cache in a folder, or an empty one."""
    with tempfile.TemporaryDirectory() as empty:
        paths = os.pathsep.join([str(_ROOT), str(_ROOT / "benchmarks")])
        others = {"KERNELDSL_CACHE_DIR": folder or empty, "PYTHONPATH": paths}
        # An installed package has bytecode, so the first process may write it.
        kept = {name: each for name, each in os.environ.items() if name != _NO_BYTECODE}
        command = [sys.executable, "-c", _FIRST_LAUNCH]
        found = subprocess.run(
            command, env=kept | others, check=True, capture_output=True, text=True
        )
    return float(found.stdout)


def _prepared(dtype: torch.dtype, shape: tuple[int, int, int], kernel: Any = product) -> Prepared:
    m, n, k = shape
    a, b = _random((m, k), dtype), _random((n, k), dtype)
    made, tolerance = torch.bfloat16, 8e-3

    def peer() -> Any:
        return torch.matmul(a, b.T)

    if dtype is torch.float16:
        made = dtype
    elif dtype is torch.float32:
        torch.backends.cuda.matmul.allow_tf32 = True
        kernel, made, tolerance = product_tf32, dtype, 2e-3
    elif dtype is torch.int8:
        kernel, made, tolerance = product_int, torch.int32, 0.0

        def peer() -> Any:
            return torch._int_mm(a, b.T)

    elif dtype is torch.float8_e4m3fn:
        kernel = product_fast
        one = torch.ones((), device="cuda")
        tolerance = 2e-2

        def peer() -> Any:
            return torch._scaled_mm(
                a, b.T, scale_a=one, scale_b=one, out_dtype=made, use_fast_accum=True
            )

    reference = a.double() @ b.double().T
    contenders: dict[str, Callable[[], Any]] = {}
    out, is_all = {}, dtype is torch.bfloat16
    for label, launch in _launches(kernel, m, n, a.element_size(), is_all=is_all):
        out[label] = torch.empty((m, n), dtype=made, device="cuda")
        contenders[label] = lambda go=launch, c=out[label]: go(a, b, c)
    contenders["cuBLAS"] = peer
    count = max(1, min(50, int(_SAMPLE_S / (2 * m * n * k / 5e14 + 1e-6))))
    return Prepared(contenders, out, _error_to(reference), tolerance, 0, count)


def _of_library(shape: tuple[int, int, int]) -> Prepared:
    """Return products by `linalg.matmul`. Two runs must have equal bits."""
    m, n, k = shape
    a, b = _random((m, k), torch.bfloat16), _random((n, k), torch.bfloat16)
    error = _error_to(a.double() @ b.double().T)
    out = {"ours": torch.empty((m, n), dtype=torch.bfloat16, device="cuda")}
    one, two, target = (kd.as_array(each) for each in (a, b, out["ours"]))

    def ours() -> None:
        matmul(one, two.T, target)

    def theirs() -> Any:
        return torch.matmul(a, b.T)

    ours()
    before = out["ours"].clone()

    def off(result: Any) -> float:
        is_same = result is not out["ours"] or bool((result == before).all())
        return error(result) if is_same else math.inf

    count = max(1, min(20, int(_SAMPLE_S / (2 * m * n * k / 5e14))))
    return Prepared({"ours": ours, "cuBLAS": theirs}, out, off, 8e-3, 0, count)


def _blocks() -> int:
    return int(torch.cuda.get_device_properties(0).multi_processor_count)


def _grouped() -> Prepared:
    """Return products of groups of rows that follow each other, against one of all rows."""
    rows, side, tile = np.geomspace(*_GROUP_ROWS, _GROUPS).astype(int), _GROUP_SIDE, (128, 256)
    np.random.default_rng(1).shuffle(rows)
    ends = np.cumsum(rows)
    tiles = kd.to_device(_balanced(_tiles_of_groups(rows, side, tile)).astype(np.uint32))
    weights = _random((_GROUPS, side, side), torch.bfloat16)
    a = _random((int(ends[-1]), side), torch.bfloat16)
    out = {name: torch.empty_like(a) for name in ("ours", "one product")}
    bounds = enumerate(pairwise([0, *ends.tolist()]))
    reference = torch.cat([a[i:j].double() @ weights[g].double().T for g, (i, j) in bounds])
    error, plain = _error_to(reference), _error_to(a.double() @ weights[0].double().T)
    launch = grouped.member(BM=tile[0], BN=tile[1], BK=64)[_blocks(), 256]
    contenders = {
        "ours": lambda: launch(a, weights, tiles, out["ours"]),
        "one product": lambda: product.forall(*a.shape)(a, weights[0], out["one product"]),
    }

    def off(result: Any) -> float:
        return error(result) if result is out["ours"] else plain(result)

    return Prepared(contenders, out, off, 8e-3, 0, 4)


def _tiles_of_groups(rows: np.ndarray, width: int, tile: tuple[int, int]) -> np.ndarray:
    """Return the row, the column, the group and its end of each tile, in the order of groups.

    The last tile of a group ends with it, so that its rows, or those of one warpgroup, are whole.
    Rows that it shares with the tile before are computed twice, with equal bits.
    """
    counts, ends = -(-rows // tile[0]), np.cumsum(rows)
    found: list[tuple[int, int, int, int]] = []
    for group in _in_waves(counts, _blocks() * tile[1] / width):
        first, end = ends[group] - rows[group], ends[group]
        starts = [*range(first, end, tile[0])]
        if starts:
            least = -(-(end - starts[-1]) // _FEWEST) * _FEWEST
            starts[-1] = max(first, end - least)
        columns = range(0, width, tile[1])
        found += [(row, column, group, end) for column in columns for row in starts]
    return np.array(found)


def _balanced(tiles: np.ndarray) -> np.ndarray:
    """Order each wave so that the blocks with the most work so far get the tiles with few rows.

    A tile with rows of one warpgroup alone takes about `_HALF` of the time of another one.
    """
    found, work = np.empty_like(tiles), np.zeros(_blocks())
    costs = np.where(tiles[:, 3] - tiles[:, 0] <= _FEWEST, _HALF, 1.0)
    work[len(tiles) % len(work) :] = -1  # blocks without a tile of the last wave
    for first in range(0, len(tiles), len(work)):
        wave, cost = tiles[first:][: len(work)], costs[first:][: len(work)]
        blocks, order = (
            np.argsort(-work[: len(wave)], kind="stable"),
            np.argsort(cost, kind="stable"),
        )
        found[first + blocks], work[blocks] = wave[order], work[blocks] + cost[order]
    return found


def _in_waves(counts: np.ndarray, room: float) -> list[int]:
    """Return all groups, ordered so that whole ones have the tiles of a wave of blocks.

    So the blocks that run at the same time need few matrices, and read each of them once. A wave is
    the largest group that is left, and up to four that fill its `room` best.
    """
    left, found, waves = sorted(range(len(counts)), key=lambda group: -counts[group]), [], 0
    while left:
        waves += 1
        first = left.pop(0)
        wanted = round(room * waves - counts[found].sum()) - counts[first]
        filled: dict[int, list[int]] = {0: [first]}  # groups by the number of tiles that they add
        for group in left:
            for total, chosen in list(filled.items()):
                more = total + counts[group]
                is_shorter = more not in filled or len(filled[more]) > len(chosen) + 1
                if more <= wanted + 1 and len(chosen) <= 4 and is_shorter:
                    filled[more] = [*chosen, group]
        chosen = filled[min(filled, key=lambda total: (abs(total - wanted), len(filled[total])))]
        left = [each for each in left if each not in chosen]
        found += chosen
    return found


def _batched() -> Prepared:
    count, m, n, k = STACK
    a, b = _random((count, m, k), torch.bfloat16), _random((count, n, k), torch.bfloat16)
    out = {"ours": torch.empty((count, m, n), dtype=a.dtype, device="cuda")}
    launch = batched.member(BM=128, BN=256, BK=64)[_blocks(), 256]
    contenders = {
        "ours": lambda: launch(a, b, out["ours"]),
        "cuBLAS": lambda: torch.bmm(a, b.transpose(1, 2)),
    }
    error = _error_to(a.double() @ b.double().transpose(1, 2))
    return Prepared(contenders, out, error, 8e-3, 0, 10)


def _launches(kernel: Any, m: int, n: int, size: int, *, is_all: bool) -> Iterator[tuple[str, Any]]:
    yield "ours", kernel.forall(m, n)
    depth = _ROW_BYTES // size
    members = MEMBERS if is_all else MEMBERS[:_OF_EVERY_DTYPE]
    for rows, columns, threads in members:
        if rows >= 2 * max(m, _FEWEST) or columns >= 2 * n:
            continue
        member = kernel.member(BM=rows, BN=columns, BK=depth)
        tiles = -(-m // rows) * -(-n // columns)
        yield f"tile {rows}x{columns}x{depth} by {threads}", member[min(tiles, _blocks()), threads]


def _fused(size: int) -> Prepared:
    a, b, rest = (_random((size, size), torch.bfloat16) for _ in range(3))
    bias = _random((size,), torch.bfloat16)
    total = a.double() @ b.double().T
    plain = _error_to(total)
    error = _error_to(torch.nn.functional.gelu(total + bias.double()) + rest.double())
    out = {name: torch.empty_like(rest) for name in ("ours", "plain")}
    contenders = {
        "ours": lambda: fused.forall(size, size)(a, b, bias, rest, out["ours"]),
        "plain": lambda: product.forall(size, size)(a, b, out["plain"]),
    }

    def off(result: Any) -> float:
        return plain(result) if result is out["plain"] else error(result)

    return Prepared(contenders, out, off, 8e-3, 0, 3)


def _attention(width: int, is_causal: bool) -> Prepared:
    q, k, v = (_random((_HEADS, _TOKENS, width), torch.bfloat16) for _ in range(3))
    scale2 = math.log2(math.e) / math.sqrt(width)
    contenders: dict[str, Callable[[], Any]] = {}

    def theirs() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(
                q[None], k[None], v[None], is_causal=is_causal
            )[0]

    rows, columns, threads = (192, 128, 384) if width == 64 else (128, 128, 256)
    member = attention.member(BM=rows, BN=columns, D=width, causal=is_causal)
    launch = member[(-(-_TOKENS // rows), _HEADS), threads]
    out = {label: torch.empty_like(q) for label in ("ours", "library")}
    contenders["ours"] = lambda: launch(q, k, v, out["ours"], np.float32(scale2))
    contenders["library"] = lambda: sk.attention(q, k, v, causal=is_causal, out=out["library"])
    contenders["cuDNN"] = theirs
    reference = torch.nn.functional.scaled_dot_product_attention(
        q[:1].double(), k[:1].double(), v[:1].double(), is_causal=is_causal
    )[0]
    error = _error_to(reference)
    return Prepared(contenders, out, lambda found: error(found[0]), 3e-2, 0, 2)


def _random(shape: tuple[int, ...], dtype: torch.dtype) -> Any:
    if dtype is torch.int8:
        return torch.randint(-9, 10, shape, device="cuda", dtype=dtype)
    return torch.randn(shape, device="cuda").to(dtype)


def _error_to(reference: Any) -> Callable[[Any], float]:
    scale = float(reference.abs().max())

    def error(result: Any) -> float:
        return float((result.double() - reference).abs_().max()) / scale

    return error


def main() -> int:
    """Measure, print and store."""
    return report(cases(), make_parser(__doc__.splitlines()[0]).parse_args(), MEANS)


if __name__ == "__main__":
    sys.exit(main())
