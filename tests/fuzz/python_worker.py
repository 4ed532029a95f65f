"""A process that runs programs with Python as their oracle: see :mod:`tests.fuzz.worker`."""

from __future__ import annotations

import faulthandler
import json
import linecache
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import KernelError
from tests.fuzz.differences import compare
from tests.fuzz.outcomes import Outcome
from tests.fuzz.program import DATA_SETS
from tests.fuzz.python_programs import PythonProgram, generate_python
from tests.fuzz.worker import PATIENCE
from tests.support.arrays import poisoned
from tests.support.python_kernels import simulate_launch
from tests.support.simt import Launch
from tests.support.source import exec_source

__all__ = ["check_python", "expected_arguments", "main"]


def _arguments(program: PythonProgram, record: Any, data_set: int) -> list[Any]:
    """Arrays and scalars; a third of them has integers of the whole range."""
    rng, n = np.random.default_rng((program.seed, data_set)), program.total
    low, high = ((-(2**63), 2**63 - 1), (-9, 40), (-9, 40))[rng.integers(3)]
    integers = [rng.integers(low, high, n, np.int64, endpoint=True) for _ in range(2)]
    reals = rng.standard_normal(n) * 10.0 ** rng.integers(-2, 4)
    special = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, 3.0], n)
    reals = np.where(rng.random(n) < 0.15, special, reals)
    numbers = rng.integers(-5, 5, n) + 1j * rng.integers(-5, 5, n)
    given, made = np.zeros(n, record), np.zeros(n, record)
    given["a"], given["v"] = integers[1], rng.standard_normal((n, 3))
    given["s"], given["in"]["k"] = rng.integers(-9, 9, n), rng.integers(-9, 99, n)
    outputs = [poisoned(n, dtype) for dtype in (np.int64, np.int64, np.float64, np.complex128)]
    scalars = [int(rng.choice([1, 2, 3, 5])), int(rng.integers(0, 3))]
    passed, *others = outputs
    return [integers[0], reals, numbers, given, passed, made, *others, *scalars]


def expected_arguments(program: PythonProgram, *, is_reversed: bool = False) -> list[list[Any]]:
    """Return the arguments as the kernel's own Python function leaves them."""
    names = exec_source(program.text, "generated")
    found = []
    for data_set in range(DATA_SETS):
        args = _arguments(program, names["R"], data_set)
        grid, block = program.grid or program.total, program.block or 1
        launch = Launch(grid, block, program.shared_bytes, is_reversed=is_reversed)
        simulate_launch(names["kernel"], launch, tuple(args))
        found.append(args)
    return found


def _run(program: PythonProgram, target: str) -> list[list[Any]]:
    names = exec_source(program.text, "generated")
    kernel, found = names["kernel"], []
    for data_set in range(DATA_SETS):
        args = _arguments(program, names["R"], data_set)
        with kd.use(target):
            if program.grid is None:
                kernel.forall(program.total)(*args)
            else:
                kernel[program.grid, program.block, None, program.shared_bytes](*args)
            kd.synchronize()
        found.append(args)
    return found


def check_python(program: PythonProgram, targets: list[str]) -> Iterator[Outcome]:
    """Run a program on each target, beside its own Python function."""
    expected = expected_arguments(program)
    for target in targets:
        kind, detail = "right", ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = _run(program, target)
                detail = "" if target == "null" else compare(found, expected)
                kind = "mismatch" if detail else "right"
            except KernelError as error:
                kind, detail = "refused", str(error)
            except Exception as error:  # noqa: BLE001 - each is an outcome
                kind, detail = "crash", f"{type(error).__name__}: {error}"
        yield Outcome(program.seed, target, "plain", kind, detail)


def main(first: int, count: int, targets: list[str]) -> None:
    """Run the programs of `count` seeds from `first` on."""
    for seed in range(first, first + count):
        start = time.process_time()
        faulthandler.dump_traceback_later(PATIENCE - 10)
        print(json.dumps({"seed": seed, "target": ",".join(targets), "variant": ""}), flush=True)
        program = generate_python(seed)
        told = {
            "seed": seed,
            "outcomes": [each.as_json() for each in check_python(program, targets)],
            "seconds": time.process_time() - start,
            "features": sorted(program.features),
        }
        print(json.dumps(told), flush=True)
        for name in [n for n in linecache.cache if n.startswith("<generated")]:
            del linecache.cache[name]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(","))
