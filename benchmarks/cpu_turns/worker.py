"""Compile and run the samples of a group with the project that ``PYTHONPATH`` names.

Commands come as lines on standard input, answers are lines of JSON on standard output:
``next`` compiles and runs the next sample, ``time N`` runs it so many times.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from typing import Any

import numpy as np
from aligned import align_arrays
from samples import Sample, samples

import kerneldsl as kd
from targets.cpu.target import CpuCompiler


class Compilations:
    """The number of kernels that were compiled, and the processor time of all of them."""

    def __init__(self) -> None:
        self.count, self.seconds = 0, 0.0
        compile_kernel = CpuCompiler.compile

        def measured(compiler: CpuCompiler, specialization: Any) -> Any:
            began = time.process_time()
            try:
                return compile_kernel(compiler, specialization)
            finally:
                self.seconds += time.process_time() - began
                self.count += 1

        CpuCompiler.compile = measured


def _arrays(found: Any) -> list[np.ndarray]:
    if isinstance(found, tuple | list):
        return [array for each in found for array in _arrays(each)]
    return [] if found is None else [np.array(found)]


def _digest(sample: Sample) -> str:
    for output in sample.outputs:
        if output.dtype.names is None:
            output.fill(7)
    sample.prepare()
    arrays = [*_arrays(sample.run()), *sample.outputs]
    found = hashlib.sha256()
    for array in arrays:
        if array.dtype.kind in "fc":  # signs and contents of NaN may differ
            array = np.where(np.isnan(array), np.nan, array)
        found.update(f"{array.shape} {array.dtype}".encode() + array.tobytes())
    return found.hexdigest()


def _first(sample: Sample, compilations: Compilations) -> dict[str, Any]:
    count, seconds = compilations.count, compilations.seconds
    row: dict[str, Any] = {"name": sample.name}
    try:
        row["digest"] = _digest(sample)
    except Exception as error:  # noqa: BLE001 -- one answer for each sample, whatever it does
        row["failed"] = f"{type(error).__name__}: {error}"[:160].replace("\n", " ")
    row["kernels"] = compilations.count - count
    row["compile"] = compilations.seconds - seconds
    return row


def _time(sample: Sample, repeats: int) -> float:
    sample.prepare()
    began = time.process_time()
    for _ in range(repeats):
        sample.run()
    return (time.process_time() - began) / repeats


def main(group: str, only: str) -> None:
    """Answer commands until the samples or the commands end."""
    compilations, found = Compilations(), None
    answers, sys.stdout = sys.stdout, sys.stderr
    with kd.use("cpu"):
        left = (sample for sample in samples(group) if only in sample.name)
        for line in sys.stdin:
            command, *rest = line.split()
            answer: Any = None
            if command == "next":
                found = next(left, None)
                answer = None if found is None else _first(found, compilations)
            elif found is not None:
                answer = _time(found, int(rest[0]))
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    align_arrays()
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
    os._exit(0)
