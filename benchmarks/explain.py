"""Explanations of some forty kernels, against Nsight Compute's counters where it is there.

Run it with nothing else on the device::

    python benchmarks/explain.py --json benchmarks/results/explain-h200.json

Without ``ncu``, or with ``--no-counters``, it prints what the explanations say. With it, the
kernels are launched once each in one process under ``ncu``, with caches that are flushed before
each, and the counters of the launches are compared with the explanations: sectors a request of
global loads and stores, wavefronts of shared ones, operations on floats, and bytes read from device
memory. For accesses whose index is no data the counts must be equal, else within 10 %, as bytes.

Each difference is named, and its reason where it is known: a compiler may merge accesses of a
thread that the kernel writes one by one, or load once what it writes twice. The exit status says
whether all others agree.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from explain_kernels import CASES, Case

__all__ = ["main"]

_GLOBAL = "pipe_lsu_mem_global_op"
#: Those of instructions; the counters of the data stage have what waits for others, too.
_WAVEFRONTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op"
#: What is compared: its name, and the counters that are added up.
_COUNTERS: dict[str, tuple[str, ...]] = {
    "load requests": (f"l1tex__t_requests_{_GLOBAL}_ld.sum",),
    "load sectors": (f"l1tex__t_sectors_{_GLOBAL}_ld.sum",),
    "store requests": (f"l1tex__t_requests_{_GLOBAL}_st.sum",),
    "store sectors": (f"l1tex__t_sectors_{_GLOBAL}_st.sum",),
    "shared load requests": ("smsp__inst_executed_op_shared_ld.sum",),
    "shared load wavefronts": (f"{_WAVEFRONTS}_ld.sum",),
    "shared store requests": ("smsp__inst_executed_op_shared_st.sum",),
    "shared store wavefronts": (f"{_WAVEFRONTS}_st.sum",),
    "flops": tuple(
        f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"
        for op in ("fadd", "fmul", "ffma", "ffma", "dadd", "dmul", "dfma", "dfma")
    ),
    "dram read bytes": ("dram__bytes_read.sum",),
}
#: What is told of a launch: its name, and the counts whose quotient it is, or one count.
_TOLD: dict[str, tuple[str, str | None]] = {
    "sectors/load": ("load sectors", "load requests"),
    "sectors/store": ("store sectors", "store requests"),
    # Not a request: the counter has those of warps whose lanes all are switched off, too.
    "wavefronts, loads": ("shared load wavefronts", None),
    "wavefronts, stores": ("shared store wavefronts", None),
    "flops": ("flops", None),
    "DRAM read": ("dram read bytes", None),
}
#: By how much a count may differ, of an affine access and of another, and bytes of device memory.
_EXACT, _NEAR = 1e-3, 0.1
#: Counters' prefixes of units, which ``ncu`` chooses where it is not told otherwise.
_UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}


def explained(case: Case) -> dict[str, float]:
    """Return what an explanation says of a launch."""
    found = case.kernel.explain(
        *case.make(), block=case.block, grid=case.grid, arch="sm_90", occupancy=False
    )
    counts = dict.fromkeys(_COUNTERS, 0.0)
    for each in found.accesses:
        if each.operation == "atomic" or each.space not in ("global", "shared"):
            continue
        prefix = each.operation if each.space == "global" else f"shared {each.operation}"
        counts[f"{prefix} requests"] += each.requests
        if each.space == "global":
            counts[f"{prefix} sectors"] += each.sectors
        else:
            counts[f"{prefix} wavefronts"] += each.wavefronts
    counts["flops"] = found.flops()
    counts["dram read bytes"] = found.dram_read_bytes
    return counts


def launch_all() -> None:
    """Launch each kernel once, in their order."""
    import kerneldsl as kd

    with kd.use("cuda"):
        for case in CASES:
            given = [kd.to_device(a) if hasattr(a, "shape") and a.shape else a for a in case.make()]
            case.kernel[case.grid, case.block](*given)
            kd.synchronize()


def counted() -> list[dict[str, float]]:
    """Return the counters of each launch, in their order."""
    metrics = sorted({each for group in _COUNTERS.values() for each in group})
    command = [
        *("ncu", "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(metrics)),
        *(sys.executable, str(Path(__file__).resolve()), "--launch"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    if done.returncode != 0 or start is None:
        raise SystemExit(f"ncu failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[start:]))))
    launches = [row for row in rows if row["ID"]]  # the first row holds the units
    wanted = [case.kernel.__name__ for case in CASES]
    mine = _in_order(launches, wanted)
    return [
        {name: sum(_number(row[each]) for each in group) for name, group in _COUNTERS.items()}
        for row in mine
    ]


def _in_order(launches: Iterable[dict[str, str]], wanted: list[str]) -> list[dict[str, str]]:
    """Return the launches of our kernels; others of the library may lie between."""
    found: list[dict[str, str]] = []
    for row in launches:
        if len(found) < len(wanted) and wanted[len(found)] in row["Kernel Name"]:
            found.append(row)
    if len(found) != len(wanted):
        raise SystemExit(f"ncu saw {len(found)} of {len(wanted)} launches, up to {found[-1:]}")
    return found


def _number(text: str) -> float:
    return float(text.replace(",", "")) if text else 0.0


def told(counts: dict[str, float]) -> dict[str, float]:
    """Return what is compared of a launch."""
    return {
        name: counts[over] / (counts[under] or 1.0) if under else counts[over]
        for name, (over, under) in _TOLD.items()
    }


def misses(case: Case, one: dict[str, float], other: dict[str, float]) -> dict[str, str]:
    """Return what an explanation says otherwise than the counters, and why."""
    found = {}
    for name, value in told(one).items():
        limit = _EXACT if case.is_affine and name != "DRAM read" else _NEAR
        counter = told(other)[name]
        if abs(value - counter) > limit * max(abs(counter), 1e-9):
            found[name] = case.because.get(name, "")
    return found


def show(rows: list[dict[str, Any]]) -> None:
    """Print a line for each kernel, with the counter behind each number where it is known."""
    names = list(_TOLD)
    print("kernel".ljust(24) + "".join(name.rjust(22) for name in names))
    for row in rows:
        cells = []
        for name in names:
            text = _short(row["explained"][name])
            if "counted" in row:
                text += f" | {_short(row['counted'][name])}"
            cells.append(text.rjust(22))
        print(row["name"].ljust(24) + "".join(cells))
        for name, reason in row.get("misses", {}).items():
            print(f"{'':24}  {name} differs: {reason or 'WHY IS NOT KNOWN'}")


def _short(value: float) -> str:
    return f"{value:.4g}"


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="file to write")
    parser.add_argument("--no-counters", action="store_true", help="explanations alone")
    parser.add_argument("--commit", help="what is measured, where git cannot say")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        launch_all()
        return 0
    counters: list[dict[str, float]] | None = None
    if shutil.which("ncu") and not options.no_counters:
        counters = counted()
    rows: list[dict[str, Any]] = []
    for number, case in enumerate(CASES):
        counts = explained(case)
        row: dict[str, Any] = {"name": case.name, "is_affine": case.is_affine}
        row |= {"explained": told(counts), "explained counts": counts}
        if counters is not None:
            row |= {"counted": told(counters[number]), "counts": counters[number]}
            row["misses"] = misses(case, counts, counters[number])
        rows.append(row)
    show(rows)
    unknown = 0
    if counters is not None:
        agreeing = sum(not row["misses"] for row in rows)
        unknown = sum(not all(row["misses"].values()) for row in rows)
        print(
            f"{agreeing} of {len(rows)} kernels agree in everything, {unknown} differ unexplained"
        )
    if options.json:
        from machine import describe_gpu_machine

        machine = describe_gpu_machine(options.commit) if counters is not None else {}
        options.json.write_text(json.dumps({"machine": machine, "kernels": rows}, indent=1) + "\n")
    return 1 if unknown else 0


if __name__ == "__main__":
    raise SystemExit(main())
