"""``kerneldsl run``: programs see numba.cuda as kerneldsl, and Python as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import argparse
import multiprocessing
import sys

import numpy as np
from numba import cuda


@cuda.jit
def increment(x):
    x[cuda.grid(1)] += 1


def work(n):
    x = np.zeros(n)
    increment[1, n](x)
    return x.tolist(), cuda.implementation


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int)
    print(parser.parse_args().count, sys.path[0], __file__)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [2]))
    sys.exit(3)
"""


def run(*arguments, **options):
    command = [sys.executable, "-m", "kerneldsl", "run", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, **options
    )


def test_a_script_with_arguments_and_processes(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = run(script, "--count", "5")
    assert done.stdout.splitlines() == [
        f"5 {tmp_path} {script}",
        "[([1.0, 1.0], 'kerneldsl')]",
    ], done.stderr
    assert done.returncode == 3


def test_an_exception_is_shown_as_python_shows_it(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("from numba import cuda\nraise KeyError('x')\n")
    done = run(script)
    assert done.returncode == 1
    assert done.stderr == (
        "Traceback (most recent call last):\n"
        f'  File "{script}", line 2, in <module>\n'
        "    raise KeyError('x')\n"
        "KeyError: 'x'\n"
    )


def test_a_module_such_as_pytest(tmp_path):
    Path(tmp_path, "test_it.py").write_text(
        "from numba import cuda\n\ndef test_it():\n    assert cuda.implementation == 'kerneldsl'\n"
    )
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_what_follows_the_program_is_its_own(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import sys\nprint(sys.argv[1:])\n")
    assert run(script, "-m", "--help").stdout == "['-m', '--help']\n"


@pytest.mark.parametrize(
    "text",
    [
        "from numba import cuda",
        "import numba.cuda as cuda",
        "import numba\nimport numba.cuda\ncuda = numba.cuda",
        "import importlib\ncuda = importlib.import_module('numba.cuda')",
        "def late():\n    from numba import cuda\n    return cuda\ncuda = late()",
    ],
)
def test_every_way_to_import_it(text):
    program = f"import kerneldsl.drop_in\n{text}\nprint(cuda.implementation)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "kerneldsl\n"


def test_numba_cuda_that_was_imported_before_is_replaced():
    program = (
        "import numba\nfrom numba import cuda\nimport kerneldsl.drop_in\n"
        "from numba import cuda\nfrom numba.cuda.random import xoroshiro128p_next\n"
        "print(cuda.implementation, numba.cuda is cuda, xoroshiro128p_next.__module__)"
    )
    found = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert found == "kerneldsl True kerneldsl.random.states\n"


def test_the_import_alone_imports_nothing_heavy():
    program = (
        "import sys, kerneldsl.drop_in\n"
        "print([name for name in ('numba', 'numpy', 'llvmlite') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"


def test_the_simulator_of_numba_cuda_means_the_cpu():
    import os

    program = "import kerneldsl as kd\nfrom kerneldsl import cuda\nprint(kd.current_target())"
    found = subprocess.check_output(
        [sys.executable, "-c", program],
        text=True,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "KERNELDSL_TARGET": "null"},
    )
    assert found == "cpu\n"


def test_modules_of_programs_below_numba_cuda(tmp_path):
    """A function in a module of that name is a program's, once numba.cuda is kerneldsl."""
    script = tmp_path / "program.py"
    script.write_text(
        "import sys, types\n"
        "from numba import cuda\n"
        "text = 'def three(x):\\n    return 3 * x\\n'\n"
        "path = __file__[:-10] + 'below.py'\n"
        "open(path, 'w').write(text)\n"
        "names = {'__name__': 'numba.cuda.mine'}\n"
        "exec(compile(text, path, 'exec'), names)\n"
        "three = names['three']\n"
        "@cuda.jit\n"
        "def kernel(x):\n"
        "    x[0] = three(x[0])\n"
        "import numpy as np\n"
        "x = np.ones(1)\n"
        "kernel[1, 1](x)\n"
        "print(x)\n"
    )
    done = run(script)
    assert done.stdout == "[3.]\n", done.stderr


STAND_IN = """
import cupy
import numpy as np
from cupyx.scipy.ndimage import convolve
from numba import cuda


@cuda.jit
def increment(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


x = cupy.zeros(5)
increment[1, 32](x)
host = x.get()
assert type(host) is np.ndarray and host.tolist() == [1.0] * 5
for each in (x + 1, cupy.arange(3), cupy.linalg.inv(cupy.eye(2)), convolve(x, x)):
    assert type(each) is cupy.ndarray
assert cupy.get_array_module(x) is cupy and cupy.get_array_module(host) is np
assert type(cupy.asnumpy(x)) is np.ndarray and not np.shares_memory(cupy.asnumpy(x), x)
try:
    cupy.RawKernel
except AttributeError as error:
    print(error)
"""


def test_numpy_stands_in_for_cupy(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(STAND_IN)
    done = run("--numpy-as-cupy", script)
    said = "module 'cupy', for which NumPy stands in, has no attribute 'RawKernel'\n"
    assert done.stdout == said, done.stderr


NUMBA_FUNCTION = """
import numba
import numpy as np
from numba import cuda


@numba.jit(nopython=True)
def total(x):
    copy = cuda.local.array(3, numba.float64)
    for i in range(3):
        copy[i] = x[i]
    return copy[0] + copy[1] + copy[2]


@cuda.jit("(float64[:, :], float64[:], int64)")
def kernel(x, out, factor=2):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = factor * total(x[i])


x, out = np.random.default_rng().random((5, 3)), np.full(5, np.nan)
kernel[1, 32](x, out, 3)
print(np.allclose(out, 3 * x.sum(1)))
"""


def test_numba_functions_for_kernels_and_parameters_with_defaults(tmp_path):
    """numba.cuda compiles functions of numba.jit for the GPU; defaults it takes and never uses."""
    script = tmp_path / "program.py"
    script.write_text(NUMBA_FUNCTION)
    done = run(script)
    assert done.stdout == "True\n", done.stderr
