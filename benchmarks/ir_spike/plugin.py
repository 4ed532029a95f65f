"""A pytest plugin: kernels are compiled by the region IR where it reads them, else by main's path.

    python -m pytest -p benchmarks.ir_spike.plugin tests/conformance/test_kernels.py

At the end it prints how many specializations were read, and why others were not.
"""

from __future__ import annotations

import collections

from kerneldsl.ir.frontend.reader import NotReadError

READ: collections.Counter = collections.Counter()
REASONS: dict = {"cpu": collections.Counter(), "cuda": collections.Counter()}
ERRORS: collections.Counter = collections.Counter()


def _install() -> None:
    from benchmarks.ir_spike.paths import compile_by_regions
    from targets.cpu.target import CpuCompiler
    from targets.cuda.compile.ptx_compiler import PtxCompiler, _arch

    cpu_main, cuda_main = CpuCompiler.compile, PtxCompiler.compile

    def attempt(target, spec, regions, main):
        READ[target, "all"] += 1
        try:
            made = regions()
        except NotReadError as reason:
            REASONS[target][str(reason)[:60]] += 1
            return main()
        except Exception as error:  # noqa: BLE001 -- each reason is counted
            found = main()  # an error of the program is one of main's, too
            ERRORS[target, spec.unit.qualname, f"{type(error).__name__}: {error}"[:150]] += 1
            return found
        READ[target, "read"] += 1
        return made

    def cpu(self, spec):
        return attempt("cpu", spec, lambda: compile_by_regions(spec), lambda: cpu_main(self, spec))

    def cuda(self, spec):
        from targets.cuda.compile.regions.compile import compile_regions

        return attempt(
            "cuda",
            spec,
            lambda: compile_regions(spec, arch=_arch(spec)),
            lambda: cuda_main(self, spec),
        )

    CpuCompiler.compile, PtxCompiler.compile = cpu, cuda


_install()


def pytest_terminal_summary(terminalreporter) -> None:
    write = terminalreporter.write_line
    write(f"read: {dict(READ)}")
    for target, reasons in REASONS.items():
        for reason, count in reasons.most_common(40):
            write(f"  {target} {count:5d} {reason}")
    for (target, name, error), count in ERRORS.most_common(40):
        write(f"  ERROR {target} {count} {name}: {error}")
