"""Examples of intrinsics, which ``help(kd.shfl_sync)`` and the reference show.

A row has the statements of a kernel, which a block of 32 threads runs, and the first four elements
of its result ``out``. A test runs every example.
"""

from __future__ import annotations

import re
from textwrap import indent
from typing import TypeAlias

__all__ = ["EXAMPLES", "example_of"]

_ALL = "0xFFFFFFFF"
#: Statements, result, and the dtype of ``out`` unless it is int64.
_Row: TypeAlias = tuple[str, str] | tuple[str, str, str]
_GROUPS: dict[str, _Row] = {
    f"{group}.{name}": row
    for group in ("warp", "block")
    for name, row in {
        "sum": (f"out[t] = kd.{group}.sum(t)", "[496 496 496 496]"),
        "max": (f"out[t] = kd.{group}.max(t)", "[31 31 31 31]"),
        "min": (f"out[t] = kd.{group}.min(t + 5)", "[5 5 5 5]"),
        "any": (f"out[t] = kd.{group}.any(t == 7)", "[1 1 1 1]"),
        "all": (f"out[t] = kd.{group}.all(t < 7)", "[0 0 0 0]"),
        "count": (f"out[t] = kd.{group}.count(t < 7)", "[7 7 7 7]"),
        "reduce": (f"out[t] = kd.{group}.reduce(t, lambda a, b: a | b)", "[31 31 31 31]"),
        "inclusive_scan": (f"out[t] = kd.{group}.inclusive_scan(t)", "[0 1 3 6]"),
        "exclusive_scan": (f"out[t] = kd.{group}.exclusive_scan(t, initial=10)", "[10 10 11 13]"),
        "broadcast": (f"out[t] = kd.{group}.broadcast(10 * t, 3)", "[30 30 30 30]"),
        "exchange": (f"out[t] = kd.{group}.exchange(10 * t, t ^ 1)", "[10  0 30 20]"),
        "sort": (f"out[t] = kd.{group}.sort(31 - t)", "[0 1 2 3]"),
    }.items()
}
_VECTORS: dict[str, _Row] = {
    f"{kind}{width}x{count}": (
        f"v = kd.{kind}{width}x{count}({', '.join('1234'[:count])})\n"
        f"out[t] = {' + '.join(f'v.{axis}' for axis in 'xyzw'[:count])}",
        "[3. 3. 3. 3.]" if count == 2 else "[10. 10. 10. 10.]",
        "float64",
    )
    for kind, width, count in (
        *(("float", 32, count) for count in (2, 4)),
        ("float", 64, 2),
        *((k, w, count) for k in ("int", "uint") for w in (8, 16, 32) for count in (2, 4)),
        *((k, 64, 2) for k in ("int", "uint")),
    )
}
_TILES: dict[str, _Row] = {
    "load": ("kd.tile.store(out, 0, kd.tile.load(out, 0, 32) + 5)", "[5 5 5 5]"),
    "store": ("kd.tile.store(out, 0, kd.tile.arange(32))", "[0 1 2 3]"),
    "zeros": ('kd.tile.store(out, 2, kd.tile.zeros(8, "int64") + 1)', "[0 0 1 1]"),
    "full": ("kd.tile.store(out, 0, kd.tile.full(32, 7))", "[7 7 7 7]"),
    "arange": ("kd.tile.store(out, 0, kd.tile.arange(32) ** 2)", "[0 1 4 9]"),
    "of": ("kd.tile.store(out, 0, kd.tile.of(2 * t))", "[0 2 4 6]"),
    "own": ("out[t] = kd.tile.own(kd.tile.arange(32) + 1)", "[1 2 3 4]"),
    "sum": ("out[t] = kd.tile.arange(32).sum()", "[496 496 496 496]"),
    "prod": ("out[t] = (kd.tile.arange(6) + 1).prod()", "[720 720 720 720]"),
    "max": ("out[t] = kd.tile.arange(32).max()", "[31 31 31 31]"),
    "min": ("out[t] = (kd.tile.arange(32) + 3).min()", "[3 3 3 3]"),
    "argmax": ("out[t] = (kd.tile.arange(32) % 8).argmax()", "[7 7 7 7]"),
    "argmin": ("out[t] = ((kd.tile.arange(32) + 5) % 8).argmin()", "[3 3 3 3]"),
    "mean": ("out[t] = kd.tile.arange(32).mean()", "[15.5 15.5 15.5 15.5]", "float64"),
    "any": ("out[t] = kd.tile.arange(32).any()", "[1 1 1 1]"),
    "all": ("out[t] = kd.tile.arange(32).all()", "[0 0 0 0]"),
    "cumsum": ("kd.tile.store(out, 0, kd.tile.arange(32).cumsum())", "[0 1 3 6]"),
    "sort": ("kd.tile.store(out, 0, (-kd.tile.arange(32)).sort())", "[-31 -30 -29 -28]"),
    "argsort": ("kd.tile.store(out, 0, (-kd.tile.arange(32)).argsort())", "[31 30 29 28]"),
    "take": (
        "a = kd.tile.arange(32)\nkd.tile.store(out, 0, (a * a).take(31 - a))",
        "[961 900 841 784]",
    ),
    "transpose": (
        "a = kd.tile.load(out.reshape(4, 8), (0, 0), (4, 8))\nout[t] = a.T.sum() + t",
        "[0 1 2 3]",
    ),
    "map": (
        "rest = lambda x, n: x % n\nkd.tile.store(out, 0, kd.tile.arange(32).map(rest, 3))",
        "[0 1 2 0]",
    ),
    "astype": ("kd.tile.store(out, 0, (kd.tile.arange(32) / 2).astype(kd.int64))", "[0 0 1 1]"),
}
_ATOMICS: dict[str, _Row] = {
    "load": ("out[t] = kd.atomic.load(out, t) + 1", "[1 1 1 1]"),
    "store": ("kd.atomic.store(out, t, 5)", "[5 5 5 5]"),
    "add": ("kd.atomic.add(out, t % 2, 1)", "[16 16  0  0]"),
    "sub": ("kd.atomic.sub(out, t % 2, 1)", "[-16 -16   0   0]"),
    "max": ("kd.atomic.max(out, t % 2, t)", "[30 31  0  0]"),
    "min": ("kd.atomic.min(out, t % 2, -t)", "[-30 -31   0   0]"),
    "exch": ("kd.atomic.exch(out, t, 7)", "[7 7 7 7]"),
    "cas": ("kd.atomic.cas(out, 0, 0, 9)", "[9 0 0 0]"),
    "and_": ("out[t] = 15\nkd.atomic.and_(out, t, t)", "[0 1 2 3]"),
    "or_": ("kd.atomic.or_(out, 0, t)", "[31  0  0  0]"),
    "xor": ("kd.atomic.xor(out, t, 6)", "[6 6 6 6]"),
    "inc": ("kd.atomic.inc(out, 0, 9)", "[2 0 0 0]", "uint32"),
    "dec": ("kd.atomic.dec(out, 0, 9)", "[8 0 0 0]", "uint32"),
}
_LANES: dict[str, _Row] = {
    "shfl_sync": (f"out[t] = kd.shfl_sync({_ALL}, 10 * t, 3)", "[30 30 30 30]"),
    "shfl_up_sync": (f"out[t] = kd.shfl_up_sync({_ALL}, 10 * t, 1)", "[ 0  0 10 20]"),
    "shfl_down_sync": (f"out[t] = kd.shfl_down_sync({_ALL}, 10 * t, 1)", "[10 20 30 40]"),
    "shfl_xor_sync": (f"out[t] = kd.shfl_xor_sync({_ALL}, 10 * t, 1)", "[10  0 30 20]"),
    "ballot_sync": (f"out[t] = kd.ballot_sync({_ALL}, t < 4)", "[15 15 15 15]"),
    "all_sync": (f"out[t] = kd.all_sync({_ALL}, t < 4)", "[0 0 0 0]"),
    "any_sync": (f"out[t] = kd.any_sync({_ALL}, t < 4)", "[1 1 1 1]"),
    "eq_sync": (f"out[t] = kd.eq_sync({_ALL}, t < 40)", "[1 1 1 1]"),
    "lanemask_lt": ("out[t] = kd.lanemask_lt()", "[0 1 3 7]"),
    "activemask": ("out[t] = kd.popc(kd.activemask())", "[32 32 32 32]"),
    "match_any_sync": (f"out[t] = kd.match_any_sync({_ALL}, t // 2)", "[ 3  3 12 12]"),
    "match_all_sync": (
        f"mask, are_equal = kd.match_all_sync({_ALL}, t)\nout[t] = mask",
        "[0 0 0 0]",
    ),
    "reduce_add_sync": (f"out[t] = kd.reduce_add_sync({_ALL}, t)", "[496 496 496 496]"),
    "reduce_min_sync": (f"out[t] = kd.reduce_min_sync({_ALL}, t + 5)", "[5 5 5 5]"),
    "reduce_max_sync": (f"out[t] = kd.reduce_max_sync({_ALL}, t)", "[31 31 31 31]"),
    "reduce_and_sync": (f"out[t] = kd.reduce_and_sync({_ALL}, t | 8)", "[8 8 8 8]"),
    "reduce_or_sync": (f"out[t] = kd.reduce_or_sync({_ALL}, t)", "[31 31 31 31]"),
    "reduce_xor_sync": (f"out[t] = kd.reduce_xor_sync({_ALL}, t)", "[0 0 0 0]"),
}
_EXCHANGE = "s = kd.shared.array(32, kd.int64)\ns[t] = t\n{}\nout[t] = s[31 - t]"
_FENCED = "out[t] = t\nkd.{}()\nkd.atomic.store(out, 0, 1)"
_BARRIERS: dict[str, _Row] = {
    "syncthreads": (_EXCHANGE.format("kd.syncthreads()"), "[31 30 29 28]"),
    "syncthreads_count": ("out[t] = kd.syncthreads_count(t < 7)", "[7 7 7 7]"),
    "syncthreads_and": ("out[t] = kd.syncthreads_and(t < 7)", "[0 0 0 0]"),
    "syncthreads_or": ("out[t] = kd.syncthreads_or(t < 7)", "[1 1 1 1]"),
    "syncwarp": (_EXCHANGE.format("kd.syncwarp()"), "[31 30 29 28]"),
    "threadfence": (_FENCED.format("threadfence"), "[1 1 2 3]"),
    "threadfence_block": (_FENCED.format("threadfence_block"), "[1 1 2 3]"),
    "threadfence_system": (_FENCED.format("threadfence_system"), "[1 1 2 3]"),
    "grid_group.sync": (
        "out[t] = t\nkd.grid_group().sync()\nx = out[31 - t]\nkd.grid_group().sync()\nout[t] = x",
        "[31 30 29 28]",
    ),
}
_MEMORY: dict[str, _Row] = {
    "shared.array": (_EXCHANGE.format("kd.syncthreads()"), "[31 30 29 28]"),
    "local.array": (
        "a = kd.local.array(2, kd.int64)\na[0] = a[1] = t\nout[t] = a[0] + a[1]",
        "[0 2 4 6]",
    ),
    "load": ('out[t] = kd.load(out, t, cache="streaming") + 1', "[1 1 1 1]"),
    "store": ('kd.store(out, t, 5, cache="streaming")', "[5 5 5 5]"),
    "view": (
        "pairs = kd.view(out, kd.float32x2)\nif t < len(pairs):\n"
        "    pairs[t] = kd.float32x2(t, -t)",
        "[ 0.  0.  1. -1.]",
        "float32",
    ),
    "packed": (
        "word = kd.local.array(1, kd.int64)\nword[0] = 0x21\n"
        "out[t] = kd.packed(word, kd.int4)[t % 2]",
        "[1 2 1 2]",
    ),
    "unpack": (
        "a, b = kd.unpack(kd.int32(0x4321), kd.int4)\n"
        "out[t] = kd.dot4(a, kd.int32(0x01010101), kd.int32(0))",
        "[10 10 10 10]",
    ),
}
_PLACES: dict[str, _Row] = {
    "grid": ("out[kd.grid(1)] = kd.grid(1)", "[0 1 2 3]"),
    "gridsize": ("out[t] = kd.gridsize(1)", "[32 32 32 32]"),
    "laneid": ("out[t] = kd.laneid", "[0 1 2 3]"),
    "warpsize": ("out[t] = kd.warpsize", "[32 32 32 32]"),
    **{
        f"{name}.{axis}": (f"out[t] = kd.{name}.{axis}", result if axis == "x" else other)
        for name, result, other in (
            ("threadIdx", "[0 1 2 3]", "[0 0 0 0]"),
            ("blockIdx", "[0 0 0 0]", "[0 0 0 0]"),
            ("blockDim", "[32 32 32 32]", "[1 1 1 1]"),
            ("gridDim", "[1 1 1 1]", "[1 1 1 1]"),
        )
        for axis in "xyz"
    },
}
_SHIFT = "out[t] = kd.{}(kd.uint32(0x80000001), kd.uint32(t), 1)"
_VALUES: dict[str, _Row] = {
    "popc": ("out[t] = kd.popc(t)", "[0 1 1 2]"),
    "clz": ("out[t] = kd.clz(t)", "[64 63 62 62]"),
    "ffs": ("out[t] = kd.ffs(t)", "[0 1 2 1]"),
    "brev": ("out[t] = kd.brev(kd.uint32(t)) >> 30", "[0 2 1 3]"),
    "byte_perm": ("out[t] = kd.byte_perm(t, 0, 0x4404)", "[  0 256 512 768]"),
    "funnelshift_l": (_SHIFT.format("funnelshift_l"), "[1 3 5 7]"),
    "funnelshift_lc": (_SHIFT.format("funnelshift_lc"), "[1 3 5 7]"),
    "funnelshift_r": (_SHIFT.format("funnelshift_r") + " >> 30", "[1 3 1 3]"),
    "funnelshift_rc": (_SHIFT.format("funnelshift_rc") + " >> 30", "[1 3 1 3]"),
    "mulhi": ("out[t] = kd.mulhi(t, 2**62)", "[0 0 0 0]"),
    "dot4": (
        "out[t] = kd.dot4(kd.int32(0x01010101), kd.int32(0x04030201), kd.int32(t))",
        "[10 11 12 13]",
    ),
    "fma": ("out[t] = kd.fma(2.0, t, 1.0)", "[1. 3. 5. 7.]", "float64"),
    "rsqrt": ("out[t] = kd.rsqrt(4.0**t)", "[1.    0.5   0.25  0.125]", "float64"),
    "cbrt": ("out[t] = kd.cbrt(8.0 ** t)", "[1. 2. 4. 8.]", "float64"),
    "saturate": ("out[t] = kd.saturate(t - 1.5)", "[0.  0.  0.5 1. ]", "float64"),
    "selp": ("out[t] = kd.selp(t % 2, t, -t)", "[ 0  1 -2  3]"),
    "bitcast": ("out[t] = kd.bitcast(kd.float32(t), kd.int32) >> 23", "[  0 127 128 128]"),
    "nanosleep": ("kd.nanosleep(100)\nout[t] = t", "[0 1 2 3]"),
    "uniform": (
        "if kd.uniform(out[31]) == 0:\n    kd.syncthreads()\n    out[t] = 1",
        "[1 1 1 1]",
    ),
}
_NV: dict[str, _Row] = {
    "prmt": ("out[t] = kd.nv.prmt(t, 0, 0x4404)", "[  0 256 512 768]"),
    "lop3": ("out[t] = kd.nv.lop3(t, 1, 2, 0xFE)", "[3 3 3 3]"),
    "bfe_u32": ("out[t] = kd.nv.bfe_u32(0x1234, 4, 8)", "[35 35 35 35]"),
    "bfe_u64": ("out[t] = kd.nv.bfe_u64(0x1234, 4, 8)", "[35 35 35 35]"),
    "bfe_s32": ("out[t] = kd.nv.bfe_s32(0xF0, 4, 4)", "[-1 -1 -1 -1]"),
    "bfe_s64": ("out[t] = kd.nv.bfe_s64(0xF0, 4, 4)", "[-1 -1 -1 -1]"),
    "bfi_b32": ("out[t] = kd.nv.bfi_b32(t, 0, 4, 8)", "[ 0 16 32 48]"),
    "bfi_b64": ("out[t] = kd.nv.bfi_b64(t, 0, 4, 8)", "[ 0 16 32 48]"),
    "bfind_u32": ("out[t] = kd.nv.bfind_u32(t + 1)", "[0 1 1 2]"),
    "bfind_u64": ("out[t] = kd.nv.bfind_u64(t + 1)", "[0 1 1 2]"),
    "bfind_s32": ("out[t] = kd.nv.bfind_s32(-t - 2)", "[0 1 1 2]"),
    "bfind_s64": ("out[t] = kd.nv.bfind_s64(-t - 2)", "[0 1 1 2]"),
    "ex2_approx_f32": ("out[t] = kd.nv.ex2_approx_f32(t)", "[1. 2. 4. 8.]", "float32"),
    "lg2_approx_f32": ("out[t] = kd.nv.lg2_approx_f32(2.0 ** t)", "[0. 1. 2. 3.]", "float32"),
    "rcp_approx_f32": (
        "out[t] = kd.nv.rcp_approx_f32(2.0 ** t)",
        "[1.    0.5   0.25  0.125]",
        "float32",
    ),
    "tanh_approx_f32": ("out[t] = kd.nv.tanh_approx_f32(0 * t)", "[0. 0. 0. 0.]", "float32"),
}
_MATRIX: dict[str, _Row] = {
    "mma": (
        "x = kd.tile.full((8, 16), 2, kd.int8)\n"
        "kd.tile.store(out, 0, kd.tile.full(8, kd.mma(x, x.T).max()))",
        "[64 64 64 64]",
    ),
    "pipelined": (
        "total = kd.tile.zeros(4, kd.int64)\nfor k in kd.pipelined(range(0, 16, 4)):\n"
        "    total += kd.tile.load(out, k, 4) + k\nkd.tile.store(out, 0, total)",
        "[24 24 24 24]",
    ),
    "tiles": (
        "for k in kd.tiles(out.size, 8):\n    kd.tile.store(out, k, kd.tile.full(8, k + 1))",
        "[1 1 1 1]",
    ),
}
_CHAINS: dict[str, _Row] = {
    "chain.next": (
        "part = kd.chain.next(state)\nout[t] = kd.chain.before(state, part, 5) + part",
        "[0 0 0 0]",
    ),
    "chain.before": (
        "part = kd.chain.next(state)\nout[t] = kd.chain.before(state, part, 5, initial=7) + t",
        "[ 7  8  9 10]",
    ),
    "chain.publish": (
        "part = kd.chain.next(state)\nkd.chain.publish(state, part, 5)\n"
        "out[t] = kd.chain.before(state, part, 5) + t",
        "[0 1 2 3]",
    ),
}

#: The rows by the names of their intrinsics.
EXAMPLES: dict[str, _Row] = {
    **_GROUPS,
    **_VECTORS,
    **_LANES,
    **_BARRIERS,
    **_MEMORY,
    **_PLACES,
    **_VALUES,
    **_CHAINS,
    **_MATRIX,
    **{f"tile.{name}": row for name, row in _TILES.items()},
    **{f"atomic.{name}": row for name, row in _ATOMICS.items()},
    **{f"nv.{name}": row for name, row in _NV.items()},
}


def example_of(name: str) -> str | None:
    """Return the example of an intrinsic as a doctest, or ``None``.

    - `name`: the dotted name below ``kerneldsl``.
    """
    row = EXAMPLES.get(name)
    if row is None:
        return None
    body, result, dtype = (*row, "int64")[:3]
    # A chain keeps three numbers for each block.
    parameters, arguments = "out", "out"
    if "state" in body:
        parameters, arguments = "out, state", "out, np.zeros(3, np.int64)"
    first = "t = kd.threadIdx.x\n" if re.search(r"\bt\b", body) else ""
    lines = indent(f"{first}{body}", "...     ")
    return (
        ">>> import numpy as np\n>>> import kerneldsl as kd\n"
        f">>> @kd.kernel\n... def example({parameters}):\n{lines}\n"
        f">>> out = np.zeros(32, np.{dtype})\n"
        f">>> example[1, 32]({arguments})\n>>> print(out[:4])\n{result}"
    )
