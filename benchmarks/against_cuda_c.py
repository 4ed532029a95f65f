"""Kernels as people write them for CUDA, against their texts in CUDA C and numba-cuda.

On a GPU with nothing else on it::

    python benchmarks/against_cuda_c.py --json benchmarks/results/cuda-c-h200.json

``benchmarks/cuda_c`` holds the kernels, each beside its text in CUDA C, which NVRTC compiles in the
same run with nvcc's defaults (no fast math). All contenders have the same grid and block, and the
same arrays: the same code on other arrays took up to 10 % more time on an H200. Their results are
compared. They take turns; device times are taken with CUDA events around launches that are queued
behind a waiting kernel. Of contenders that are close more samples are taken. Of element kernels the
launch that ``forall`` plans takes part, too.

Without a GPU, ``--static`` compiles both sides for an architecture, and reports registers, spills
and, where there is ``nvdisasm``, instructions. NVRTC is in the wheel ``nvidia-cuda-nvrtc``.

Bounds are times of CUDA C over ours, by case and as a geometric mean: ``BOUNDS``.
"""

# ruff: noqa: E402 -- the benchmark's own folder comes first
from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "benchmarks")]

import numpy as np

if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack  # type: ignore[attr-defined]  # numba-cuda 0.30 needs it

from cuda_c import blocks, fields, floats, integers, lanes, matrices, records, reductions
from cuda_c.case import Arguments, Case
from cuda_c.contenders import CompiledC, compiled_c, of_numba, on_device, pointers

import kerneldsl as kd
from kerneldsl.contract import ONE_EACH
from kerneldsl.launch.artifact import find_artifact
from kerneldsl.launch.specialize import specialize

_MODULES = (lanes, reductions, integers, floats, fields, matrices, blocks, records)
#: Least time over ours of each rival, and least geometric mean.
BOUNDS = {"CUDA C": (0.90, 1.00), "numba-cuda": (1.00, 1.00)}
#: Cases that may be below this are so many.
_FEW, _NEARLY = 3, 0.95
#: Of contenders that are this close, so many times as many samples are taken in addition.
_CLOSE, _MORE = 0.012, 5
#: How long the launches of a sample take together, about.
_SAMPLE_S = 1e-3
_MOST_LAUNCHES = 50


def main() -> int:
    """Measure, print and store; return 1 if a bound is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=11, help="samples of each contender")
    parser.add_argument("--only", default="", help="parts of the names of the cases to run")
    parser.add_argument("--static", metavar="ARCH", help="compile alone, such as for sm_90")
    parser.add_argument("--include", help="folder of CUDA's headers, where NVRTC finds none")
    parser.add_argument("--commit", help="what is measured, where there is no git repository")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    parts = options.only.split(",")
    cases = [
        c for module in _MODULES for c in module.cases() if any(part in c.name for part in parts)
    ]
    if options.static:
        machine: dict[str, Any] = {"arch": options.static}
        rows = list(_compiled_rows(cases, options))
    else:
        from machine import describe_gpu_machine

        machine = describe_gpu_machine(options.commit)
        print(json.dumps(machine, indent=1), flush=True)
        rows = list(_measured_rows(cases, options))
    summary = _summarized(rows)
    for rival, found in summary.items():
        print(f"{rival}: {json.dumps(found)}")
    if options.json:
        report = {"machine": machine, "rows": rows, "summary": summary}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    is_kept = all(found["kept"] for found in summary.values())
    return 0 if is_kept and not any("failed" in row for row in rows) else 1


# -------------------------------------------------------------------------------- with a GPU


def _measured_rows(cases: list[Case], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    kd.use("cuda:0")
    arch = kd.device_info().arch
    for case in cases:
        try:
            row = _measured(case, compiled_c(case.source, arch, options.include), options.rounds)
        except Exception as error:  # noqa: BLE001 - the others are measured all the same
            row = {"case": case.name, "failed": f"{type(error).__name__}: {error}"}
        print(_shown(row), flush=True)
        yield row


def _measured(case: Case, theirs: CompiledC, rounds: int) -> dict[str, Any]:
    from device_time import device_seconds, in_turns

    made = case.make(np.random.default_rng(7))
    given = on_device(made)
    launches: dict[str, Callable[[], object]] = {
        "ours": case.kernel[case.grid, case.block].bind(*given),
        "CUDA C": theirs.launch(case, pointers(case.passed(given))),
    }
    row: dict[str, Any] = {"case": case.name, "moved_bytes": case.moved_bytes}
    if case.extent is not None:
        launches["forall"] = case.kernel.forall(*case.extent).bind(*given)
    if case.is_typed_by_numba:
        try:
            launches["numba-cuda"] = _launch_of_numba(case, given)
        except Exception as error:  # noqa: BLE001 - what it cannot compile is part of the table
            row["numba_refuses"] = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
    results = {name: _results(launch, made, given) for name, launch in launches.items()}
    for name in results.keys() - {"CUDA C"}:
        case.compare(results[name], results["CUDA C"])
    count = max(1, min(_MOST_LAUNCHES, int(_SAMPLE_S / device_seconds(launches["CUDA C"], 1))))
    samples = in_turns(launches, rounds, count)
    if _is_close(samples):
        more = in_turns(launches, _MORE * rounds, count)
        samples = {name: taken + more[name] for name, taken in samples.items()}
    row["seconds"] = {name: statistics.median(taken) for name, taken in samples.items()}
    row["samples"] = len(samples["ours"])
    row["resources"] = {
        "ours": _resources(case.kernel.resources(*given)),
        "CUDA C": theirs.resources(case.name),
    }
    return row


def _results(launch: Callable[[], object], made: Arguments, given: Arguments) -> Arguments:
    """Return what a launch leaves of its arguments; the same arrays serve all contenders."""
    for array, source in zip(given, made, strict=True):
        if hasattr(array, "copy_from_host"):
            array.copy_from_host(source)
    launch()
    return tuple(a.copy_to_host() if hasattr(a, "copy_to_host") else a for a in given)


def _is_close(samples: dict[str, list[float]]) -> bool:
    """Return whether a ratio of medians is so close to 1 that few samples may be on either side."""
    medians = {name: statistics.median(taken) for name, taken in samples.items()}
    ratios = [
        medians[rival] / medians[mine]
        for mine in ("ours", "forall")
        for rival in BOUNDS
        if rival in medians and mine in medians
    ]
    return any(abs(ratio - 1) < _CLOSE for ratio in ratios)


def _launch_of_numba(case: Case, given: Arguments) -> Callable[[], object]:
    launcher = of_numba(case)[case.grid, case.block]
    passed = _arrays_of_numba(given)
    launcher(*passed)  # compiles
    return lambda: launcher(*passed)


def _arrays_of_numba(arguments: Arguments) -> Arguments:
    from numba import cuda

    return tuple(cuda.as_cuda_array(a) if hasattr(a, "copy_to_host") else a for a in arguments)


def _resources(found: Any) -> dict[str, int]:
    return {"registers": found.registers, "local_bytes": found.local_bytes}


# ----------------------------------------------------------------------------- without a GPU


def _compiled_rows(cases: list[Case], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for case in cases:
        arguments = case.make(np.random.default_rng(7))
        theirs = compiled_c(case.source, options.static, options.include)
        artifact = _artifact(case, arguments, options.static)
        row = {
            "case": case.name,
            "instructions": {
                "ours": _instructions(artifact.code("cubin"), None),
                "CUDA C": _instructions(theirs.cubin, case.name),
            },
            "resources": {"ours": _resources(artifact.resources())},
        }
        print(json.dumps(row), flush=True)
        yield row


def _artifact(case: Case, arguments: Arguments, arch: str) -> Any:
    """Return what a launch with such arrays on a device is compiled to."""
    launch = case.kernel[case.grid, case.block]
    request = case.kernel._dispatcher.request(launch._shape, arguments, None, arch)
    promises, threads = request.state.promises, launch._shape.threads
    request = request.with_promises(promises.number_of(request.binding, None, threads))
    specialization = specialize(request, ONE_EACH)
    return find_artifact(request.state, request.device.compiler, specialization)


def _instructions(cubin: bytes, name: str | None) -> int | None:
    """Return the number of instructions of a kernel; ``None`` without nvdisasm."""
    from targets.cuda.compile.ptxas import disassemble

    try:
        text = disassemble(cubin)
    except kd.KernelError:
        return None
    if name is not None:
        text = text.partition(f".text.{name}:")[2].partition(".section")[0]
    return sum(line.strip().endswith(";") and "NOP" not in line for line in text.splitlines())


# ------------------------------------------------------------------------------------- report


def _ratio(row: dict[str, Any], rival: str, mine: str = "ours") -> float | None:
    seconds = row.get("seconds", {})
    return seconds[rival] / seconds[mine] if rival in seconds and mine in seconds else None


def _shown(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"{row['case']:22s} FAILED {row['failed']}"
    times = ", ".join(f"{name} {1e6 * s:.1f}" for name, s in row["seconds"].items())
    ratios = [f"{_ratio(row, rival) or math.nan:5.2f}x of {rival}" for rival in BOUNDS]
    registers = " ".join(str(each["registers"]) for each in row["resources"].values())
    return f"{row['case']:22s} {'  '.join(ratios)}  ({times} us; registers {registers})"


def _summarized(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {}
    pairs = [(rival, "ours", *bound) for rival, bound in BOUNDS.items()]
    pairs.append(("CUDA C", "forall", 1.00, 1.00))
    for rival, mine, each, mean in pairs:
        ratios = {row["case"]: _ratio(row, rival, mine) for row in rows}
        known = {name: ratio for name, ratio in ratios.items() if ratio is not None}
        if not known:
            continue
        reached = math.exp(math.fsum(map(math.log, known.values())) / len(known))
        below = sorted((ratio, name) for name, ratio in known.items() if ratio < each)
        nearly = sum(ratio < _NEARLY for ratio in known.values())
        is_few = mine == "forall" or rival != "CUDA C" or nearly <= _FEW
        found[f"{rival} over {mine}"] = {
            "cases": len(known),
            "geometric_mean": round(reached, 3),
            "below": {name: round(ratio, 3) for ratio, name in below},
            "kept": reached >= mean and not below and is_few,
        }
    return found


if __name__ == "__main__":
    raise SystemExit(main())
