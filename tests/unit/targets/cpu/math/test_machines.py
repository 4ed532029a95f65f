"""The functions on other processors: without FMA, without AVX, and on AArch64."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys

import llvmlite.binding as llvm
import pytest

from targets.cpu.math.vector.define import FUNCTIONS, definition
from tests.support.extent import full_beyond
from tests.unit.targets.cpu.math import functions

IS_X86 = platform.machine().lower() in ("x86_64", "amd64")

PROGRAM = """
import numpy as np
from targets.cpu.math.vector.define import FUNCTIONS as WRITTEN
from tests.unit.targets.cpu.math import functions

rng = np.random.default_rng()
for name, kinds in WRITTEN.items():
    for kind in kinds:
        function, dtype = functions.FUNCTIONS[name], np.dtype("f4" if kind == "float" else "f8")
        x = functions.sampled(function, dtype, 20000 if function.exact else 500, rng)
        got, exact = functions.results(function, *x), functions.exact(function, *x)
        wrong = ~(functions.errors(got, exact) <= function.bounds[kind == "double"] + 0.5)
        assert not wrong.any(), (name, kind, *(each[wrong][:8] for each in (*x, got, exact)))
print("within the bounds")
"""


@pytest.mark.skipif(not IS_X86, reason=f"{platform.machine()} is not x86-64")
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(
            {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""},
            id="baseline",
            marks=pytest.mark.full,
        ),
        pytest.param({"NUMBA_ENABLE_AVX": "0"}, id="without AVX", marks=pytest.mark.full),
    ],
)
def test_the_bounds_hold_on_lesser_processors(settings: dict[str, str]) -> None:
    path = os.pathsep.join(p for p in [os.getcwd(), *sys.path] if p)
    environment = os.environ | settings | {"PYTHONPATH": path, "KERNELDSL_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=False,
        timeout=500,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.stdout == "within the bounds\n", done.stderr[-2000:]


def _loop(name: str, kind: str, has_fma: bool) -> str:
    """Write a function that maps a mathematical one over an array."""
    function = functions.FUNCTIONS[name]
    size = {"float": 4, "double": 8}[kind]
    names = [f"in{i}" for i in range(function.arity)]
    loads = "\n".join(
        f"  %at_{each} = getelementptr {kind}, ptr %{each}, i64 %i\n"
        f"  %value_{each} = load {kind}, ptr %at_{each}, align {size}"
        for each in names
    )
    return f"""{definition("function", name, kind, has_fma)}
define void @map({", ".join(f"ptr noalias %{each}" for each in names)}, ptr noalias %out, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{loads}
  %result = call {kind} @function({", ".join(f"{kind} %value_{each}" for each in names)})
  %at_out = getelementptr {kind}, ptr %out, i64 %i
  store {kind} %result, ptr %at_out, align {size}
  %next = add nuw i64 %i, 1
  %goes_on = icmp ult i64 %next, %n
  br i1 %goes_on, label %loop, label %exit
exit:
  ret void
}}
"""


def _assembly(module: llvm.ModuleRef, triple: str, cpu: str) -> str:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError:
        pytest.skip(f"this llvmlite compiles nothing for {triple}")
    machine = target.create_target_machine(cpu=cpu, opt=3)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    module.triple, module.data_layout = triple, str(machine.target_data)
    builder.getModulePassManager().run(module, builder)
    return str(machine.emit_assembly(module))


#: Triple, processor, whether it has FMA, and what a packed operation looks like for each type.
_MACHINES = {
    "avx512": (
        ("x86_64-unknown-linux-gnu", "skylake-avx512", True),
        {"float": r"\bv\w+ps\b.*%[yz]mm", "double": r"\bv\w+pd\b.*%[yz]mm"},
        r"\bcall",
    ),
    "avx2": (
        ("x86_64-unknown-linux-gnu", "haswell", True),
        {"float": r"\bv\w+ps\b.*%ymm", "double": r"\bv\w+pd\b.*%ymm"},
        r"\bcall",
    ),
    "sse2": (
        ("x86_64-unknown-linux-gnu", "x86-64", False),
        {"float": r"\bmulps\b", "double": r"\bmulpd\b"},
        r"\bcall",
    ),
    "aarch64": (
        ("aarch64-unknown-linux-gnu", "generic", True),
        {"float": r"\bfml[as]\s+v\d+\.4s|\bfmul\s+v\d+\.4s", "double": r"\bfmul\s+v\d+\.2d"},
        r"\bbl\s",
    ),
}


_KINDS = [pytest.param(name, kind) for name, kinds in FUNCTIONS.items() for kind in kinds]


@pytest.mark.parametrize("machine", _MACHINES)
@pytest.mark.parametrize(("name", "kind"), full_beyond(_KINDS, _KINDS[::8]))
def test_a_loop_over_it_is_vectorized(name: str, kind: str, machine: str) -> None:
    (triple, cpu, has_fma), packed, call = _MACHINES[machine]
    module = llvm.parse_assembly(_loop(name, kind, has_fma))
    module.verify()
    assembly = _assembly(module, triple, cpu)
    # Some functions of float32 compute in float64.
    assert any(re.search(pattern, assembly) for pattern in (packed[kind], packed["double"]))
    assert not re.search(call, assembly), "it calls a function"
