"""Compute together what the threads of a warp or a block have: posted, combined, taken.

Each thread that takes part writes its value to its place in memory of the block (`room`, `values`).
Then the values are combined there, natively (`combine`, `sort`), and each thread takes its result;
`table` brings that together. Nothing is imported here.
"""

from __future__ import annotations

__all__: list[str] = []
