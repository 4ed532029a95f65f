"""Write loops that are told by a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite import ir

__all__ = ["loop_while"]


@contextmanager
def loop_while(builder: ir.IRBuilder, test: Callable[[], ir.Value]) -> Iterator[None]:
    """Repeat what is written inside as long as what `test` writes is true."""
    head, body, end = (builder.append_basic_block(f"while.{x}") for x in ("head", "body", "end"))
    builder.branch(head)
    builder.position_at_end(head)
    builder.cbranch(test(), body, end)
    builder.position_at_end(body)
    yield
    builder.branch(head)
    builder.position_at_end(end)
