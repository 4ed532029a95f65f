"""The commands as processes: what they import, where their output goes, their exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kerneldsl as kd

ROOT = Path(__file__).parents[4]


pytestmark = pytest.mark.usefixtures("plain_environment")


def run(*arguments, code=0, environment=None, text="utf-8"):
    done = subprocess.run(
        [sys.executable, "-m", "kerneldsl", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        capture_output=True,
        encoding=text,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.skipif(sys.platform == "win32", reason="its shells do not close standard output")
@pytest.mark.parametrize("command", ["devices", "versions"])
def test_standard_output_that_is_closed(command):
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m kerneldsl {command} >&-', sys.executable],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_quick_commands_import_no_compiler():
    commands = ("backends", "devices", "default", "status")
    program = (
        "import sys\n"
        "from kerneldsl.tools.cli.app import run\n"
        "heavy = {'numba', 'sympy', 'scipy', 'torch', 'rich.markdown'}\n"
        f"for command in {commands}:\n"
        "    try:\n"
        "        run([command, '--json'])\n"
        "    except SystemExit as ended:\n"
        "        assert not ended.code, (command, ended.code)\n"
        "    print('end', flush=True)\n"
        "    print(command, sorted({m for m in sys.modules} & heavy), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    *outputs, rest = done.stdout.split("end\n")
    assert all(json.loads(output) for output in outputs)
    assert (len(outputs), rest) == (len(commands), "")
    assert done.stderr.splitlines()[-len(commands) :] == [f"{each} []" for each in commands]


def test_help_imports_neither_numpy_nor_a_target():
    program = (
        "import sys\n"
        "from kerneldsl.tools.cli.app import run\n"
        "try:\n"
        "    run(['--help'])\n"
        "except SystemExit:\n"
        "    pass\n"
        "print(sorted({'numpy', 'targets', 'numba'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"
    for command in ("summary", "doctor", "devices"):
        assert command in done.stdout


def test_json_stands_alone_on_standard_output():
    done = run("summary", "--json")
    assert json.loads(done.stdout)["versions"]["kerneldsl"] == kd.__version__
    assert done.stderr == ""


def test_a_terminal_without_unicode_gets_no_traceback():
    done = run("devices", "-d", "cpu", environment={"PYTHONIOENCODING": "ascii"}, text="ascii")
    assert "total_memory_bytes" in done.stdout
    assert done.stderr == ""


def test_doctor_by_its_exit_code():
    run("doctor", "--no-kernels")
    done = run("doctor", "--no-kernels", code=1, environment={"KERNELDSL_TARGET": "cpu:99"})
    assert "environment.KERNELDSL_TARGET" in done.stdout
    assert "Traceback" not in done.stderr
