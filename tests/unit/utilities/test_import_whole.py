"""A first launch that is interrupted while it imports Numba can be repeated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from kerneldsl.utilities import modules
from kerneldsl.utilities.address_space import Addresses
from tests.support.extent import full_beyond

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of this system differ")

#: Launches until nothing interrupts; a signal arrives while a module of Numba is looked for.
PROGRAM = """
import os, signal, sys
import numpy as np
import kerneldsl as kd

class Stop(Exception):
    pass

def stop(*unused):
    raise Stop

class Interrupter:
    waiting = {"numba.core.ir_utils", "numba.core.typing.templates", "numba.np.arrayobj"}

    def find_spec(self, name, path=None, target=None):
        if name in self.waiting:
            self.waiting.remove(name)
            os.kill(os.getpid(), SIGNAL)

SIGNAL = getattr(signal, sys.argv[1])
if SIGNAL != signal.SIGINT:
    signal.signal(SIGNAL, stop)
sys.meta_path.insert(0, Interrupter())

@kd.kernel
def add(x):
    x[kd.grid(1)] += 1

x, interrupts = np.zeros(8), 0
while True:
    try:
        add[1, 8](x)
        break
    except (KeyboardInterrupt, Stop):
        interrupts += 1
assert interrupts and not Interrupter.waiting, (interrupts, Interrupter.waiting)
assert (x == 1).all(), x
print("repeated")
"""


@pytest.mark.parametrize("name", full_beyond(["SIGINT", "SIGALRM"], ["SIGINT"]))
def test_an_interrupted_import_is_repeated(name: str) -> None:
    assert hasattr(signal, name)
    environment = {**os.environ, "KERNELDSL_CACHE": "off", "KERNELDSL_TARGET": "cpu"}
    command = [sys.executable, "-c", PROGRAM, name]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "repeated\n"), done.stderr


def test_no_thread_takes_addresses_that_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Addresses, "limited", classmethod(lambda cls: cls(2**30, 2**28)))
    monkeypatch.setattr(modules, "_begun", {})
    modules.import_whole("no_such_package")
    assert modules._begun == {}
    monkeypatch.setattr(Addresses, "limited", classmethod(lambda cls: None))
    modules.import_whole("no_such_package")  # whose error the next import has
    assert list(modules._begun) == ["no_such_package"]
