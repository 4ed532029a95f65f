"""Launch chains of many sizes; a process of its own runs it, whose settings name the workers."""

from __future__ import annotations

import sys

import numpy as np

import kerneldsl as kd
from kerneldsl.language.intrinsics.chains import CHAIN_WORDS
from tests.support.processors import allow_any_number_of_threads

__all__ = ["Cumulative", "main"]


@kd.kernel
def cumulative_sum(x, out, state):
    part = kd.chain.next(state)
    i = part * kd.blockDim.x + kd.threadIdx.x
    v = x[i] if i < x.size else x.dtype.type(0)
    s = kd.block.inclusive_scan(v)
    before = kd.chain.before(state, part, kd.block.broadcast(s, kd.blockDim.x - 1))
    if i < x.size:
        out[i] = before + s


class Cumulative:
    """Sums of arrays, with one state for all of them."""

    def __init__(self, blocks: int) -> None:
        self.state = np.zeros(CHAIN_WORDS * blocks, np.int64)

    def __call__(self, x: np.ndarray, block: int) -> np.ndarray:
        out = np.full_like(x, 77)
        with kd.use("cpu"):
            cumulative_sum[-(-x.size // block), block](x, out, self.state)
        return out


def main() -> None:
    rng = np.random.default_rng(int(sys.argv[1]))
    cumulative = Cumulative(1 << 16)
    for size in (1 << 16, 200_003, 99_999, 130_001):
        for block in (1 + int(rng.integers(8)), 32, int(rng.integers(33, 300))):
            x = rng.integers(-99, 99, size)
            if size // block < 1 << 16:
                np.testing.assert_array_equal(cumulative(x, block), np.cumsum(x))
    floats = rng.standard_normal(150_001).astype(np.float32)
    found = [cumulative(floats, 96).tobytes() for _ in range(9)]
    assert len(set(found)) == 1, "sums of floats differ between launches"
    print(found[0][-64:].hex())


if __name__ == "__main__":
    allow_any_number_of_threads()
    main()
