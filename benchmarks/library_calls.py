"""Time on the host from one call of a function of ``stdlib_kernels`` to the next, on small arrays.

On a CPU, on the null target, which has no driver's cost of its own, or on a GPU::

    python benchmarks/library_calls.py --device cpu --json benchmarks/results/calls-cpu.json

Of each function three times are printed, in microseconds, medians of turns that are taken in one
run: of a call whose launches are planned anew, of a call like one before, and of NumPy's function,
or torch's where it is there. Below are floors: a plain launch of a kernel, and the arrays that each
call makes; on a CPU also calls on ten elements of NumPy's, which are held to a limit, and `sum` of
a torch tensor in host memory, which is held to a limit, too. On a
GPU calls follow each other without waiting, so that the device may be what binds.
"""

# ruff: noqa: E402 -- the repository is put before other places first
from __future__ import annotations

import argparse
import functools
import inspect
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "benchmarks")]

import kerneldsl as kd
from stdlib_kernels import elementwise, histogram, linalg, movement, reduce, rows, scan, sort
from stdlib_kernels.copying import copy_1d

_ELEMENTS = 1 << 10
#: Microseconds of a repeated call on ten elements of NumPy's, at most.
_FEW_LIMIT_US = 6.0
#: Elements of a tensor in host memory, and microseconds of its sum.
_TENSOR_ELEMENTS, _TENSOR_LIMIT_US = 1000, 8.0
_TURNS = 21


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


def _itself(v: Any) -> Any:
    return v


def _doubled(v: Any) -> Any:
    return v + v


def cases(x: Any, plane: Any, weight: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Return the functions, with their arguments; a name is NumPy's and torch's, too."""
    for name in ("sum", "max", "argmax", "mean", "var"):
        yield name, getattr(reduce, name), (x,)
    yield "cumsum", functools.partial(scan.cumsum, axis=0), (x,)
    yield "softmax", rows.softmax, (plane,)
    yield "layer_norm", rows.layer_norm, (plane, weight, weight)
    yield "transpose", linalg.transpose, (plane,)
    yield "matmul", linalg.matmul, (plane, plane)
    yield "where", elementwise.where, (x, x, x)
    yield "clip", elementwise.clip, (x, 0.25, 0.75)
    yield "map", functools.partial(elementwise.map, _doubled), (x,)


def few_cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Return calls on ten elements, which are held to a limit on a CPU."""
    random = np.random.default_rng(0)
    x, at = random.random(10), random.integers(0, 10, 10)
    yield "sum", lambda: reduce.sum(x)
    yield "take", lambda: movement.take(x, at)
    yield "flip", lambda: movement.flip(x)
    yield "roll", lambda: movement.roll(x, 3)
    yield "sort", lambda: sort.sort(x)
    yield "argsort", lambda: sort.argsort(x)
    yield "bincount", lambda: histogram.bincount(at)


def _planned_anew(function: Any) -> Any:
    """Return a function as it was before its calls were repeated."""
    if isinstance(function, functools.partial):
        return functools.partial(_planned_anew(function.func), *function.args, **function.keywords)
    return inspect.unwrap(function)


def _peer(name: str, arrays: tuple[Any, ...], torch: Any, device: str) -> Callable[[], Any] | None:
    """Return torch's function of a name on arrays like these, or NumPy's."""
    host = [each.copy_to_host() if isinstance(each, kd.DeviceArray) else each for each in arrays]
    library: Any = np
    if torch is not None:
        place = "cuda" if device.startswith("cuda") else "cpu"
        host = [torch.as_tensor(v).to(place) if isinstance(v, np.ndarray) else v for v in host]
        library = torch
        if name == "layer_norm":
            shape = (host[0].shape[1],)
            return lambda: torch.nn.functional.layer_norm(host[0], shape, *host[1:])
    functions = {
        "cumsum": lambda v: library.cumsum(v, 0),
        "softmax": getattr(library, "softmax", None) and (lambda v: library.softmax(v, 1)),
        "transpose": lambda v: v.T.copy() if library is np else v.T.contiguous(),
        "where": lambda c, a, b: library.where(c != 0, a, b),
        "map": lambda v: v + v,
    }
    function = functions.get(name, getattr(library, name, None))
    return None if function is None else lambda: function(*host)


def _samples(calls: dict[str, Callable[[], Any]], count: int) -> dict[str, float]:
    """Return the median microseconds of a call, of contenders that take turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(-3, _TURNS):
        for name, call in calls.items():
            kd.synchronize()
            started = time.perf_counter()
            for _ in range(count):
                call()
            if turn >= 0:  # the first make the native launcher, and its tables
                found[name].append((time.perf_counter() - started) / count * 1e6)
    return {name: statistics.median(each) for name, each in found.items()}


def _of_a_tensor(torch: Any, count: int) -> dict[str, float]:
    """Return the microseconds of `sum` of a tensor in host memory, and those of its peers."""
    tensor = torch.arange(_TENSOR_ELEMENTS, dtype=torch.float32)
    array = tensor.numpy()
    calls: dict[str, Callable[[], Any]] = {
        "sum": lambda: reduce.sum(tensor),
        "sum of a NumPy array": lambda: reduce.sum(array),
        "torch": lambda: torch.sum(tensor),
    }
    return _samples(calls, count)


def main() -> int:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--count", type=int, default=20, help="calls of a sample")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch = _torch()
    if torch is not None and arguments.device.startswith("cuda") and not torch.cuda.is_available():
        torch = None
    peer = "NumPy" if torch is None else "torch"
    random = np.random.default_rng(0)
    results: dict[str, dict[str, float]] = {}
    with kd.use(arguments.device):
        x = kd.to_device(random.random(_ELEMENTS, np.float32))
        plane = x.reshape(32, -1)
        weight = kd.to_device(np.ones(plane.shape[1], np.float32))
        for name, function, given in cases(x, plane, weight):
            calls: dict[str, Callable[[], Any]] = {
                "planned anew": functools.partial(_planned_anew(function), *given),
                "repeated": functools.partial(function, *given),
            }
            theirs = _peer(name, given, torch, arguments.device)
            if theirs is not None:
                calls[peer] = theirs
            results[name] = _samples(calls, arguments.count)
            shown = ", ".join(f"{who} {us:.2f}" for who, us in results[name].items())
            print(f"{name}: {shown} us", flush=True)
        out, started = kd.empty(_ELEMENTS, np.float32), copy_1d.member(convert=_itself)[4, 256]
        floors = {"a launch": lambda: started(x, out), "an array": lambda: kd.empty(1, np.float32)}
        results["floors"] = _samples(floors, arguments.count)
        print("floors:", ", ".join(f"{who} {us:.2f} us" for who, us in results["floors"].items()))
        name = kd.device_info().name
        slow: list[str] = []
        if arguments.device == "cpu":
            few = _samples(dict(few_cases()), 20 * arguments.count)
            results["ten elements"] = few
            slow = [f"{who} {us:.2f} us" for who, us in few.items() if us > _FEW_LIMIT_US]
            print("ten elements:", ", ".join(f"{who} {us:.2f} us" for who, us in few.items()))
            if torch is not None:
                row = results["a tensor"] = _of_a_tensor(torch, 20 * arguments.count)
                if row["sum"] > _TENSOR_LIMIT_US:
                    slow.append(f"sum of a tensor {row['sum']:.2f} us")
                print("a tensor:", ", ".join(f"{who} {us:.2f} us" for who, us in row.items()))
    if arguments.json is not None:
        stored = {"device": name, "elements": _ELEMENTS, "unit": "us", "calls": results}
        arguments.json.write_text(json.dumps(stored, indent=1) + "\n")
    if slow:
        limits = f"{_FEW_LIMIT_US} us, of a tensor {_TENSOR_LIMIT_US} us"
        print(f"BROKEN at most {limits}:", ", ".join(slow))
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
