"""Compare the code of both paths for whole corpora: PTX, machine code, registers, compile time.

python -m benchmarks.ir_spike.code [corpus|passes] [part of a name] [--sass] [--write FOLDER]
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kerneldsl.ir.frontend.reader import NotReadError

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "benchmarks")]


def corpus() -> Iterator[tuple[str, Any]]:
    """Yield the specializations of the kernels with a text in CUDA C."""
    import against_cuda_c as table
    import numpy as np

    from kerneldsl.contract import ONE_EACH
    from kerneldsl.launch.specialize import specialize

    for module in table._MODULES:
        for case in module.cases():
            launch = case.kernel[case.grid, case.block]
            arguments = case.make(np.random.default_rng(7))
            request = case.kernel._dispatcher.request(launch._shape, arguments, None, "sm_90")
            promises, threads = request.state.promises, launch._shape.threads
            request = request.with_promises(promises.number_of(request.binding, None, threads))
            yield case.name, specialize(request, ONE_EACH)


def passes() -> Iterator[tuple[str, Any]]:
    """Yield the specializations of the kernels of the passes."""
    from kerneldsl.contract import ArrayPromises, Promises
    from kerneldsl.language.kinds import array_kinds
    from kerneldsl.language.signatures import parse_signature
    from tests.ptx.helpers import specialize
    from tests.ptx.pass_kernels import PASS_KERNELS

    for name, (function, signature) in PASS_KERNELS.items():
        count = len(list(array_kinds(parse_signature(signature))))
        promises = Promises((ArrayPromises(),) * count, is_disjoint=True, is_narrow=True)
        yield name, specialize(function, signature, promises=promises)


def compile_trees(spec: Any, *, arch: str) -> Any:
    """Compile a kernel without the region IR."""
    from kerneldsl.lowering.numba_internals.compiling import (
        collector_paused,
        global_compiler_lock,
        target_override,
    )
    from targets.cuda.architectures import choose_ptx_version, parse_arch
    from targets.cuda.compile import compiler
    from targets.cuda.compile.numba_device import TARGET_NAME
    from targets.cuda.compile.requirements import preferred_ptx

    made = parse_arch(arch)
    version = choose_ptx_version(made, preferred_ptx(spec, made))
    with collector_paused(), global_compiler_lock, target_override(TARGET_NAME):
        return compiler.write_kernel(compiler._lower_tree(spec), made, version)


def normal(ptx: str) -> str:
    """Return PTX without the names of registers and labels that counters give."""
    return re.sub(r"//.*", "", ptx)


def opcodes(artifact: Any) -> Counter[str]:
    text = artifact.text("sass")
    found = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?([A-Z][A-Z0-9.]*)", text)
    return Counter(each.split(".")[0] for each in found if not each.startswith("NOP"))


def main() -> None:
    compile_kernel = compile_trees
    from targets.cuda.compile.regions.compile import compile_regions

    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", choices=("corpus", "passes"))
    parser.add_argument("only", nargs="?", default="")
    parser.add_argument("--sass", action="store_true")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    spent = [0.0, 0.0]
    for name, spec in globals()[options.corpus]():
        if options.only not in name:
            continue
        began = time.process_time()
        old = compile_kernel(spec, arch="sm_90")
        middle = time.process_time()
        try:
            new = compile_regions(spec, arch="sm_90")
        except NotReadError as reason:
            counts["not read"] += 1
            print(f"{name:28s} NOT READ {str(reason)[:90]}", flush=True)
            continue
        except Exception as error:  # noqa: BLE001 - each is shown
            counts["error"] += 1
            print(f"{name:28s} ERROR {type(error).__name__}: {str(error)[:150]}", flush=True)
            if options.trace:
                traceback.print_exc()
            continue
        ended = time.process_time()
        spent[0] += middle - began
        spent[1] += ended - middle
        is_equal = normal(old.ptx) == normal(new.ptx)
        if options.write and not is_equal:
            options.write.mkdir(exist_ok=True)
            for which, made in (("old", old), ("new", new)):
                (options.write / f"{name}.{which}.ptx").write_text(normal(made.ptx))
                (options.write / f"{name}.{which}.ll").write_text(made.text("llvm"))
        line = "equal PTX" if is_equal else f"PTX {len(old.ptx)} -> {len(new.ptx)}"
        if options.sass and not is_equal:
            one, two = opcodes(old), opcodes(new)
            before, after = old.resources(), new.resources()
            is_equal = old.text("sass") == new.text("sass")
            line += (
                f", instructions {sum(one.values())} -> {sum(two.values())}, registers "
                f"{before.registers} -> {after.registers}, local {before.local_bytes} -> "
                f"{after.local_bytes}" + ", equal SASS" * is_equal
            )
            differing = {k: (one[k], two[k]) for k in sorted(one | two) if one[k] != two[k]}
            line += f"\n    {differing}" if differing else ""
        counts["equal" if is_equal else "differs"] += 1
        print(f"{name:28s} {line}", flush=True)
    print(dict(counts), f"old {spent[0]:.2f} s, new {spent[1]:.2f} s")


if __name__ == "__main__":
    main()
