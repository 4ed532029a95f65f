"""A pytest plugin: kernels are compiled by the region IR where it reads them, else by main's path.

    python -m pytest -p benchmarks.ir_spike.plugin tests/conformance/test_kernels.py

At the end it prints how many specializations were read, and why others were not. Classes of kernels
that ``REGIONS_ONLY`` names, such as ``elements,tiles``, are compiled by the IR alone, as after the
switch.
"""

from __future__ import annotations

import collections
import os

from kerneldsl.ir.frontend.reader import NotReadError

READ: collections.Counter = collections.Counter()
REASONS: collections.Counter = collections.Counter()
ERRORS: collections.Counter = collections.Counter()


def _install() -> None:
    from benchmarks.ir_spike.paths import compile_by_regions
    from targets.cpu.regions import classes
    from targets.cpu.target import CpuCompiler

    by_class = CpuCompiler.compile
    alone = [each for each in os.environ.get("REGIONS_ONLY", "").split(",") if each]
    classes._BY_REGIONS |= {classes.KernelClass[each.upper()] for each in alone}

    def cpu(self, spec):
        kind = classes.class_of(spec).name.lower()
        READ[kind, "all"] += 1
        if kind in alone:
            return by_class(self, spec)
        try:
            made = compile_by_regions(spec)
        except NotReadError as reason:
            REASONS[kind, str(reason)[:60]] += 1
            return by_class(self, spec)
        except Exception as error:  # noqa: BLE001 -- each reason is counted
            found = by_class(self, spec)  # an error of the program is one of main's, too
            ERRORS[kind, spec.unit.qualname, f"{type(error).__name__}: {error}"[:150]] += 1
            return found
        READ[kind, "read"] += 1
        return made

    CpuCompiler.compile = cpu


_install()


def pytest_terminal_summary(terminalreporter) -> None:
    write = terminalreporter.write_line
    write(f"read: {dict(READ)}")
    for (kind, reason), count in sorted(REASONS.items()):
        write(f"  {kind} {count:5d} {reason}")
    for (kind, name, error), count in ERRORS.most_common(40):
        write(f"  ERROR {kind} {count} {name}: {error}")
