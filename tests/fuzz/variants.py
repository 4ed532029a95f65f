"""Changes of a program, or of how it is compiled and run, that must not change its results.

The compiler's passes are replaced from outside, for the time of a compilation; no option of the
product does that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any
from unittest.mock import patch

from targets.cpu.codegen.levels import compiled_for
from tests.fuzz.names import renamed
from tests.fuzz.program import Program

__all__ = ["VARIANTS", "Variant", "choose_variants"]


@dataclass(frozen=True)
class Variant:
    """A change.

    Parameters
    ----------
    name : str
        Its name.
    applies : callable
        Whether a program has it, on a target.
    changed : callable
        The changed program.
    context : callable
        In force while the kernel is compiled and launched.
    """

    name: str
    applies: Callable[[Program, str], bool]
    changed: Callable[[Program], Program] = lambda program: program
    context: Callable[[], Any] = nullcontext


def _renamed(program: Program) -> Program:
    return replace(program, text=renamed(program.text, random.Random(~program.seed)))


def _other_blocks(program: Program) -> Program:
    """Other blocks that cover the same extents."""
    assert program.extents is not None
    ndim = len(program.extents[0])
    rng = random.Random(~program.seed)
    block = rng.choice(
        {1: ((1,), (7,), (64,)), 2: ((3, 5), (32, 1)), 3: ((1, 1, 8), (3, 2, 1))}[ndim]
    )
    largest = [max(sizes) for sizes in zip(*program.extents, strict=True)][::-1]
    grid = tuple(-(-n // b) for n, b in zip(largest, block, strict=True))
    return replace(program, grid=grid, block=block)


@contextmanager
def _unvectorized() -> Iterator[None]:
    """LLVM's loop and superword vectorizers are off."""
    from llvmlite import binding

    make = binding.create_pass_builder

    def without(machine: Any, options: Any) -> Any:
        options.loop_vectorization = options.slp_vectorization = False
        return make(machine, options)

    with patch("llvmlite.binding.create_pass_builder", without):
        yield


@cache
def _narrow_machine(bits: int) -> Any:
    """What LLVM compiles for, with a liking for vectors of so many bits."""
    from llvmlite import binding

    found = compiled_for()
    features = [*sorted(found.features), f"prefer-{bits}-bit"]
    return binding.Target.from_default_triple().create_target_machine(
        cpu=found.cpu, features=",".join(f"+{name}" for name in features), opt=3
    )


@contextmanager
def _in_vectors(bits: int) -> Iterator[None]:
    """LLVM's vectorizers make vectors of so many bits, where the processor has longer ones."""
    from llvmlite import binding

    make = binding.create_pass_builder
    with patch(
        "llvmlite.binding.create_pass_builder",
        lambda machine, options: make(_narrow_machine(bits), options),
    ):
        yield


def _has_vectors(bits: int) -> Callable[[Program, str], bool]:
    """Whether vectors of more bits than so many are made where nothing is said."""

    def applies(program: Program, target: str) -> bool:
        longer = {"avx512f"} if bits == 256 else {"avx512f", "avx2"}
        return target == "cpu" and bool(longer & compiled_for().features)

    return applies


@contextmanager
def _uninterchanged() -> Iterator[None]:
    """Loops stay inside the loop over threads."""
    with patch("targets.cpu.regions.lanes.values.Choice._profits", lambda *args: False):
        yield


@contextmanager
def _shared_out() -> Iterator[None]:
    """A launch of any size is shared among two threads, in pieces as small as they come."""
    with ExitStack() as stack:
        stack.enter_context(patch("targets.cpu.runtime.artifact.SERIAL_THREADS", 0))
        stack.enter_context(patch("targets.cpu.runtime.artifact.LEAST_SEGMENT", 1))
        yield


def _is_cpu(program: Program, target: str) -> bool:
    return target == "cpu"


def _has_blocks(program: Program, target: str) -> bool:
    return program.extents is not None and program.grid is not None


VARIANTS = (
    Variant("renamed", lambda program, target: True, _renamed),
    Variant("unvectorized", _is_cpu, context=_unvectorized),
    Variant("128-bit vectors", _has_vectors(128), context=partial(_in_vectors, 128)),
    Variant("256-bit vectors", _has_vectors(256), context=partial(_in_vectors, 256)),
    Variant("uninterchanged", _is_cpu, context=_uninterchanged),
    Variant("two threads", _is_cpu, context=_shared_out),
    Variant("other blocks", _has_blocks, _other_blocks),
)


def choose_variants(program: Program, target: str, *, share: float) -> list[Variant]:
    """Return the variants to try: all where `share` is 1, else one in that part of the programs."""
    found = [v for v in VARIANTS if v.applies(program, target)]
    if share >= 1:
        return found
    rng = random.Random(f"variant {program.seed}")
    return [rng.choice(found)] if rng.random() < share else []
