"""Kernels that are compared: those of the benchmarks, and calls of the library."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["GROUPS", "Sample", "samples"]

_BENCHMARKS = Path(__file__).resolve().parents[1]
_LANES = (
    "mathematics",
    "fractals",
    "rows",
    "grids",
    "sorting_and_scans",
    "sparse",
    "random_numbers",
    "geometry",
    "tables",
)
_CUDA_C = ("fields", "floats", "integers", "lanes", "matrices", "records", "reductions", "blocks")
#: Sizes of ``benchmarks/cuda_c`` that a CPU runs in milliseconds.
_SMALLER = (
    (r"1 << 2[0-9]", "1 << 18"),
    (r"_SIDE = 4096", "_SIDE = 512"),
    (r"_CUBE = 512", "_CUBE = 64"),
    (r"side = 1 << 18, 4096", "side = 1 << 18, 512"),
    (r"\b2048\b", "512"),
    (r"_ROWS = 8192", "_ROWS = 512"),
    (r"\b8192\b", "512"),
)
_SMALLER_IN = {
    "matrices": ((r"\b1024\b", "256"), (r"256, 384, 512", "64, 96, 128")),
    # Each thread of its grids has an element.
    "reductions": ((r"1 << 18", "1 << 19"),),
}
#: Names of groups, each of which can run in its own process.
GROUPS = (
    "cpu_kernels",
    *(f"lanes.{name}" for name in _LANES),
    *(f"cuda_c.{name}" for name in _CUDA_C),
    "tiles",
    "library",
)


@dataclass(frozen=True)
class Sample:
    """A launch, or a call of the library, with what it writes."""

    name: str
    #: Runs it, and returns arrays that are not in `outputs`.
    run: Callable[[], Any]
    outputs: tuple[Any, ...] = ()
    #: Sets arrays that the run changes in place.
    prepare: Callable[[], object] = lambda: None


def samples(group: str) -> Iterator[Sample]:
    """Return the samples of a group."""
    if str(_BENCHMARKS) not in sys.path:
        sys.path[:0] = [str(_BENCHMARKS)]
    _seed_random_numbers()
    kind, _, name = group.partition(".")
    yield from _MAKERS[kind](name)


def _seed_random_numbers() -> None:
    original = np.random.default_rng
    np.random.default_rng = lambda seed=0: original(seed)


def _cpu_kernels(_: str) -> Iterator[Sample]:
    import cpu_kernels as work

    rng = np.random.default_rng(0)
    x, y, z, m = rng.standard_normal((4, 1024)).astype(np.float32)
    old = rng.standard_normal((512, 512)).astype(np.float32)
    a, b = rng.standard_normal((2, 192, 192)).astype(np.float32)
    out, forces = np.zeros(1 << 18, np.float32), np.zeros((3, 1024), np.float32)
    new, c = np.zeros_like(old), np.zeros_like(a)
    long = rng.standard_normal(out.size).astype(np.float32)
    sums = np.zeros(out.size // work.BLOCK, np.float32)
    two, soft = np.float32(2), np.float32(0.01)
    yield Sample("axpy", lambda: work.axpy.forall(out.size)(two, long, long[::-1], out), (out,))
    yield Sample("jacobi", lambda: work.jacobi.forall(old.shape)(old, new), (new,))
    yield Sample("jacobi_block", lambda: work.jacobi_block[(16, 64), (32, 8)](old, new), (new,))
    nbody = lambda: work.nbody.forall(x.size)(x, y, z, m, soft, *forces)  # noqa: E731
    yield Sample("nbody", nbody, (forces,))
    tree = lambda: work.tree_reduction[sums.size, work.BLOCK](long, sums)  # noqa: E731
    yield Sample("tree_reduction", tree, (sums,))
    tiled = lambda: work.matmul_tiled[(12, 12), (work.TILE, work.TILE)](a, b, c)  # noqa: E731
    yield Sample("matmul_tiled", tiled, (c,))


def _lanes(name: str) -> Iterator[Sample]:
    module = importlib.import_module(f"lanes.{name}")
    for case in module.cases({}):
        yield Sample(case.name, case.ours, case.outputs, case.prepare or (lambda: None))


def _cuda_c(name: str) -> Iterator[Sample]:
    for case in _with_smaller_sizes(name).cases():
        given = case.make(np.random.default_rng(0))
        kept = [each.copy() if isinstance(each, np.ndarray) else None for each in given]

        def prepare(given: Any = given, kept: Any = kept) -> None:
            for array, before in zip(given, kept, strict=True):
                if before is not None:
                    array[...] = before

        extent, kernel = case.extent, case.kernel
        launch = kernel[case.grid, case.block] if extent is None else kernel.forall(extent)
        outputs = tuple(given[position] for position in case.outputs)
        yield Sample(case.name, functools.partial(launch, *given), outputs, prepare)


def _with_smaller_sizes(name: str) -> Any:
    source = (_BENCHMARKS / "cuda_c" / f"{name}.py").read_text()
    for pattern, text in (*_SMALLER, *_SMALLER_IN.get(name, ())):
        source = re.sub(pattern, text, source)
    path = Path(tempfile.mkdtemp(prefix="samples")) / f"small_{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _tiles(_: str) -> Iterator[Sample]:
    import tile_kernels as ours

    rng = np.random.default_rng(0)
    for width in (512, 4096):
        x = rng.standard_normal((256, width), np.float32)
        weight, bias = rng.standard_normal((2, width)).astype(np.float32)
        out = np.zeros_like(x)
        soft = ours.softmax.member(width=width)[256, 64]
        yield Sample(f"softmax {width}", functools.partial(soft, x, out), (out,))
        norm = ours.layer_norm.member(width=width, early=False)[256, 64]
        eps = np.float32(1e-5)
        run = functools.partial(norm, x, weight, bias, out, eps)
        yield Sample(f"layer_norm {width}", run, (out,))
    for dtype in (np.float32, np.int32):
        keys = (rng.standard_normal((32, 4096)) * 1000).astype(dtype)
        ordered = np.zeros_like(keys)
        launch = ours.segment_sort.member(width=4096)[32, 64]
        run = functools.partial(launch, keys, ordered)
        yield Sample(f"segment_sort {np.dtype(dtype)}", run, (ordered,))
    x = rng.standard_normal((16, 32768), np.float32)
    out = np.zeros_like(x)
    yield Sample(
        "softmax 32768",
        functools.partial(ours.softmax.member(width=32768)[16, 64], x, out),
        (out,),
    )
    from tile_samples import tile_samples

    yield from tile_samples()


def _scaled(v: Any) -> Any:
    return math.exp(v) * v


def _library(_: str) -> Iterator[Sample]:
    from stdlib_kernels import (
        elementwise,
        histogram,
        linalg,
        movement,
        reduce,
        rows,
        scan,
        sort,
        stencil,
    )
    from stdlib_kernels import random as random_numbers

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 1 << 18)).astype(np.float32)
    plane = rng.standard_normal((512, 512)).astype(np.float32)
    whole, at = rng.integers(-1000, 1000, 1 << 18), rng.integers(0, 1 << 18, 1 << 18)
    calls: dict[str, Callable[[], Any]] = {
        "map": lambda: elementwise.map(_scaled, x),
        "where": lambda: elementwise.where(x > 0, x, y),
        "clip": lambda: elementwise.clip(x, 0.25, 0.75),
        "cumsum": lambda: scan.cumsum(x, axis=0),
        "cummax": lambda: scan.cummax(x),
        "softmax": lambda: rows.softmax(plane),
        "transpose": lambda: linalg.transpose(plane),
        "matmul": lambda: linalg.matmul(plane[:256, :256], plane[256:, 256:]),
        "take": lambda: movement.take(x, at),
        "flip": lambda: movement.flip(x),
        "roll": lambda: movement.roll(x, 3),
        "sort": lambda: sort.sort(x),
        "sort integers": lambda: sort.sort(whole),
        "argsort": lambda: sort.argsort(x),
        "bincount": lambda: histogram.bincount(whole + 1000),
        "gaussian_filter": lambda: stencil.gaussian_filter(plane, 2.0),
        "correlate": lambda: stencil.correlate(plane, np.ones((7, 7), np.float32)),
        "normal": lambda: random_numbers.default_rng(7).normal(size=1 << 16),
        "random": lambda: random_numbers.default_rng(7).random(1 << 16),
    }
    for name in ("sum", "max", "argmax", "mean", "var"):
        calls[name] = functools.partial(getattr(reduce, name), x)
        calls[f"{name} of rows"] = functools.partial(getattr(reduce, name), plane, axis=1)
        calls[f"{name} of columns"] = functools.partial(getattr(reduce, name), plane, axis=0)
        calls[f"{name} of integers"] = functools.partial(getattr(reduce, name), whole)
    for name, call in calls.items():
        yield Sample(name, call)


_MAKERS: dict[str, Callable[[str], Iterator[Sample]]] = {
    "cpu_kernels": _cpu_kernels,
    "lanes": _lanes,
    "cuda_c": _cuda_c,
    "tiles": _tiles,
    "library": _library,
}
