"""What a command says of files that it cannot read or write, and the JSON of commands that act."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import kerneldsl as kd
from kerneldsl.tools.cli import app


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache, in a folder that is the current one."""
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("KERNELDSL_CACHE", "KERNELDSL_CACHE_SITE", "KERNELDSL_CACHE_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments):
    with pytest.raises(SystemExit) as ended:
        app.run([str(a) for a in arguments])
    return ended.value.code or 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("import", "nofile"), "nofile"),
        (("import", "."), "directory"),
        (("export", "nodir/entries.tar"), "nodir"),
        (("export", "."), ""),
        (("prune", "5X"), "SIZE is '5X'"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_code_2(capsys, arguments, words):
    assert call("cache", *arguments) == 2
    shown = capsys.readouterr()
    (line,) = shown.err.splitlines()
    assert line.startswith("error: ")
    assert words in line
    assert "KERNELDSL_CACHE_SIZE" not in line
    assert shown.out == ""


def test_any_command_that_cannot_use_a_file_says_so(capsys, monkeypatch):
    def versions():
        with open("no/such/file"):
            pass

    monkeypatch.setattr("kerneldsl.tools.versions.collect_versions", versions)
    assert call("versions", "--json") == 2
    assert capsys.readouterr().err == "error: No such file or directory: no/such/file\n"


def test_the_variable_is_blamed_for_its_own_size(monkeypatch):
    monkeypatch.setenv("KERNELDSL_CACHE_SIZE", "7Y")
    with pytest.raises(kd.CacheError, match="KERNELDSL_CACHE_SIZE is '7Y'"):
        kd.cache.prune()
    monkeypatch.delenv("KERNELDSL_CACHE_SIZE")
    with pytest.raises(kd.CacheError, match="max_bytes is '5X'"):
        kd.cache.prune("5X")


def as_json(capsys, *arguments):
    assert call(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_the_cache_tells_programs_what_it_did(capsys, folder):
    (folder / "script.py").write_text(
        "import numpy as np, kerneldsl as kd\n"
        "@kd.kernel\n"
        "def one(x):\n"
        "    x[kd.grid(1)] = 1\n"
        "one.forall(8)(np.zeros(8))\n"
        "print('words of the script')\n"
    )
    # Of its own process: what the script prints would otherwise stand beside the JSON.
    done = subprocess.run(
        [sys.executable, "-m", "kerneldsl", "warm", "script.py", "--json"],
        capture_output=True, text=True, check=True, env=os.environ, timeout=120,
    )  # fmt: skip
    (run,) = json.loads(done.stdout)["runs"]
    assert run == {"arch": None, "found": 0, "cached": run["cached"], "not_cached": 0}
    assert run["cached"] > 0
    assert "words of the script" in done.stderr
    (entry, *_) = as_json(capsys, "cache", "list")["entries"]
    assert call("cache", "show", entry["digest"], "--section", "made", "--json") == 0
    section = json.loads(capsys.readouterr().out)
    assert section["section"] == "made"
    assert "one" in section["text"]
    written = as_json(capsys, "cache", "export", "entries.tar")
    assert written == {"written": run["cached"], "file": "entries.tar"}
    assert as_json(capsys, "cache", "prune", "1T") == {"removed": 0}
    assert as_json(capsys, "cache", "clear") == {"removed": run["cached"]}


def test_version(capsys):
    assert call("--version") == 0
    assert capsys.readouterr().out == f"kerneldsl {kd.__version__}\n"
