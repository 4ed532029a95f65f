"""Gradients of attention against cuDNN, and decoding against a copy, on a GPU.

With nothing else on it::

    python benchmarks/attention.py --json benchmarks/results/attention-h200.json

``products.py`` has the forward pass. Every result is compared with one in float64, for the first
head or the last batch. Contenders take turns. A case of decoding reads all keys and values once, so
its bound is a part of the bandwidth of a copy; ``moved_bytes`` over the seconds is its rate.
"""

# ruff: noqa: E402 -- the benchmark's own folder comes first
from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "benchmarks")]

import torch
from contest import Bound, Case, Prepared, make_parser, report
from torch.nn.attention import SDPBackend, sdpa_kernel

import kerneldsl as kd
import stdlib_kernels as sk

_HEADS, _TOKENS = 32, 8192
#: Heads of keys, and columns of a head, of decoding.
_SHARED, _COLUMNS = 8, 128
#: Batches, keys of each, and keys of a page.
DECODING = ((32, 8192, 16), (32, 8192, 64), (32, 8192, 128), (1, 131072, 64))


def cases() -> Iterator[Case]:
    """Return the cases."""
    for width, is_causal in ((128, False), (128, True), (64, False)):
        name = f"backward d {width}{' causal' if is_causal else ''}"
        yield Case(name, lambda d=width, c=is_causal: _backward(d, c), (Bound("cuDNN", 0.80),))
    for shape in DECODING:
        name = "decode {} x {} keys in pages of {}".format(*shape)
        yield Case(name, lambda s=shape: _decode(*s), (Bound("copy", 0.75),))


def _random(*shape: int) -> Any:
    return torch.randn(shape, device="cuda").to(torch.bfloat16)


def _backward(width: int, is_causal: bool) -> Prepared:
    """Return gradients by the library and by torch."""
    q, k, v, grad = (_random(1, _HEADS, _TOKENS, width) for _ in range(4))
    given = [each.clone().requires_grad_() for each in (q, k, v)]
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        result = torch.nn.functional.scaled_dot_product_attention(*given, is_causal=is_causal)
    ours = [kd.as_array(each) for each in (grad, q, k, v)]
    ends = sk.attention(*ours[1:], causal=is_causal, return_statistics=True)
    contenders = {
        "ours": lambda: sk.attention_backward(*ours, *ends, causal=is_causal),
        "cuDNN": lambda: torch.autograd.grad(result, given, grad, retain_graph=True),
    }
    wide = [each[:, :1].double().requires_grad_() for each in (q, k, v)]
    scores = wide[0] @ wide[1].transpose(2, 3) / math.sqrt(width)
    if is_causal:
        is_hidden = torch.ones(_TOKENS, _TOKENS, device="cuda", dtype=torch.bool).triu(1)
        scores = scores.masked_fill(is_hidden, -math.inf)
    found = scores.softmax(-1) @ wide[2]
    expected = torch.autograd.grad(found, wide, grad[:, :1].double())

    def error(results: Any) -> float:
        pairs = zip(map(torch.from_dlpack, results), expected, strict=True)
        return max(float((a[:, :1].double() - b).abs().max() / b.abs().max()) for a, b in pairs)

    return Prepared(contenders, {}, error, 3e-2, 0, 2)


def _decode(count: int, keys: int, page: int) -> Prepared:
    """Return a query of each head and batch; keys and values are in pages in a random order."""
    each = keys // page
    q = _random(count, _HEADS, 1, _COLUMNS)
    k, v = (_random(count * each, _SHARED, page, _COLUMNS) for _ in range(2))
    pages = torch.randperm(count * each, device="cuda").reshape(count, each)
    lengths = torch.full((count,), keys, device="cuda")
    out = {"ours": torch.empty_like(q)}
    ours = [kd.as_array(x) for x in (q, k, v, lengths, pages, out["ours"])]
    wide = [x[pages[-1]].transpose(0, 1).reshape(_SHARED, keys, _COLUMNS).double() for x in (k, v)]
    wide = [x.repeat_interleave(_HEADS // _SHARED, 0) for x in wide]
    scores = q[-1].double() @ wide[0].transpose(1, 2) / math.sqrt(_COLUMNS)
    expected = scores.softmax(-1) @ wide[1]

    def launch() -> None:
        sk.attention(*ours[:3], causal=True, lengths=ours[3], pages=ours[4], out=ours[5])

    def error(result: Any) -> float:
        return float((result[-1].double() - expected).abs().max() / expected.abs().max())

    return Prepared({"ours": launch}, out, error, 3e-2, k.nbytes + v.nbytes, 8)


def main() -> int:
    """Measure, print and store."""
    return report(cases(), make_parser(__doc__.splitlines()[0]).parse_args())


if __name__ == "__main__":
    sys.exit(main())
