"""``kerneldsl summary``, ``doctor`` and ``status``: how this machine is now, and what is wrong."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kerneldsl.tools.cli.machine import (
    live_cells,
    memory_text,
    print_backends,
    print_devices,
    result_or_message,
)
from kerneldsl.tools.cli.output import (
    JsonOption,
    new_console,
    print_json,
    print_table,
    progress,
    styled,
)

if TYPE_CHECKING:
    from kerneldsl.contract import DeviceInfo
    from kerneldsl.tools.doctor import Report

__all__ = ["doctor", "status", "summary"]

KernelsOption = Annotated[bool, typer.Option(help="Compile and run a small kernel on each device.")]

#: Exit code of ``doctor`` where something does not work.
EXIT_PROBLEM = 1


# ----------------------------------------------------------------------------------------- status


def status(as_json: JsonOption = False) -> None:
    """Show the load of devices and host, and the settings in effect."""
    from kerneldsl.placement.described import devices
    from kerneldsl.placement.devices import current_target

    found = devices()
    default, refusal = result_or_message(current_target)
    live = [_live(info) for info in found]
    environment, errors = _environment(), _errors()
    if as_json:
        print_json(
            {
                "default": default,
                "default_refused": refusal,
                "devices": live,
                "host": _host(),
                "environment": environment,
                "errors": errors,
            }
        )
        return
    print_table(
        ("device", "name", "memory free / total", "busy", "temperature", "power", "clock"),
        [_status_row(each) for each in live],
        fixed=("device",),
    )
    _print_processes(live)
    console = new_console()
    if refusal is None:
        console.print(f"Kernels run on {default} unless something else is said.", markup=False)
    else:
        console.print(f"Kernels run nowhere unless a device is named: {refusal}", markup=False)
    if environment:
        print_table(("variable", "value", "meaning"), _variable_rows(), fixed=("variable",))
    else:
        console.print("No environment variable of kerneldsl is set.")
    if errors["counts"]:
        print_table(("errors", "count"), sorted(errors["counts"].items()))


def _live(info: DeviceInfo) -> dict[str, Any]:
    """Return the values that change over time, read once; ``None`` for unavailable ones."""
    from kerneldsl.contract.info_display import known

    values, unavailable = info.collect(info.fields(is_live=True))
    held = values.pop("processes", None)
    return {
        "device": str(info),
        "name": info.name,
        "total_memory_bytes": known(info, "total_memory_bytes"),
        **values,
        "processes": None if held is None else [_process(pid, used) for pid, used in held],
        "unavailable": unavailable,
    }


def _process(pid: int, used: int | None) -> dict[str, Any]:
    import psutil

    try:
        name: str | None = psutil.Process(pid).name()
    except psutil.Error:  # it has ended, or is not ours to see
        name = None
    return {"pid": pid, "name": name, "memory_bytes": used}


def _status_row(live: dict[str, Any]) -> tuple[object, ...]:
    memory = memory_text(live["free_memory_bytes"], live["total_memory_bytes"])
    return (live["device"], live["name"], memory, *live_cells(live))


def _print_processes(live: list[dict[str, Any]]) -> None:
    processes = [
        (each["device"], process["pid"], process["name"], _amount(process["memory_bytes"]))
        for each in live
        for process in each["processes"] or ()
    ]
    if processes:
        print_table(("device", "process", "program", "memory"), processes, fixed=("device",))


def _host() -> dict[str, Any]:
    import psutil

    memory = psutil.virtual_memory()
    return {
        "total_memory_bytes": int(memory.total),
        "available_memory_bytes": int(memory.available),
        "logical_core_count": psutil.cpu_count() or os.cpu_count(),
    }


def _environment() -> dict[str, str]:
    from kerneldsl.utilities.environment import VARIABLES

    shown = (*VARIABLES, "CUDA_VISIBLE_DEVICES", "NUMBA_NUM_THREADS", "NUMBA_DISABLE_JIT")
    return {name: os.environ[name] for name in shown if name in os.environ}


def _variable_rows() -> list[tuple[object, ...]]:
    from kerneldsl.utilities.environment import VARIABLES

    return [
        (name, value, VARIABLES[name].purpose if name in VARIABLES else None)
        for name, value in _environment().items()
    ]


def _errors() -> dict[str, Any]:
    """Return what the devices answered with an error while this command looked at them."""
    from kerneldsl.contract.error_history import error_log

    return {
        "counts": {category: n for category, n in error_log.counts().items() if n},
        "entries": [entry.to_dict() for entry in error_log.entries()],
    }


def _amount(nbytes: int | None) -> str | None:
    from kerneldsl.utilities.formatting import format_bytes

    return None if nbytes is None else format_bytes(nbytes)


# ---------------------------------------------------------------------------------------- summary


def summary(kernels: KernelsOption = True, as_json: JsonOption = False) -> None:
    """Show devices with their load, the default one, backends, versions, settings and checks."""
    from kerneldsl.placement.described import devices
    from kerneldsl.placement.devices import current_target, why_current
    from kerneldsl.tools.detection import backends
    from kerneldsl.tools.versions import collect_versions, package_versions

    with progress("Looking at the machine", is_quiet=as_json) as say:
        versions = package_versions()
        # A variable with a wrong value is for the checks to report, with all the rest.
        found = result_or_message(backends)[0] or ()
        default, refusal = result_or_message(current_target)
        why = result_or_message(why_current)[0]
        infos = devices()
        live = [_live(info) for info in infos]
        report = _check(run_kernels=kernels, say=lambda part: say(f"Checking {part}"))
        system, errors = collect_versions(), _errors()
    if as_json:
        print_json(
            {
                "versions": versions,
                "backends": [backend.to_dict() for backend in found],
                "devices": [info.to_dict(live=False) for info in infos],
                "default": default,
                "cache_folder": _cache_folder(),
                "environment": _environment(),
                "report": report.to_dict(),
                "default_refused": refusal,
                "default_reason": why,
                "live": live,
                "host": _host(),
                "system": system,
                "errors": errors,
            }
        )
        return
    print_devices(infos, default, live)
    _print_processes(live)
    missing = [backend.name for backend in found if not backend.is_detected]
    print()
    print_backends([backend for backend in found if backend.is_detected])
    print()
    counts = ", ".join(f"{n} {category}" for category, n in errors["counts"].items())
    rows = [
        ("default", default and f"{default} (* above). {why}."),
        ("not found", ", ".join(missing) or "nothing"),
        ("versions", ", ".join(f"{n} {v}" for n, v in versions.items() if v)),
        ("system", f"{system['platform']}, {system['executable']}, LLVM {system['LLVM']}"),
        ("cache folder", _cache_folder()),
        ("settings", ", ".join(f"{n}={v}" for n, v in _environment().items()) or "none"),
        ("errors", counts or "none"),
        ("verdict", report.verdict),
    ]
    print_table(("this machine", ""), rows, fixed=("this machine",))
    _print_checks(report, only_faults=True)


def _cache_folder() -> str | None:
    from kerneldsl.utilities.environment import cache_folder

    try:
        return str(cache_folder())
    except (RuntimeError, ImportError):  # no home directory, or no platformdirs
        return None


# ----------------------------------------------------------------------------------------- doctor


def doctor(kernels: KernelsOption = True, as_json: JsonOption = False) -> None:
    """Check this machine, and show a remedy for each problem.

    The exit code is 1 if there is a problem, else 0.
    """
    with progress("Checking", is_quiet=as_json) as say:
        report = _check(run_kernels=kernels, say=lambda part: say(f"Checking {part}"))
    if as_json:
        print_json(report.to_dict())
    else:
        _print_checks(report)
        new_console().print(report.verdict, style=styled("ok" if report.is_ok else "problem"))
    if not report.is_ok:
        raise typer.Exit(EXIT_PROBLEM)


def _check(*, run_kernels: bool, say: Any = None) -> Report:
    from kerneldsl.tools.doctor import preflight

    return preflight(run_kernels=run_kernels, progress=say)


def _print_checks(report: Report, *, only_faults: bool = False) -> None:
    rows = [
        (c.status, c.name, c.found if c.remedy is None else f"{c.found}\nWhat to do: {c.remedy}")
        for c in report.checks
        if not (only_faults and c.status == "ok")
    ]
    if rows:
        print_table(("status", "check", "found"), rows, fixed=("status",))
