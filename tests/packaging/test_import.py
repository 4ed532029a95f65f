"""``import kerneldsl`` is light: no compiler, no CUDA package, little time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = (
    "numba",
    "llvmlite",
    "sympy",
    "rich",
    "cuda",
    "typer",
    "scipy",
    "targets",
    "stdlib_kernels",
)
#: What importing may cost on top of NumPy, which every user of it has imported, in milliseconds.
MAX_IMPORT_MS = 10
RUNS = 9


def python(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("KERNELDSL_")}
    return subprocess.run(
        [sys.executable, *args],
        env={**env, "PYTHONPATH": str(ROOT)},
        cwd=cwd or ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def test_importtime_shows_nothing_heavy():
    listing = python("-X", "importtime", "-c", "import kerneldsl").stderr
    imported = set(re.findall(r"\|\s*([\w.]+)$", listing, re.MULTILINE))
    assert "kerneldsl" in imported
    roots = {name.partition(".")[0] for name in imported}
    assert not roots & set(HEAVY)


def test_the_library_needs_no_docstrings():
    """Python's option -OO removes them; functions add to their own when they are defined."""
    program = (
        "import stdlib_kernels as sk\n"
        "families = [getattr(sk, name) for name in (*sk._FAMILIES, 'array_api')]\n"
        "print(sk.reduce.mean.__doc__, int(sk.sum(sk.array_api.asarray([1, 2]).copy_to_host())))\n"
    )
    assert python("-OO", "-c", program).stdout == "None 3\n"


def test_a_decorated_kernel_needs_no_compiler():
    program = (
        "import sys, kerneldsl as kd\n"
        "@kd.kernel\n"
        "def k(x):\n"
        "    x[kd.grid(1)] = 1\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules}))\n"
    )
    loaded = set(re.findall(r"'([\w]+)'", python("-c", program).stdout))
    assert "kerneldsl" in loaded
    assert not loaded & {"numba", "llvmlite", "sympy", "rich", "cuda"}


def test_a_kernel_of_cuda_code_needs_no_front_end():
    """The front end and its analyses are imported by a launch, while the driver starts."""
    program = (
        "import sys, kerneldsl as kd\n"
        "k = kd.cuda_source('__global__ void k(float *x) {}', 'k', 'float32[::1]')\n"
        "print(*sorted(sys.modules))\n"
    )
    loaded = set(python("-c", program).stdout.split())
    assert "kerneldsl.kernels.cuda_kernel" in loaded
    late = (
        "hashlib",
        "kerneldsl.analysis",
        "kerneldsl.frontend.normalize",
        "kerneldsl.language.intrinsics",
    )
    assert not [name for name in loaded if name.startswith((*late, "numba", "targets"))]


@pytest.mark.parametrize(
    "version",
    ["3.13.0 experimental free-threading build (main)", "3.14.2 free-threading build (main)"],
)
def test_a_free_threaded_interpreter_is_refused(version):
    program = (
        f"import sys; sys.version = {version!r}\n"
        "try:\n"
        "    import kerneldsl\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    (sentence,) = python("-c", program).stdout.splitlines()
    assert "free-threaded" in sentence
    assert sys.executable in sentence
    assert "ordinary build" in sentence


@pytest.mark.measures
def test_import_time_on_top_of_numpy():
    # Of the thread that imports, the time it was computing; other work on the machine can only
    # add to it, so the best of several fresh processes comes nearest to what the import takes.
    program = (
        "import numpy, time; began = time.thread_time(); import kerneldsl; "
        "print(time.thread_time() - began)"
    )
    best_ms = min(float(python("-c", program).stdout) * 1e3 for _ in range(RUNS))
    print(f"on top of numpy {best_ms:.1f} ms")
    assert best_ms <= MAX_IMPORT_MS


#: What imports each package through the core.
USES = {
    "targets": "from kerneldsl.placement.registry import get_target; get_target('cpu')",
    "stdlib_kernels": "from kerneldsl.placement.registry import get_command; get_command('demo')",
}
PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import kerneldsl as kd
try:
    {use}
except kd.ShadowedPackageError as error:
    assert isinstance(error, ImportError)
    print(error)
else:
    print("found ours")
"""


@pytest.mark.parametrize("form", ["module", "package"])
def test_a_foreign_module_that_hides_the_library_is_named(tmp_path, form):
    place = tmp_path / ("stdlib_kernels.py" if form == "module" else "stdlib_kernels/__init__.py")
    place.parent.mkdir(exist_ok=True)
    place.write_text("")
    use = USES["stdlib_kernels"]
    message = python("-c", PROGRAM.format(folder=str(tmp_path), use=use)).stdout
    assert str(place) in message
    assert "Rename" in message


OWN_TARGETS = """
import sys
sys.path.insert(0, {folder!r})
{before}
import numpy as np
import kerneldsl as kd

@kd.kernel
def double(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] *= 2

x = np.arange(5.0)
with kd.use("cpu"):
    double.forall(5)(x)
with kd.use("null"):
    double.forall(5)(np.arange(5.0))
print(x.tolist(), ".entry" in double.ptx("float64[::1]", forall=1))

import targets
print(targets.MINE, targets.__file__)
"""


@pytest.mark.parametrize("form", ["module", "package"])
@pytest.mark.parametrize("before", ["", "import targets"])
def test_a_program_can_have_a_module_named_targets(tmp_path, form, before):
    place = tmp_path / ("targets.py" if form == "module" else "targets/__init__.py")
    place.parent.mkdir(exist_ok=True)
    place.write_text("MINE = 7\n")
    text = OWN_TARGETS.format(folder=str(tmp_path), before=before)
    (tmp_path / "program.py").write_text(text)  # kernels need their source
    answer = python(str(tmp_path / "program.py")).stdout
    assert answer == f"[0.0, 2.0, 4.0, 6.0, 8.0] True\n7 {place}\n"


def test_a_script_can_be_named_targets(tmp_path):
    """It is run once, although Python finds it by the name of our package."""
    place = tmp_path / "targets.py"
    text = OWN_TARGETS.format(folder=str(tmp_path), before="").partition("import targets")[0]
    place.write_text(text + "print(__name__)\n")
    assert python(str(place)).stdout == "[0.0, 2.0, 4.0, 6.0, 8.0] True\n__main__\n"


def test_a_package_of_the_program_with_a_part_of_our_name_is_named(tmp_path):
    place = tmp_path / "targets" / "__init__.py"
    place.parent.mkdir()
    place.write_text("")
    place.with_name("cpu.py").write_text("")
    message = python("-c", PROGRAM.format(folder=str(tmp_path), use=USES["targets"])).stdout
    assert str(place) in message
    assert "targets.cpu" in message
    assert "Rename" in message


@pytest.mark.parametrize("name", USES)
def test_a_folder_without_init_hides_nothing(tmp_path, name):
    (tmp_path / name).mkdir()
    answer = python("-c", PROGRAM.format(folder=str(tmp_path), use=USES[name])).stdout
    assert answer == "found ours\n"


@pytest.mark.parametrize("form", ["module", "package"])
def test_a_module_of_the_program_is_not_run_by_us(tmp_path, form):
    """One that raises stops nothing, and runs when the program imports it."""
    place = tmp_path / ("targets.py" if form == "module" else "targets/__init__.py")
    place.parent.mkdir(exist_ok=True)
    place.write_text("print('runs')\nraise RuntimeError('not today')\n")
    text, _, _ = OWN_TARGETS.format(folder=str(tmp_path), before="").partition("import targets")
    text += "try:\n    import targets\nexcept RuntimeError as error:\n    print(error)\n"
    (tmp_path / "program.py").write_text(text)
    answer = python(str(tmp_path / "program.py")).stdout
    assert answer == "[0.0, 2.0, 4.0, 6.0, 8.0] True\nruns\nnot today\n"


def test_a_package_of_the_program_that_is_imported_first_keeps_its_parts(tmp_path):
    place = tmp_path / "targets" / "__init__.py"
    place.parent.mkdir()
    place.write_text("MINE = 7\n")
    place.with_name("aims.py").write_text("VALUE = 5\n")
    text = OWN_TARGETS.format(folder=str(tmp_path), before="import targets.aims")
    text += "\nimport targets.aims as aims\nprint(aims.VALUE, targets.aims is aims)\n"
    (tmp_path / "program.py").write_text(text)
    answer = python(str(tmp_path / "program.py")).stdout
    assert answer == f"[0.0, 2.0, 4.0, 6.0, 8.0] True\n7 {place}\n5 True\n"


def test_a_program_in_a_checkout_runs_with_its_packages(tmp_path):
    """``kerneldsl run`` by an installed kerneldsl: all packages are of one copy."""
    checkout = tmp_path / "checkout"
    for package in ("kerneldsl", "targets", "stdlib_kernels"):
        shutil.copytree(ROOT / package, checkout / package, ignore=shutil.ignore_patterns("__py*"))
    program = checkout / "program.py"
    program.write_text(
        "import numpy as np\n"
        "import kerneldsl, stdlib_kernels, targets\n"
        "from numba import cuda\n"
        "@cuda.jit\n"
        "def double(x):\n"
        "    x[cuda.grid(1)] *= 2\n"
        "x = np.arange(4.0)\n"
        "double[1, 4](x)\n"
        "print(x.tolist(), *(each.__file__ for each in (kerneldsl, stdlib_kernels, targets)))\n"
    )
    said = python("-m", "kerneldsl", "run", str(program), cwd=tmp_path).stdout
    assert "[0.0, 2.0, 4.0, 6.0]" in said
    assert said.count(str(checkout)) == 3
