"""Philox4x32-10 in NumPy, and the integers that are made of its words without a bias."""

from __future__ import annotations

import numpy as np

__all__ = ["philox_words", "unbiased"]


def philox_words(key: int, counter: int, count: int) -> np.ndarray:
    """The words of successive counters, four in a row, by the rounds of the paper.

    Parameters
    ----------
    key : int
        64 bits.
    counter : int
        128 bits, of the first row.
    count : int
        How many rows.
    """
    numbers = [(counter + i) % (1 << 128) for i in range(count)]
    a, b, c, d = (
        np.array([n >> 32 * k & 0xFFFFFFFF for n in numbers], np.uint64) for k in range(4)
    )
    low = np.uint64(0xFFFFFFFF)
    for turn in range(10):
        left = np.uint64((key + turn * 0x9E3779B9) & 0xFFFFFFFF)
        right = np.uint64(((key >> 32) + turn * 0xBB67AE85) & 0xFFFFFFFF)
        first, second = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b = second >> np.uint64(32) ^ b ^ left, second & low
        c, d = first >> np.uint64(32) ^ d ^ right, first & low
    return np.stack([a, b, c, d], axis=1)


def unbiased(key: int, counter: int, size: int, count: int) -> list[int]:
    """Numbers below `count`, each rejected as often as Lemire's algorithm asks for it."""
    per, bits = (4, 32) if count <= 1 << 32 else (2, 64)
    found = []
    for i in range(size):
        at, lane, turn = counter + i // per, i % per, 0
        words = philox_words(key, at, 1)[0]
        while True:
            number = int(words[lane])
            if bits == 64:
                number = int(words[2 * lane]) | int(words[2 * lane + 1]) << 32
            product = number * count
            if product % (1 << bits) >= (1 << bits) % count:
                found.append(product >> bits)
                break
            turn += 1
            again = philox_words(key, at ^ (4 * turn + lane) << 96, 1)[0]
            words = np.resize(again[: bits // 32], 4)
    return found
