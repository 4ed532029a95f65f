"""What tests of launches that run on the CPU instead share."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import Specialization
from kerneldsl.placement import devices as placement
from kerneldsl.placement import fallback
from targets import null
from targets.cpu.target import CpuCompiler
from targets.cuda.compile import compiler

__all__ = ["CATEGORIES", "arguments", "compiled_once", "forget_choices", "make_kernel", "plan"]

#: Of each category, whether the CPU takes over.
CATEGORIES = {
    "initialization": True,
    "device": True,
    "memory": True,
    "kernel": True,
    "compile": True,
    "system": True,
    "launch": False,
    "stream": False,
}


def forget_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing chosen, warned of or counted when the test begins."""
    for choices in (fallback._choices, placement._choices):
        monkeypatch.setattr(choices, "_plain", [])
        monkeypatch.setattr(choices, "process_wide", None)
    monkeypatch.setattr(fallback, "_announced", set())
    monkeypatch.delenv("KERNELDSL_FALLBACK", raising=False)
    monkeypatch.delenv("KERNELDSL_TARGET", raising=False)
    kd.reset_stats()


@contextmanager
def compiled_once() -> Iterator[None]:
    """A ``with`` block that compiles kernels of one text once; each is loaded anew.

    Nearly all of the time would go into that: there is a kernel for each way to fail.
    """
    made: dict[Any, Any] = {}

    def once(compile_: Callable[..., Any], key_of: Callable[..., Any]) -> Callable[..., Any]:
        def compile_once(*args: Any, **options: Any) -> Any:
            key = key_of(*args, **options)
            if key not in made:
                made[key] = compile_(*args, **options)
            return made[key]

        return compile_once

    others = {f.name for f in fields(Specialization)} - {"unit", "traits"}

    def text_of(specialization: Specialization) -> tuple[Any, ...]:
        unit = specialization.unit
        rest = (getattr(specialization, name) for name in others)
        return ast.dump(unit.tree), tuple((c.path, repr(c.value)) for c in unit.captured), *rest

    with pytest.MonkeyPatch.context() as patch:
        compile_kernel, compile_on_host = compiler.compile_kernel, CpuCompiler.compile
        patch.setattr(
            compiler, "compile_kernel", once(compile_kernel, lambda s, *, arch: (arch, text_of(s)))
        )
        patch.setattr(
            CpuCompiler, "compile", once(compile_on_host, lambda _, s: ("cpu", text_of(s)))
        )
        yield


def make_kernel() -> Any:
    """A kernel that has not been launched, loaded or warned of yet."""

    @kd.kernel
    def accumulate(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] += 2 * x[i]

    return accumulate


def arguments(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrays that the kernel takes, and what the second one holds after a launch."""
    x = rng.standard_normal(101)
    out = rng.standard_normal(101)
    x[[0, 7]] = np.nan, -0.0
    return x, out, out + 2 * x


def plan(target: Any, operation: str, category: str) -> str:
    """Let an operation fail, as often as it is tried again; return the driver's name for it."""
    for _ in range(8):
        target.fail_next(operation, null.fault(category))
    return null.fault(category).name
