"""Kernels of published packages under the drop-in, against the other ways to run them.

    python benchmarks/drop_in.py --packages DIRECTORY --device gpu|cpu [--json FILE]

DIRECTORY has the packages, one below another or each in a folder, as ``make drop-in`` installs
them; their texts are unchanged. On a GPU the other side is numba-cuda, in the same process, with
the same grid, block and arguments; sides take turns. The launches are of so little data that the
host's time is what takes. On a CPU it is the same function under ``kd.kernel``, and numba-cuda's
simulator with a small grid, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "benchmarks")]

from drop_in_kernels import KERNELS, PackageKernel, load  # noqa: E402

#: Bounds: numba-cuda's time over ours, of each kernel and of all; of a launch on the host; of the
#: simulator; and the time of `kd.kernel` over ours.
EACH, MEAN, LAUNCH, SIMULATOR, OWN = 1.0, 1.3, 5.0, 500.0, 0.9


def add_packages(directory: Path) -> None:
    """Put the folders that have the packages on the search path."""
    folders = [directory, *sorted(each for each in directory.iterdir() if each.is_dir())]
    sys.path[1:1] = [str(each) for each in folders]


def kernels(only: str) -> list[PackageKernel]:
    return [each for each in KERNELS if only in each.name]


def forget_packages() -> None:
    """Have the packages imported anew."""
    roots = {each.path.partition(":")[0].partition(".")[0] for each in KERNELS}
    for name in list(sys.modules):
        if name.partition(".")[0] in roots:
            del sys.modules[name]


def load_ours(chosen: list[PackageKernel]) -> dict[str, Any]:
    """Return the kernels under the drop-in, which is then taken away again."""
    import kerneldsl.drop_in as drop_in

    found = {each.name: plain(load(each)) for each in chosen if can_load(each)}
    forget_packages()
    sys.meta_path.remove(drop_in._finder)
    for name in [each for each in sys.modules if each.startswith("numba.cuda")]:
        del sys.modules[name]
    import numba

    vars(numba).pop("cuda", None)
    return found


def can_load(kernel: PackageKernel) -> bool:
    try:
        load(kernel)
    except Exception as error:  # noqa: BLE001 - the others are measured all the same
        print(f"{kernel.name:48s} NOT LOADED {type(error).__name__}: {error}"[:250], flush=True)
        return False
    return True


def plain(kernel: Any) -> Any:
    """Return the kernel; of fbpic's, which hands them to CuPy, numba.cuda's form of it."""
    from numba import cuda

    function = getattr(kernel, "python_func", None)
    return cuda.jit(function) if function is not None else kernel


def bind(kernel: PackageKernel, found: Any, arguments: list[Any], launch: tuple[Any, Any]) -> Any:
    """Return a launch of the kernel, without arguments."""
    is_factory = kernel.factory and not isinstance(found, dict)
    configured = found(arguments[0].shape) if is_factory else found[launch]
    return lambda: configured(*arguments)


def results(arguments: list[Any]) -> list[Any]:
    return [a.copy_to_host() for a in arguments if hasattr(a, "copy_to_host")]


def error_of(kernel: PackageKernel, ours: list[Any], theirs: list[Any]) -> float:
    """Return the largest difference, relative to the largest element of an array."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if kernel.unordered:
            a, b = np.sort(a, axis=None), np.sort(b, axis=None)
        if b.dtype.kind in "bu":
            a, b = a.astype(np.float64), b.astype(np.float64)
        scale = float(np.abs(b).max()) if b.size else 0.0
        if scale:
            worst = max(worst, float(np.abs(a.astype(b.dtype) - b).max()) / scale)
    return worst


def host_seconds(
    launches: dict[str, Callable[[], object]], synchronize: Callable[[], object]
) -> Any:
    """Return the median time on the host of a launch of each, which take turns."""
    samples: dict[str, list[float]] = {name: [] for name in launches}
    for _ in range(7):
        for name, launch in launches.items():
            synchronize()
            begin = time.perf_counter()
            for _ in range(100):
                launch()
            samples[name].append((time.perf_counter() - begin) / 100)
            synchronize()
    return {name: statistics.median(taken) for name, taken in samples.items()}


def on_gpu(only: str, rounds: int) -> Iterator[dict[str, Any]]:
    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # type: ignore[attr-defined]  # numba-cuda 0.30 needs it
    chosen = kernels(only)
    ours = load_ours(chosen)
    from device_time import in_turns
    from numba import cuda as theirs_cuda

    from kerneldsl import cuda as ours_cuda

    assert theirs_cuda is not ours_cuda
    for kernel in chosen:
        if kernel.name not in ours:
            continue
        try:
            sides = {
                "ours": (ours_cuda, ours[kernel.name]),
                "numba-cuda": (theirs_cuda, plain(load(kernel))),
            }
            rng = np.random.default_rng()
            row: dict[str, Any] = {"kernel": kernel.name}
            for what, size in (("device", kernel.sizes[0]), ("host", kernel.sizes[2])):
                host, *launch = kernel.arguments(rng, size)
                launches, given = {}, {}
                for side, (module, found) in sides.items():
                    given[side] = [
                        module.to_device(a) if isinstance(a, np.ndarray) else a for a in host
                    ]
                    launches[side] = bind(kernel, found, given[side], tuple(launch))
                    launches[side]()
                    module.synchronize()
                found = {side: results(arguments) for side, arguments in given.items()}
                row["error"] = error_of(kernel, found["ours"], found["numba-cuda"])
                if not row["error"] <= kernel.tolerance:
                    raise AssertionError(f"results differ by {row['error']:.3g}")
                if what == "device":
                    samples = in_turns(launches, rounds, 3)
                    row[what] = {side: statistics.median(s) for side, s in samples.items()}
                else:
                    row[what] = host_seconds(launches, theirs_cuda.synchronize)
            yield row
        except Exception as error:  # noqa: BLE001 - the others are measured all the same
            yield {"kernel": kernel.name, "failed": f"{type(error).__name__}: {error}"}


def seconds_of(launch: Callable[[], object], at_least: float) -> float:
    """Return the time of one launch that has ended, of launches that take so long together."""
    launch()
    count, took = 1, 0.0
    while True:
        begin = time.perf_counter()
        for _ in range(count):
            launch()
        took = time.perf_counter() - begin
        if took >= at_least:
            return took / count
        count = max(count + 1, int(count * min(10.0, 1.2 * at_least / max(took, 1e-9))))


def own_kernel(dispatcher: Any) -> Any:
    """Return the function as a kernel of `kd`, with the signatures and options that it has."""
    import kerneldsl as kd

    options = dispatcher.options.compile
    signatures = list(dispatcher.options.signatures) or None
    return kd.kernel(signatures, fastmath=options.fastmath, contract=options.contract)(
        dispatcher.py_func
    )


def on_cpu(only: str, rounds: int, packages: Path, times: Path | None) -> Iterator[dict[str, Any]]:
    import kerneldsl as kd
    from kerneldsl.compat import numpy_as_cupy

    numpy_as_cupy.install()
    kd.use("cpu")
    chosen = kernels(only)
    ours = load_ours(chosen)
    from kerneldsl import cuda

    if times is None:
        command = [sys.executable, __file__, "--packages", packages, "--simulate", "--only", only]
        environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        said = done.stdout
    else:
        said = times.read_text()
    simulated = json.loads(said.splitlines()[-1])
    for kernel in chosen:
        if kernel.name not in ours:
            continue
        try:
            rng = np.random.default_rng()
            found = ours[kernel.name]
            row: dict[str, Any] = {"kernel": kernel.name, "simulator": simulated.get(kernel.name)}
            host, *launch = kernel.arguments(rng, kernel.sizes[2])
            small = [cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in host]
            row["small"] = seconds_of(bind(kernel, found, small, tuple(launch)), 0.02)
            host, *launch = kernel.arguments(rng, kernel.sizes[1])
            # One set of arrays: with two, where they are in memory makes up to a third of the time.
            given = [cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in host]
            mine = bind(kernel, found, given, tuple(launch))
            dispatcher = found(host[0].shape).kernel if kernel.factory else found
            launches = {"ours": mine}
            if not dispatcher.py_func.__defaults__:  # which a kernel of `kd` cannot have
                launches["kd"] = bind(
                    kernel,
                    {tuple(launch): own_kernel(dispatcher)[tuple(launch)]},
                    given,
                    tuple(launch),
                )
            samples: dict[str, list[float]] = {side: [] for side in launches}
            for _ in range(rounds):
                for side, each in launches.items():
                    samples[side].append(seconds_of(each, 0.01))
            for side in launches:
                row[side] = statistics.median(samples[side])
            yield row
        except Exception as error:  # noqa: BLE001 - the others are measured all the same
            yield {"kernel": kernel.name, "failed": f"{type(error).__name__}: {error}"}


def simulate(only: str) -> None:
    """Print the seconds of each kernel in numba-cuda's simulator, as JSON."""
    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # type: ignore[attr-defined]
    from kerneldsl.compat import numpy_as_cupy

    numpy_as_cupy.install()
    from numba import cuda

    assert "simulator" in type(cuda.jit(lambda: None)).__module__
    taken = {}
    for kernel in kernels(only):
        if not can_load(kernel):
            continue
        host, *launch = kernel.arguments(np.random.default_rng(), kernel.sizes[2])
        given = [cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in host]
        try:
            run = bind(kernel, plain(load(kernel)), given, tuple(launch))
            begin = time.perf_counter()
            run()
            taken[kernel.name] = time.perf_counter() - begin
        except Exception as error:  # noqa: BLE001 - the simulator cannot run each of them
            print(f"{kernel.name}: simulator: {error}"[:200], file=sys.stderr)
    print(json.dumps(taken))


def shown(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"{row['kernel']:48s} FAILED {row['failed']}"[:300]
    if "device" in row:
        device, host = row["device"], row["host"]
        ratios = [each["numba-cuda"] / each["ours"] for each in (device, host)]
        return (
            f"{row['kernel']:48s} {1e6 * device['ours']:9.1f} us {ratios[0]:6.2f}x   "
            f"launch {1e6 * host['ours']:6.2f} us {ratios[1]:6.1f}x   error {row['error']:.1e}"
        )
    times = f"{1e6 * row['ours']:10.1f} us"
    if "kd" in row:
        times += f", {row['kd'] / row['ours']:5.2f} of kd.kernel's"
    if not row["simulator"]:
        return f"{row['kernel']:48s} {times}, no simulator"
    return f"{row['kernel']:48s} {times}, simulator {row['simulator'] / row['small']:9.0f}x"


def verdicts(rows: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Return each bound with its figure, and whether it is kept."""
    good = [row for row in rows if "failed" not in row]

    def ratios(of: Callable[[dict[str, Any]], float]) -> list[float]:
        return [of(row) for row in good]

    said = [(f"{len(good)} of {len(rows)} kernels measured", len(good) >= 24)]
    if good and "device" in good[0]:
        times = ratios(lambda row: row["device"]["numba-cuda"] / row["device"]["ours"])
        host = ratios(lambda row: row["host"]["numba-cuda"] / row["host"]["ours"])
        mean = math.exp(statistics.mean(map(math.log, times)))
        said += [
            (f"each at least {EACH}x: least {min(times):.2f}", min(times) >= EACH),
            (f"geometric mean at least {MEAN}x: {mean:.2f}", mean >= MEAN),
            (f"launches at least {LAUNCH}x as cheap: least {min(host):.1f}", min(host) >= LAUNCH),
        ]
    elif good:
        own = [row["kd"] / row["ours"] for row in good if "kd" in row]
        sim = [row["simulator"] / row["small"] for row in good if row["simulator"]]
        said += [
            (f"at least {OWN} of kd.kernel: least {min(own):.2f}", min(own) >= OWN),
            (
                f"{len(sim)} in the simulator, at least {SIMULATOR:.0f}x: least {min(sim):.0f}",
                min(sim) >= SIMULATOR,
            ),
        ]
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="")
    parser.add_argument("--simulate", action="store_true", help="times of the simulator alone")
    parser.add_argument("--simulated", type=Path, help="what --simulate printed before")
    parser.add_argument("--commit", help="what is measured, where there is no git repository")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    add_packages(given.packages.resolve())
    if given.simulate:
        simulate(given.only)
        return
    from machine import describe_cpu_machine, describe_gpu_machine

    describe = describe_gpu_machine if given.device == "gpu" else describe_cpu_machine
    machine = describe(given.commit)
    rows = []
    measured = (
        on_gpu(given.only, given.rounds)
        if given.device == "gpu"
        else on_cpu(given.only, given.rounds, given.packages.resolve(), given.simulated)
    )
    for row in measured:
        rows.append(row)
        print(shown(row), flush=True)
    judged = verdicts(rows)
    for text, kept in judged:
        print(f"{'kept  ' if kept else 'MISSED'} {text}")
    if given.json:
        report = {"machine": machine, "rows": rows, "bounds": dict(judged)}
        given.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
