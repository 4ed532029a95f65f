"""A process that runs programs of integers beside their oracles: see :mod:`tests.fuzz.worker`.

The oracle computes a program twice: by the types of docs/adr/0031, as a kernel must compute it, and
as if a uint64 that meets a signed number kept its value. Where the two differ, the kernel must have
warned.
"""

from __future__ import annotations

import faulthandler
import json
import linecache
import operator
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import kerneldsl as kd
from tests.fuzz.integer_programs import IntegerProgram, generate_integers
from tests.fuzz.outcomes import Outcome
from tests.fuzz.regions import REGIONS, UNREAD, read_functions
from tests.fuzz.worker import PATIENCE
from tests.support.arrays import poisoned
from tests.support.regions.running import run
from tests.support.simt import Launch
from tests.support.source import exec_source

__all__ = ["check_integers", "main"]

_SIZE = 37
_SAID = ("so it becomes int64", "so the result is int64")


class _Kept(int):
    """A number of 2**63 or more where the rules make it an int64."""


def wrapped(value: int, dtype: str) -> int:
    """Return a number modulo the width of a type."""
    bits = int(dtype.lstrip("uint"))
    value = int(value) & (2**bits - 1)
    return value if dtype.startswith("u") or value < 2 ** (bits - 1) else value - 2**bits


def _computed(symbol: str, one: int, two: int, dtype: str) -> int:
    match symbol:
        case "//" | "%":
            if two == 0:
                return 0
            if dtype == "int64" and one == -(2**63) and two == -1:
                return 0
            return one // two if symbol == "//" else one % two
        case "<<":
            return one << two if 0 <= two < 64 else 0
        case ">>":
            return one >> (two if 0 <= two < 64 else 64)
        case "-x":
            return -one
        case "~x":
            return ~one
        case "to" | "as":
            return one
        case "abs":
            return abs(one)
        case "min" | "max":
            return (min if symbol == "min" else max)(one, two)
    return int(_OPERATORS[symbol](one, two))


_OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}


class Oracle:
    """Computes a program; with `is_exact`, no uint64 changes its value where it becomes int64."""

    def __init__(self, *, is_exact: bool) -> None:
        self.is_exact = is_exact

    def operate(self, symbol: str, dtype: str, one: int, two: int) -> int:
        """Compute one operation in a type."""
        # A conversion that is written, ``to``, changes a sign because it says so.
        may_keep = self.is_exact and symbol != "to"
        if symbol in ("min", "max") and may_keep:
            # Only the number that is chosen may change; the other was compared exactly.
            one = two = min(one, two) if symbol == "min" else max(one, two)
        is_kept = may_keep and any(self._is_kept(each, dtype) for each in (one, two))
        if symbol not in ("min", "max", "abs", "to", "as") and not is_kept:
            one, two = wrapped(one, dtype), wrapped(two, dtype)
        result = _computed(symbol, int(one), int(two), dtype)
        if is_kept and -(2**63) <= result < 2**64:
            return _Kept(result)
        return wrapped(result, dtype)

    @staticmethod
    def _is_kept(value: int, dtype: str) -> bool:
        return dtype == "int64" and (value >= 2**63 or isinstance(value, _Kept))


def _expected(program: IntegerProgram, inputs: list[Any], *, is_exact: bool) -> list[list[Any]]:
    found: dict[tuple[int, int], Any] = {}
    space: dict[str, Any] = {}
    exec(program.oracle, space)
    oracle = Oracle(is_exact=is_exact)
    for i in range(_SIZE):
        space["thread"](
            i,
            lambda place, at: int(inputs[place][at]),
            lambda place, at, value: found.__setitem__((place, at), value),
            oracle.operate,
        )
    return [
        [_stored(found[place, at], dtype) for at in range(_SIZE)]
        for place, dtype in enumerate(program.outputs)
    ]


def _stored(value: Any, dtype: str) -> Any:
    if dtype == "bool":
        return bool(value)
    return float(value) if dtype == "float64" else wrapped(value, dtype)


def _inputs(program: IntegerProgram) -> list[Any]:
    rng = np.random.default_rng(program.seed)
    arrays = []
    for dtype in program.inputs:
        limits = np.iinfo(dtype)
        whole = rng.integers(limits.min, limits.max, _SIZE, dtype, endpoint=True)
        small = rng.integers(max(limits.min, -4), 20, _SIZE, dtype)
        edges = rng.choice(np.array([limits.min, limits.max, limits.max // 2, 0, 1], dtype), _SIZE)
        arrays.append(rng.choice(np.stack([whole, small, edges]), axis=0))
        choose = rng.integers(3, size=_SIZE)
        arrays[-1] = np.where(choose == 0, whole, np.where(choose == 1, small, edges))
    return arrays


def check_integers(program: IntegerProgram, targets: list[str]) -> Iterator[Outcome]:
    """Yield what comes of a program on each target."""
    inputs = _inputs(program)
    expected = _expected(program, inputs, is_exact=False)
    differs = expected != _expected(program, inputs, is_exact=True)
    scalars = [
        value if kind == "int" else getattr(np, kind)(value) for kind, value in program.scalars
    ]
    for target in targets:
        kernel = exec_source(program.kernel, "generated")["kernel"]
        outputs = [poisoned(_SIZE, dtype) for dtype in program.outputs]
        if target == REGIONS:
            yield _in_regions(program, kernel, (*inputs, *scalars), expected)
            continue
        with warnings.catch_warnings(record=True) as caught, kd.use(target):
            warnings.simplefilter("always")
            try:
                args = (*inputs, *scalars, *outputs)
                if program.has_barrier:
                    kernel[1, _SIZE](*args)
                else:
                    kernel.forall(_SIZE)(*args)
            except kd.KernelTypingError as error:
                kind = "right" if program.may_be_refused and _SAID[0] in str(error) else "refused"
                yield Outcome(program.seed, target, "plain", kind, str(error))
                continue
            except Exception as error:  # noqa: BLE001 - each is an outcome
                yield Outcome(program.seed, target, "plain", "crash", f"{type(error)}: {error}")
                continue
        texts = [str(each.message) for each in caught]
        if target == "null":
            yield Outcome(program.seed, target, "plain", "right")
            continue
        yield _compared(program, target, expected, outputs, differs=differs, texts=texts)


def _in_regions(
    program: IntegerProgram, kernel: Any, inputs: tuple[Any, ...], expected: list[list[Any]]
) -> Outcome:
    """Interpret the region IR, as it is read and after its passes."""

    def outcome(kind: str, detail: Any = "") -> Outcome:
        return Outcome(program.seed, REGIONS, "plain", kind, str(detail))

    found = outcome("right")
    try:
        outputs = [poisoned(_SIZE, dtype) for dtype in program.outputs]
        args = (*inputs, *outputs)
        shape = {"block": (_SIZE,)} if program.has_barrier else {"forall": 1}
        launch = Launch(1, _SIZE) if program.has_barrier else Launch(_SIZE)
        for function, watch in read_functions(kernel, args, **shape):
            run(function, launch, args, watch)
            found = _compared(program, REGIONS, expected, outputs, differs=False, texts=[])
            if found.kind != "right":
                break
    except UNREAD as reason:
        return outcome("unread", reason)
    except kd.KernelTypingError as error:
        is_right = program.may_be_refused and _SAID[0] in str(error)
        return outcome("right" if is_right else "refused", error)
    except Exception as error:  # noqa: BLE001 - each is an outcome
        return outcome("crash", f"{type(error).__name__}: {error}")
    return found


def _compared(
    program: IntegerProgram,
    target: str,
    expected: list[list[Any]],
    outputs: list[Any],
    *,
    differs: bool,
    texts: list[str],
) -> Outcome:
    for place, (wanted, found) in enumerate(zip(expected, outputs, strict=True)):
        for at, (one, two) in enumerate(zip(wanted, found.tolist(), strict=True)):
            if one != two:
                detail = f"o{place}[{at}] is {two}, not {one}"
                return Outcome(program.seed, target, "plain", "mismatch", detail)
    if differs and not any(said in text for text in texts for said in _SAID):
        return Outcome(program.seed, target, "plain", "mismatch", "a sign changes without a word")
    return Outcome(program.seed, target, "plain", "right")


def main(first: int, count: int, targets: list[str]) -> None:
    """Run the programs of `count` seeds from `first` on."""
    for seed in range(first, first + count):
        start = time.process_time()
        faulthandler.dump_traceback_later(PATIENCE - 10)
        print(json.dumps({"seed": seed, "target": ",".join(targets), "variant": ""}), flush=True)
        program = generate_integers(seed)
        outcomes = [each.as_json() for each in check_integers(program, targets)]
        told = {
            "seed": seed,
            "seconds": time.process_time() - start,
            "features": sorted(program.features),
            "outcomes": outcomes,
        }
        print(json.dumps(told), flush=True)
        for name in [n for n in linecache.cache if n.startswith("<generated")]:
            del linecache.cache[name]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(","))
