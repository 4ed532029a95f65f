"""A signal handler that launches while a first launch imports gets an error of ours."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of this system differ")

#: A signal arrives while a module is looked for, which another one imports.
PROGRAM = """
import os, signal, sys
import numpy as np
import kerneldsl as kd

said = []

def launch(*unused):
    try:
        two.forall(8)(y)
        said.append(None)
    except kd.KernelError as error:
        said.append(str(error))

class Interrupter:
    waiting = set(sys.argv[1:])

    def find_spec(self, name, path=None, target=None):
        if name in self.waiting:
            self.waiting.remove(name)
            os.kill(os.getpid(), signal.SIGALRM)

signal.signal(signal.SIGALRM, launch)
sys.meta_path.insert(0, Interrupter())

@kd.kernel
def one(x):
    x[kd.grid(1)] += 1

@kd.kernel
def two(x):
    x[kd.grid(1)] += 2

x, y = np.zeros(8), np.zeros(8)
with kd.use("cpu"):
    one.forall(8)(x)
    assert (x == 1).all() and not Interrupter.waiting, (x, Interrupter.waiting)
    for text in said:
        assert text is not None and "is being imported" in text, said
        assert "Launch a kernel once before the handler is set" in text
    assert len(said) == len(sys.argv) - 1
    assert (y == 0).all()
    os.kill(os.getpid(), signal.SIGALRM)
    assert said[-1] is None and (y == 2).all(), said
print("launched")
"""


@pytest.mark.parametrize(
    "modules",
    [
        ["kerneldsl.planner.candidates", "targets.cpu.regions.emitter"],
        ["kerneldsl.launch.arguments.binding", "kerneldsl.launch.configuration"],
    ],
    ids=["shape", "dispatch"],
)
def test_a_launch_in_a_handler_names_the_import(modules: list[str]) -> None:
    environment = {**os.environ, "KERNELDSL_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *modules],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.stdout == "launched\n", done.stderr[-2000:]
