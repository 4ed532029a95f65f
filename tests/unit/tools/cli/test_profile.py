"""``kerneldsl profile``: a script runs as it would, and what it did is told."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

import pytest

from kerneldsl.tools.cli import app
from kerneldsl.tools.cli.profile import _run
from tests.support.extent import examples

SCRIPT = """
import sys
import numpy as np
import kerneldsl as kd

@kd.kernel
def double(x):
    x[kd.grid(1)] *= 2

with kd.use("cpu"):
    for _ in range(3):
        double.forall(64)(np.ones(64))
print("arguments", sys.argv[1:], __name__)
if "fail" in sys.argv:
    sys.exit(7)
"""

pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.fixture
def script(tmp_path: Path) -> str:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    return str(file)


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app.run(["profile", *arguments])
    return int(ended.value.code or 0)


def test_json_is_alone_on_standard_output_and_a_trace_is_written(
    script: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.json"
    options = ("--json", "--work", "--timeline", str(trace))
    assert call(*options, script, "--own", "x") == 0
    said = capfd.readouterr()
    found = json.loads(said.out)
    (launches,) = (row for row in found["rows"] if row["kind"] == "launch")
    assert (launches["name"], launches["calls"], launches["flops"]) == ("double", 3, 3 * 64)
    assert 0 < found["recorded_ns"] <= found["wall_ns"]
    assert found["by"] == "host"
    assert "arguments ['--own', 'x'] __main__" in said.err
    assert json.loads(trace.read_text())["traceEvents"]


def test_a_script_that_fails_leaves_its_profile(
    script: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert call("--by", "device", script, "fail", "a b") == 7
    said = capfd.readouterr()
    assert "double" in said.out
    assert "by the time of the devices" in said.out
    assert (
        f"ended with status 7. Run it by itself: {sys.executable} {script} fail 'a b'" in said.err
    )


def test_a_script_sees_what_python_gives_it_and_shows_its_own_frames(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script.py").write_text("print(__file__)\ndef f():\n    return 1 // 0\nf()\n")
    (tmp_path / "wrong.py").write_text("1 +\n")
    monkeypatch.chdir(tmp_path)
    assert call("script.py") == 1
    said = capfd.readouterr()
    assert said.out.startswith(f"{tmp_path}/script.py\n")
    assert re.findall(r'File "([^"]+)", line (\d+)', said.err) == [
        (f"{tmp_path}/script.py", "4"),
        (f"{tmp_path}/script.py", "3"),
    ]
    assert call("wrong.py") == 1
    said = capfd.readouterr()
    assert re.findall(r'File "([^"]+)"', said.err) == [f"{tmp_path}/wrong.py"]
    assert "SyntaxError" in said.err
    (tmp_path / "killed.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    assert call("killed.py") == 128 + 15
    assert "killed.py was ended by a signal: Terminated" in capfd.readouterr().err


def test_ctrl_c_shows_the_profile_of_what_ran(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script.py").write_text(
        "import os, signal\nfor pid in os.getppid(), os.getpid():\n    os.kill(pid, signal.SIGINT)"
    )
    monkeypatch.chdir(tmp_path)
    assert call("script.py") == 128 + 2
    said = capfd.readouterr()
    assert "of which was recorded" in said.out
    assert re.findall(r'File "([^"]+)"', said.err) == [f"{tmp_path}/script.py"]
    assert said.err.endswith("error: script.py was interrupted.\n")


def test_an_interrupt_while_the_script_ends_loses_no_status() -> None:
    text = "import os, signal\nos.kill(os.getppid(), signal.SIGINT)\nos._exit(7)"
    command = [sys.executable, "-ISc", text]
    assert {_run(command, None) for _ in range(examples(100))} == {7}


def test_a_second_interrupt_ends_the_script() -> None:
    text = "import os, signal, time\nfor n in (1, 2):\n    os.kill(os.getppid(), signal.SIGINT)\n"
    command = [sys.executable, "-ISc", f"{text}    time.sleep(1 if n == 1 else 600)"]
    with pytest.raises(KeyboardInterrupt):
        _run(command, None)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--timeline", "{folder}/z.foo"),
            "The name of a trace ends in .json, of a picture in .pdf, .png, .svg",
        ),
        (("--timeline", "{folder}/none/z.json"), "There is no folder {folder}/none"),
        (("--timeline", "{folder}"), "a timeline cannot be written to"),
        (("--timeline", "{folder}/z.svg"), "needs matplotlib"),
        (("--nvtx",), "need the package nvtx"),
        (("--cupti",), "needs the package cupti-python"),
    ],
)
def test_what_cannot_be_is_refused_before_the_script_runs(
    options: tuple[str, ...],
    words: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for package in ("matplotlib", "nvtx", "cupti"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("kerneldsl.profiling.profile.find_spec", lambda name: None)
    script = tmp_path / "script.py"
    script.write_text("print('it ran')")
    assert call(*(each.format(folder=tmp_path) for each in options), str(script)) == 2
    said = capfd.readouterr()
    assert words.format(folder=tmp_path) in said.err
    assert "Traceback" not in said.err
    assert "ended with status" not in said.err
    assert "it ran" not in said.out


def test_a_timeline_that_fails_after_all_is_not_the_scripts_fault(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    script = tmp_path / "script.py"
    script.write_text(f"import os; os.rmdir({str(folder)!r})")
    assert call("--timeline", str(folder / "z.json"), str(script)) == 2
    said = capfd.readouterr()
    assert "there is no timeline of" in said.err
    assert f"There is no folder {folder}" in said.err
    assert "Traceback" not in said.err
    assert "ended with status" not in said.err
    assert "of which was recorded" in said.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.py",), "there is no file"),
        ((str(Path(__file__).parent),), "is a folder. Check the path of the script"),
        (("--by", "gpu", __file__), "It must be host or device"),
    ],
)
def test_mistakes_are_one_message_and_code_2(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*arguments) == 2
    assert words in capsys.readouterr().err
