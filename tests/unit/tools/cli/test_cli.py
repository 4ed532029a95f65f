"""The command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap

import pytest

from kerneldsl.placement import registry
from kerneldsl.tools.cli import app

SOURCE = """
import kerneldsl as kd

@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]

@kd.kernel("float32[::1]")
def declared(x):
    x[kd.grid(1)] = 1

@kd.kernel
def wrong(x):
    x[kd.grid(1)] = x.nothing

class Group:
    member = declared
"""
SIGNATURE = "float32, float32[::1], float32[::1], float32[:]"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "user_kernels.py"
    path.write_text(textwrap.dedent(SOURCE))
    return path


def call(*arguments):
    with pytest.raises(SystemExit) as ended:
        app.run([str(a) for a in arguments])
    return ended.value.code or 0


def test_ptx_and_its_parameters_are_written(source, tmp_path, capsys):
    out = tmp_path / "axpy.ptx"
    code = call(
        "compile", f"{source}:axpy", "--signature", SIGNATURE, "--arch", "sm_90", "-o", out,
        "--forall", 1,
    )  # fmt: skip
    assert code == 0
    text = out.read_text()
    assert ".target sm_90" in text
    layout = (tmp_path / "axpy.ptx.params.txt").read_text()
    assert "entry       axpy" in layout
    for row in ("out.strides[0]", "kd_extent[0]", "x.data", f"signature   {SIGNATURE}"):
        assert row in layout
    assert f".entry {layout.split()[1]}(" in text
    assert "axpy.ptx.params.txt" in capsys.readouterr().out


def test_without_a_file_the_ptx_is_printed(source, capsys):
    assert call("compile", f"{source}:Group.member", "--arch", "sm_80") == 0
    assert ".target sm_80" in capsys.readouterr().out


def test_json(source, capsys):
    code = call("compile", f"{source}:axpy", "-s", SIGNATURE, "-a", "sm_90", "--json")
    assert code == 0
    report = json.loads(capsys.readouterr().out)
    assert report["signature"] == SIGNATURE
    assert report["parameters"][0] == {"name": "a", "dtype": "float32", "offset": 0, "nbytes": 4}
    assert ".entry" in report["text"]


def test_the_ptx_version_can_be_asked_for(source, capsys):
    assert call("compile", f"{source}:declared", "-a", "sm_90", "--ptx-version", "8.3") == 0
    assert ".version 8.3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nofile.py:axpy",), "there is no file nofile.py"),
        (("axpy",), "FILE:KERNEL"),
        (("{source}",), "defines 3 kernels. They are axpy, declared, wrong. Name one: {source}:"),
        (("nofile.py",), "there is no file nofile.py"),
        (("{source}:nothing",), "It has axpy, declared, wrong"),
        (("{source}:axpy", "-s", "float33"), "unknown dtype 'float33'"),
        (("{source}:axpy", "-s", "float32"), "missing 'x'"),
        (("{source}:axpy", "-s", SIGNATURE, "--target", "tpu"), "--target is 'tpu'"),
        (("{source}:axpy", "-s", SIGNATURE, "--arch", "sm_1"), "sm_1"),
        (("{source}:axpy", "-s", SIGNATURE, "--block", "a"), "--block is 'a'"),
        (("{source}:axpy", "-s", SIGNATURE, "--forall", "9"), "1, 2 or 3"),
        (("{source}:wrong", "-s", "float32[::1]", "-a", "sm_90"), "x.nothing"),
        (("{source}:axpy", "-s", SIGNATURE, "-o", "/no/such/folder/x.ptx"), "cannot be written"),
    ],
)
def test_errors_are_one_message_and_code_2(source, capsys, arguments, words):
    assert call("compile", *(a.replace("{source}", str(source)) for a in arguments)) == 2
    shown = capsys.readouterr().err
    assert words.replace("{source}", str(source)) in shown
    assert "Traceback" not in shown


def test_the_only_kernel_of_a_file_needs_no_name(source, tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    only = tmp_path / "only_kernel.py"
    text = (
        "import kerneldsl as kd\nfrom user_kernels import axpy, declared\n\n"
        "@kd.kernel('float32[::1]')\ndef only(x):\n    x[kd.grid(1)] = 1\n\nalias = only\n"
    )
    only.write_text(text)
    assert call("compile", only, "--arch", "sm_90") == 0
    assert ".entry only(" in capsys.readouterr().out
    assert call("explain", only, "--arch", "sm_90") == 0
    assert "only(float32[::1])" in capsys.readouterr().out
    none = tmp_path / "no_kernel.py"
    none.write_text("from user_kernels import axpy\n")
    assert call("compile", none) == 2
    said = capsys.readouterr().err
    assert "no_kernel.py defines 0 kernels. Kernels that it imports do not count" in said


def test_a_file_that_cannot_be_run(tmp_path, capsys):
    path = tmp_path / "broken_kernels.py"
    path.write_text("1 / 0\n")
    assert call("compile", f"{path}:f") == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_versions(capsys):
    assert call("versions") == 0
    assert "llvmlite" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_commands_without_loading_them(capsys, monkeypatch, option):
    monkeypatch.setattr(app, "get_command", lambda name: pytest.fail(f"{name} was loaded"))
    assert call(option) == 0
    shown = capsys.readouterr().out
    for command in ("compile", "versions", "demo"):
        assert command in shown


def test_commands_of_other_packages(capsys, monkeypatch):
    class Entry:
        dist = None

        def load(self):
            return lambda: print("hello from elsewhere")

    monkeypatch.setattr(
        registry, "_entries", lambda group: {"greet": Entry()} if "commands" in group else {}
    )
    assert call("greet") == 0
    assert "hello from elsewhere" in capsys.readouterr().out


def test_the_module_runs():
    done = subprocess.run(
        [sys.executable, "-m", "kerneldsl", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "compile" in done.stdout


@pytest.mark.parametrize("group", [(), ("cache",)])
def test_help_says_what_a_command_does_and_not_what_a_function_returns(capsys, group):
    assert call(*group, "--help") == 0
    assert "Return" not in capsys.readouterr().out


@pytest.mark.parametrize("group", ["tune", "cache", "bench"])
def test_an_option_before_a_command_lists_the_commands(capsys, group):
    assert call(group, "--json") == 2
    said = " ".join(capsys.readouterr().err.replace("│", "").split())
    found = re.search(rf"Write --json after a command of kerneldsl {group}: (.*?) ╰", said)
    assert {"tune": "show, export, merge, fit", "cache": "info, list, show", "bench": "compare"}[
        group
    ] in found[1]


def test_the_paragraphs_of_help_fill_the_lines(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert call("compile", "--help") == 0
    assert (
        "NAME.ptx.params.json   \n describe the parameters. NAME.cubin" in capsys.readouterr().out
    )


def test_tuned_launches_are_listed_as_the_cache_is(capsys):
    assert call("tune", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"launches": []}
