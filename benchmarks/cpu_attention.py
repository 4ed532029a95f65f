"""Compare the attention of the page on matrix products with torch's, on one core of this CPU.

Run ``python -m benchmarks.cpu_attention [queries] [turns]``; it needs torch. Each turn measures
both for four heads of 64 columns, with a causal mask, in processor time of one thread.
"""

from __future__ import annotations

import importlib.util
import math
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np

import kerneldsl as kd
from benchmarks.cpu_products import measure

_PAGE = Path(__file__).parents[1] / "docs" / "matrix-products.md"
#: Heads, and columns of a head.
HEADS, COLUMNS = 4, 64


def kernel_of_page(folder: Path) -> Any:
    """Return the kernel, from a file with the program of the page before its example."""
    code = _PAGE.read_text().partition("def visible(")[2].partition("\n\nheads,")[0]
    file = folder / "attention_of_page.py"
    file.write_text(f"import math\nimport kerneldsl as kd\n\ndef visible({code}\n")
    spec = importlib.util.spec_from_file_location("attention_of_page", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.attention.member(BM=128, BN=128, D=COLUMNS, group=1)


def main(queries: int, turns: int, folder: Path) -> None:
    """Print the median ratio, and the best time of each."""
    import torch

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, HEADS, queries, COLUMNS)).astype(np.float32)
    pages = [x.reshape(HEADS, -1, 128, COLUMNS).swapaxes(0, 1).copy() for x in (k, v)]
    numbers = np.arange(queries // 128)
    out, lse = np.empty_like(q), np.empty((HEADS, queries, 1), np.float32)
    scale = np.float32(math.log2(math.e) / math.sqrt(COLUMNS))
    launch = kernel_of_page(folder)[(queries // 128, HEADS), 128]
    given = [torch.from_numpy(each)[None] for each in (q, k, v)]

    def ours() -> None:
        launch(q, *pages, numbers, out, lse, scale, 1 << 30)

    def theirs() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(*given, is_causal=True)

    ours()
    assert np.allclose(out, theirs()[0].numpy(), atol=1e-5)
    pairs = [(measure(ours), measure(theirs)) for _ in range(turns)]
    ratio = statistics.median(other / own for own, other in pairs)
    own, other = (1e3 * min(each) for each in zip(*pairs, strict=True))
    print(f"{ratio:.2f} of the speed of torch {torch.__version__}; {own:.1f} and {other:.1f} ms")


if __name__ == "__main__":
    queries, turns = (int(each) for each in (*sys.argv[1:], "2048", "9")[:2])
    with tempfile.TemporaryDirectory() as name, kd.use("cpu"):
        main(queries, turns, Path(name))
