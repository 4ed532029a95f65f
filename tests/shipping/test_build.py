"""``kerneldsl build``: what it compiles, and that two builds give the same bytes."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path

import pytest

from kerneldsl.shipping.forms import text_of_functions
from kerneldsl.shipping.manifest import MANIFEST, Manifest
from kerneldsl.tools.cli import tasks
from kerneldsl.tools.cli.building import Builder
from kerneldsl.tools.cli.output import progress_bar
from targets.cuda.compile.cubin_file import read_cubin
from tests.shipping.programs import LEVELS, ROOT, build, run, write_package
from tests.support.extent import IS_QUICK

SCRIPT = """
import sys
import numpy as np
import kerneldsl as kd
from mypkg.kernels import axpy, turn

@kd.kernel
def mine(x):
    x[kd.grid(1)] += 1

n = int(sys.argv[1])
x = np.ones(n, np.float64)
axpy.forall(n)(np.float32(2), np.ones(n, np.float32), np.ones(n, np.float32))
turn[1, (8, 4)](np.ones((4, 16), np.float32))
mine.forall(n)(x)
"""


def leave_out_waves(package: Path) -> None:
    """Leave out the kernel that is compiled the longest."""
    kernels = package / "kernels.py"
    before, _, rest = kernels.read_text().partition("@kd.kernel(signature=[")
    kernels.write_text(before + rest[rest.index("@kd.kernel(signature=") :])


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_declared(built: Path) -> None:
    folder = built / "mypkg" / "_kernels"
    manifest = Manifest.decode((folder / MANIFEST).read_bytes())
    assert manifest.package == "mypkg"
    assert {each.arch for each in manifest.entries} == set(LEVELS)
    found = {(each.kernel, each.signature, each.launch) for each in manifest.entries}
    block = ", block (16, 4, 1)"
    assert found == {
        ("mypkg.kernels.axpy", "float32, float32[::1], float32[::1]", "forall of rank 1"),
        ("mypkg.kernels.axpy", "float32, float32[::1], float32[::1]", "[grid, block]"),
        ("mypkg.kernels.waves", "float32[::1], float32[::1]", "forall of rank 1"),
        ("mypkg.kernels.waves", "float32[::1], float32[::1]", "[grid, block]"),
        ("mypkg.kernels.waves", "float64[::1], float64[::1]", "forall of rank 1"),
        ("mypkg.kernels.waves", "float64[::1], float64[::1]", "[grid, block]"),
        ("mypkg.kernels.turn", "float32[:, ::1]", f"forall of rank 1{block}"),
        ("mypkg.kernels.turn", "float32[:, ::1]", f"[grid, block]{block}"),
    }
    assert len(manifest.entries) == len(found) * len(LEVELS)
    assert set(manifest.files) == set(contents(folder)) - {MANIFEST}


def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    folders = []
    for name, workers in (("first", "1"), ("second", "5")):
        package = write_package(tmp_path / name)
        if IS_QUICK:
            leave_out_waves(package)
        options = ("--cpu", "x86-64-v3,aarch64", "--arch", "sm_90")
        build(package, *options, "--trace", str(tmp_path / "script.py"), "-j", workers, "1000")
        folders.append(contents(package / "_kernels"))
    first, second = folders
    assert first == second
    assert any(name.endswith(".ptx") for name in first)
    for name, data in first.items():
        for place in (str(tmp_path), str(ROOT), sys.prefix):
            assert place.encode() not in data, name
        if name.endswith(".cubin"):
            assert read_cubin(data, name).number == 90


def test_the_launches_of_a_script(tmp_path: Path) -> None:
    package = write_package(tmp_path)
    kernels = package / "kernels.py"
    kernels.write_text(kernels.read_text().replace("signature=", "block=None) #"))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    options = ("--cpu", "x86-64-v2", "--arch", "sm_90", "--trace", str(script), "--json", "2048")
    report = json.loads(build(package, *options).stdout)
    found = {(each["kernel"], each["launch"], each["arch"]) for each in report["entries"]}
    # Its own kernel is not the package's.
    assert {each[0] for each in found} == {"mypkg.kernels.axpy", "mypkg.kernels.turn"}
    assert ("mypkg.kernels.axpy", "forall of rank 1", "sm_90") in found
    assert ("mypkg.kernels.turn", "[grid, block], block (8, 4, 1)", "x86-64-v2") in found
    reason = "it declares no signature, and no script launches it"
    assert report["left_out"] == {"mypkg.kernels.waves": reason}
    # The launches of the script are found, also on a described GPU.
    use = f"""
import sys, runpy, os
from kerneldsl.placement.registry import get_target
from kerneldsl.tools.cli.worker import described_gpu
null = get_target("null")
null.set_devices(described_gpu("sm_90", null.devices()[0]))
sys.argv = ["", "2048"]
text = open({str(script)!r}).read().replace("mine.forall(n)(x)", "")
open({str(tmp_path / "use.py")!r}, "w").write(text)
runpy.run_path({str(tmp_path / "use.py")!r})
print("numba" in sys.modules)
"""
    for target, level in (("null", {}), ("cpu", {"NUMBA_ENABLE_AVX": "0"})):
        done = run(use, tmp_path, KERNELDSL_TARGET=target, **level)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == "False", target


def test_a_rebuild_removes_old_files(built: Path, tmp_path: Path) -> None:
    package = tmp_path / "mypkg"
    shutil.copytree(built / "mypkg", package)
    other = package / "_kernels" / "notes.txt"
    other.write_text("not a file of the build")
    build(package, "--cpu", "x86-64-v2")
    found = contents(package / "_kernels")
    manifest = Manifest.decode(found[MANIFEST])
    assert set(found) == {*manifest.files, MANIFEST, "notes.txt"}
    assert {each.arch for each in manifest.entries} == {"x86-64-v2"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("nothing_there",), "nothing_there cannot be imported"),
        (("json.decoder",), "json.decoder is a module, and not a package"),
        (("./",), "has no __init__.py"),
        (("json",), "json has no kernels to compile"),
        (("mypkg", "--cpu", "x86-64-v9"), "--cpu names 'x86-64-v9'"),
        (("mypkg", "--arch", "sm_90,sm_1"), "--arch names 'sm_1'. Plans can be made for sm_75, "),
        (("mypkg", "--cpu", ""), "--cpu names no level, and there is no --arch. Kernels are"),
        (("mypkg/kernels.py",), "kernels.py is a file. The compiled kernels are a folder of a"),
        (("mypkg", "-o", "failing.py"), "the folder failing.py cannot be written: Not a directory"),
        (("mypkg", "-o", "failing.py/x"), "failing.py/x cannot be written: Not a directory. The"),
        (("mypkg", "-o", "/proc/x"), "the folder /proc/x cannot be written: No such file or"),
        (("mypkg", "--trace", "missing.py"), "there is no file missing.py"),
        (("mypkg", "--trace", "failing.py"), "failing.py failed: ZeroDivisionError: division"),
        (("mypkg", "--trace", "failing.py", "-j1"), "at failing.py:3 1 / 0"),
        (("mypkg", "--trace", "failing.py", "-j2"), "at failing.py:3 1 / 0"),
        (("mypkg", "--trace", "wrong.py"), "wrong.py failed: SyntaxError"),
        (("mypkg", "--trace", "ending.py"), "ending.py failed: SystemExit: 3"),
        (
            ("mypkg", "--trace", "refused.py"),
            "give the value at each launch. Run it by itself. at refused.py:3, in k def k(x, n=3):",
        ),
        (("mypkg", "--trace", "killed.py", "-j4"), "ended with status -9. Status -9 means"),
    ],
)
def test_mistakes(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    write_package(tmp_path)
    (tmp_path / "failing.py").write_text("import mypkg\n\n1 / 0\n")
    (tmp_path / "wrong.py").write_text("def f(:\n")
    (tmp_path / "refused.py").write_text(
        "import kerneldsl as kd\n@kd.kernel\ndef k(x, n=3):\n    x[0] = n\nk[1, 1]([0], 3)\n"
    )
    (tmp_path / "ending.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "killed.py").write_text("import os; os.kill(os.getpid(), 9)")
    done = subprocess.run(
        [sys.executable, "-m", "kerneldsl", "build", *options],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stdout
    assert said in " ".join(done.stderr.split())
    assert not (tmp_path / "mypkg" / "_kernels").exists()


def test_scripts_run_before_anything_is_compiled(tmp_path: Path) -> None:
    builder = Builder(str(write_package(tmp_path, "ordered")), ["x86-64-v2"], ["sm_90"])
    tasks = builder.tasks([Path("script.py")], [], workers=2)
    scripts = ["script.py for x86-64-v2", "script.py for sm_90"]
    assert [each.label for each in tasks] == [*scripts, *["declared signatures"] * 2]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for stream, is_quiet in ((_Terminal(), False), (_Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress_bar("Compiling", is_quiet=is_quiet) as advance:
            for label in ("one", "two", "three"):
                advance(label, 3)
        said.append(re.sub(r"\x1b\[[\d;?]*\w", "", stream.getvalue()))
    assert "0/3 one" in said[0]
    assert "2/3 three" in said[0]
    assert "-" not in said[0]
    assert said[1:] == ["", ""]


def test_the_text_of_a_module() -> None:
    text = (
        "import a\nX = 1\n\n@d(\n    1)\ndef f():\n    pass\n\ndef g():\n    0\nfrom b import c\n"
    )
    assert text_of_functions(text, [6]) == (
        "import a\n\n\n@d(\n    1)\ndef f():\n    pass\n\n\n\nfrom b import c\n"
    )
    assert text_of_functions(text, [4]) == text_of_functions(text, [7])
    assert text_of_functions("X = 1\n", []) == ""


def test_kernels_that_nothing_launches_are_named(tmp_path: Path) -> None:
    package = write_package(tmp_path)
    leave_out_waves(package)
    kernels = package / "kernels.py"
    more = "".join(f"\n@kd.kernel\ndef plain_{n}(x):\n    x[kd.grid(1)] = {n}\n" for n in range(10))
    kernels.write_text(kernels.read_text() + more)
    said = build(package, "--cpu", "x86-64-v2").stdout
    (line,) = (each for each in said.splitlines() if each.startswith("not shipped"))
    assert line.startswith("not shipped: mypkg.kernels.plain_0, mypkg.kernels.plain_1, ")
    assert line.endswith("plain_7 and 2 more: it declares no signature, and no script launches it")


def is_there(group: int) -> bool:
    """Return whether a group of processes has any."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="signals are those of POSIX")
def test_an_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    package = write_package(tmp_path)
    script = tmp_path / "long.py"
    script.write_text("import time\nprint('waiting', flush=True)\ntime.sleep(100)\n")
    command = [sys.executable, "-m", "kerneldsl", "build", str(package), "--trace", str(script)]
    with subprocess.Popen(
        [*command, "-j3", "--cpu", "x86-64-v2"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert not (package / "_kernels").exists()
    until = time.monotonic() + 60
    while is_there(process.pid):  # the last ones may be on their way out
        assert time.monotonic() < until
        time.sleep(0.01)


def test_an_interrupted_task_interrupts_the_build(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process of a task may have the signal before the process that waits for it."""
    monkeypatch.setattr(tasks, "_SIGNAL_S", 0.01)
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    ours, theirs = multiprocessing.Pipe(duplex=False)

    class Interrupted:
        label = "interrupted"

        def jobs(self) -> list[object]:
            raise KeyboardInterrupt

    tasks._work(None, Interrupted(), theirs, set())
    with pytest.raises(KeyboardInterrupt):
        tasks._receive(tasks._Running(0, None, ours), Interrupted())
    for error in (KeyboardInterrupt, ZeroDivisionError):  # in callbacks, which raise nothing

        def fail(gone: object, error: type[BaseException] = error) -> None:
            raise error

        watched = Interrupted()
        watching = weakref.ref(watched, fail)
        del watched
        assert watching() is None
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said
    assert "KeyboardInterrupt" not in said


def test_kernels_of_cuda_code_are_left_out_with_a_reason(tmp_path: Path) -> None:
    package = write_package(tmp_path)
    leave_out_waves(package)
    kernels = package / "kernels.py"
    source = 'extern \\"C\\" __global__ void own(float *x) { *x = 1; }'
    more = f'\nown = kd.cuda_source("{source}", "own", "float32[::1]")\n'
    kernels.write_text(kernels.read_text() + more)
    said = build(package, "--cpu", "", "--arch", "sm_90").stdout
    (line,) = (each for each in said.splitlines() if each.startswith("not shipped"))
    assert line == (
        "not shipped: mypkg.kernels.own: it is compiled code of another language; put a cubin or "
        "PTX into the package, and load it by kd.module"
    )
