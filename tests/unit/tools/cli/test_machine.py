"""The commands that look at the machine: tables, JSON with stable keys, exit codes, start-up."""

from __future__ import annotations

import ast
import json
import os
import re
import sys
import warnings
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import kerneldsl as kd
from kerneldsl.placement import described, devices, registry
from kerneldsl.tools import ranking
from kerneldsl.tools.cli import app, health, machine, output
from tests.support.fake_target import FakeTarget

ROOT = Path(__file__).parents[4]
COMMANDS = ("backends", "devices", "default", "status", "summary", "doctor")


pytestmark = pytest.mark.usefixtures("plain_environment")


def invoke(*arguments):
    return CliRunner().invoke(app.make_app(), [str(a) for a in arguments])


def as_json(*arguments):
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


# ------------------------------------------------------------------------------------------ JSON


def test_backends_json():
    (found,) = as_json("backends").values()
    assert [b["name"] for b in found] == [b.name for b in kd.backends()]
    for backend in found:
        assert list(backend) == [
            "name",
            "is_detected",
            "version",
            "is_usable",
            "reason",
            "evidence",
            "is_faked",
        ]


def test_devices_json():
    (found,) = as_json("devices").values()
    assert [d["device"] for d in found] == [str(d) for d in kd.devices()]
    for device in found:
        assert {"target", "index", "name", "kind", "arch", "unavailable", "reasons"} <= set(device)
        assert "free_memory_bytes" not in device, "live values belong to status"
        # What is null has its reason, and what has a value has none.
        missing = {name for name, value in device.items() if value is None}
        assert missing == set(device["unavailable"])


def test_one_device_json():
    (device,) = as_json("devices", "--device", "cpu").values()
    assert device["device"] == "cpu"
    assert device["free_memory_bytes"] > 0
    described = as_json("devices", "--target", "null")["devices"]
    assert [d["device"] for d in described] == [str(d) for d in kd.devices("null")]


def test_status_json(monkeypatch):
    monkeypatch.setenv("KERNELDSL_LOG", "error")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    told = as_json("status")
    keys = ["default", "default_refused", "devices", "host", "environment", "errors"]
    assert list(told) == keys
    assert told["default"] == kd.current_target()
    assert told["environment"] == {"KERNELDSL_LOG": "error", "CUDA_VISIBLE_DEVICES": "0"}
    assert set(told["errors"]) == {"counts", "entries"}
    assert told["host"]["total_memory_bytes"] >= told["host"]["available_memory_bytes"] > 0
    cpu = next(d for d in told["devices"] if d["device"] == "cpu")
    assert cpu["total_memory_bytes"] >= cpu["free_memory_bytes"] > 0
    assert all(cpu[name] is None for name in cpu["unavailable"])
    assert "cpu says so itself" not in cpu["unavailable"].values()


def test_summary_json():
    told = as_json("summary")
    assert list(told) == [
        "versions",
        "backends",
        "devices",
        "default",
        "cache_folder",
        "environment",
        "report",
        "default_refused",
        "default_reason",
        "live",
        "host",
        "system",
        "errors",
    ]
    assert told["versions"]["kerneldsl"] == kd.__version__
    assert told["default"] == kd.current_target()
    assert {"is_ok", "verdict", "problem_count", "warning_count", "checks"} == set(told["report"])
    # It has what the commands of earlier releases have, and agrees with those of this one.
    status, default = as_json("status"), as_json("default")
    assert [set(each) for each in told["live"]] == [set(each) for each in status["devices"]]
    assert told["default_reason"] == default["reason"]
    assert told["default_refused"] is None
    assert set(told["host"]) == set(status["host"])
    assert told["system"] == as_json("versions")
    assert told["backends"] == as_json("backends")["backends"]
    assert told["devices"] == as_json("devices")["devices"]
    checked = as_json("doctor")
    assert told["report"]["verdict"] == checked["verdict"]
    names = [[check["name"] for check in report["checks"]] for report in (told["report"], checked)]
    assert names[0] == names[1]


def test_names_of_earlier_releases_work_and_are_not_listed():
    listed = re.findall(r"^│ (\w+) ", invoke("--help").stdout, re.MULTILINE)
    assert listed[:3] == ["summary", "doctor", "devices"]
    assert not {"backends", "default", "status", "versions"} & set(listed)


def test_devices_and_the_summary_have_the_same_row():
    rows = []
    for command in ("devices", "summary"):
        headers, _, row, *_ = invoke(command).stdout.splitlines()
        assert headers.startswith("device   name")
        rows.append(dict(zip(re.split(r"\s{2,}", headers), re.split(r"\s{2,}", row), strict=True)))
    listed, summed = rows
    assert set(listed) <= set(summed)
    for name in ("device", "name", "kind", "arch", "processors", "bandwidth"):
        assert listed[name] == summed[name]
    assert listed["device"] == "cpu *"


def test_when_all_checks_pass_it_is_said(monkeypatch):
    monkeypatch.setattr(health, "_check", report_of(kd.Check("python", "ok", "as it should be")))
    for command in ("summary", "doctor"):
        assert "all checks passed (1 check)" in invoke(command).stdout


def test_doctor_json():
    told = as_json("doctor")
    assert told["is_ok"] is True
    names = [check["name"] for check in told["checks"]]
    assert "kernel.cpu" in names
    assert len(set(names)) == len(names)
    for check in told["checks"]:
        assert list(check) == ["name", "status", "found", "remedy"]


@pytest.mark.parametrize("spec", [None, "null"])
def test_default_json(monkeypatch, spec):
    if spec is not None:
        monkeypatch.setenv("KERNELDSL_TARGET", spec)
    told = as_json("default")
    assert list(told) == ["device", "reason", "by", "ranking"]
    assert told["device"] == kd.current_target()
    assert ("KERNELDSL_TARGET" in told["reason"]) is (spec is not None)
    totals = [entry["score"]["total"] for entry in told["ranking"]]
    assert totals == sorted(totals, reverse=True)
    for entry in told["ranking"]:
        score = entry["score"]
        parts = [value for name, value in score.items() if name.endswith("_points")]
        assert sum(parts) == pytest.approx(score["total"])
    assert "cpu" in [entry["device"] for entry in told["ranking"]]


@pytest.mark.full
def test_default_by_benchmark(monkeypatch):
    monkeypatch.setattr(ranking, "_BUDGET_SECONDS", 0.2)
    told = as_json("default", "--by", "benchmark")
    assert told["by"] == "benchmark"
    for entry in told["ranking"]:
        assert entry["problem"] is None, entry
        assert entry["copy_bytes_per_s"] > 0
        assert entry["float32_operations_per_s"] > 0
    assert "GB/s" in invoke("default", "--by", "benchmark").stdout


def test_versions_json():
    told = as_json("versions")
    assert told["kerneldsl"] == kd.__version__
    assert {"python", "numba", "llvmlite", "target cpu", "target cuda"} <= set(told)


def leaves(command, path=()):
    """Every command that does something, with the words that call it."""
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
    else:
        for name, each in below.items():
            yield from leaves(each, (*path, name))


def test_every_command_has_json():
    found = dict(leaves(typer.main.get_command(app.make_app(("demo",)))))
    assert {("cache", "clear"), ("warm",), ("demo",), ("compile",)} <= set(found)
    without = [
        path
        for path, command in found.items()
        # The output of `run` is that of another program.
        if path != ("run",) and not any("--json" in each.opts for each in command.params)
    ]
    assert not without


# ---------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("backends", ("webgl2", "no compute shaders", "usable")),
        ("devices", ("device", "cpu", "memory free / total")),
        ("status", ("temperature", "Kernels run on", "cpu")),
        ("summary", ("verdict", "cache folder", "versions", "usable")),
        ("default", ("cpu",)),
    ],
)
def test_tables(command, words):
    result = invoke(command)
    assert result.exit_code == 0, result.output
    for word in words:
        assert word in result.stdout
    assert "\x1b[" not in result.stdout, "colours only on a terminal"
    assert not [line for line in result.stdout.splitlines() if line != line.rstrip()]


def test_everything_of_one_device():
    result = invoke("devices", "-d", "cpu")
    for field in kd.device_info("cpu").fields():
        assert field.name in result.stdout


@pytest.mark.parametrize("columns", [40, 60, 100])
def test_narrow_terminals_get_every_word(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = invoke("backends").stdout.splitlines()
    assert max(map(len, lines)) <= columns
    for backend in kd.backends():
        assert any(line.startswith(backend.name) for line in lines)
    words = " ".join(lines).split()
    for word in ("NVIDIA's", "shaders,", "WebGPU"):
        assert word in words or word.rstrip(",") in words


def test_names_with_brackets_are_no_markup(capsys):
    output.print_table(("name",), [("[bold]GPU[/bold] [0]",), (None,)])
    assert "[bold]GPU[/bold] [0]" in capsys.readouterr().out


def test_a_terminal_gets_colours_unless_it_wants_none(monkeypatch, capsys):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    output.print_table(("status",), [("problem",)])
    assert "\x1b[" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    output.print_table(("status",), [("problem",)])
    assert "\x1b[31m" not in capsys.readouterr().out


def test_a_fake_is_shown_and_said(monkeypatch):
    monkeypatch.setenv("KERNELDSL_FAKE_GPU", "cuda")
    result = invoke("backends")
    row = next(line for line in result.stdout.splitlines() if line.startswith("cuda"))
    assert row.split()[1:4] == ["yes", "-", "no"]
    assert "not the real machine" in result.stderr
    assert as_json("backends")["backends"][0]["is_faked"] is True


def test_processes_are_named(monkeypatch, capsys):
    import psutil

    mine = health._process(os.getpid(), 5 * 2**20)
    assert mine == {
        "pid": os.getpid(),
        "name": psutil.Process().name(),
        "memory_bytes": 5 * 2**20,
    }
    assert health._process(2**22 + 12345, None)["name"] is None


# ------------------------------------------------------------------------------------ exit codes


def report_of(*checks):
    return lambda **_: kd.Report(checks)


def test_doctor_ends_with_1_where_there_is_a_problem(monkeypatch):
    bad = kd.Check("cuda.driver", "problem", "it is missing", "Install it")
    odd = kd.Check("cache.space", "warning", "little room", "Make some")
    monkeypatch.setattr(health, "_check", report_of(bad, odd))
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "What to do: Install it" in result.stdout
    assert "2 checks: 1 problem and 1 warning" in result.stdout
    result = invoke("doctor", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["problem_count"] == 1
    monkeypatch.setattr(health, "_check", report_of(odd))
    assert invoke("doctor").exit_code == 0


def test_summary_shows_only_what_is_wrong(monkeypatch):
    fine = kd.Check("python", "ok", "as it should be")
    bad = kd.Check("cuda.driver", "problem", "it is missing", "Install it")
    monkeypatch.setattr(health, "_check", report_of(fine, bad))
    result = invoke("summary")
    assert result.exit_code == 0
    assert "it is missing" in result.stdout
    assert "as it should be" not in result.stdout


@pytest.mark.parametrize("name", ["KERNELDSL_TARGET", "KERNELDSL_FAKE_GPU"])
def test_a_summary_goes_on_where_a_variable_is_wrong(monkeypatch, name):
    monkeypatch.setenv(name, "nonsense")
    result = invoke("summary")
    assert result.exit_code == 0
    assert "1 problem" in result.stdout
    assert f"environment.{name}" in result.stdout
    (default,) = re.findall(r"^default +(\S+)", result.stdout, re.MULTILINE)
    assert (default == "-") is (name == "KERNELDSL_TARGET")
    assert (as_json("summary")["default"] is None) is (name == "KERNELDSL_TARGET")


def test_a_status_goes_on_where_the_target_is_wrong(monkeypatch):
    assert as_json("status")["default_refused"] is None
    monkeypatch.setenv("KERNELDSL_TARGET", "nonsense")
    result = invoke("status")
    assert result.exit_code == 0
    assert "Kernels run on" not in result.stdout
    assert "no target is named 'nonsense'" in " ".join(result.stdout.split())
    assert re.search(r"KERNELDSL_TARGET +(│ +)?nonsense", result.stdout)
    told = as_json("status")
    assert told["default"] is None
    assert "no target is named 'nonsense'" in told["default_refused"]
    assert [each["device"] for each in told["devices"]][-1] == "cpu"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("devices", "--device", "cpu:9"), "there is no device cpu:9"),
        (("devices", "--device", "tpu"), "no target is named 'tpu'"),
        (("devices", "--target", "tpu"), "no target is named 'tpu'"),
        (("default", "--by", "colour"), "cannot be ranked by 'colour'"),
    ],
)
def test_refusals_are_one_message_and_code_2(capsys, arguments, words):
    with pytest.raises(SystemExit) as ended:
        app.run(list(arguments))
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.out == ""


def test_a_fallback_is_one_message(monkeypatch, capsys):
    monkeypatch.setenv("KERNELDSL_TARGET", "absent")
    monkeypatch.setattr(registry, "get_target", get_absent(registry.get_target))
    monkeypatch.setattr(devices, "get_target", registry.get_target)
    with pytest.raises(SystemExit) as ended:
        app.run(["status"])
    assert ended.value.code == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: kernels run on the CPU instead of absent")
    assert ".py" not in line


def test_other_warnings_stay_as_they_are(monkeypatch):
    seen = []
    monkeypatch.setattr(warnings, "showwarning", lambda *args, **fields: seen.append(args))
    monkeypatch.setattr(app, "make_app", lambda extra: lambda *a, **k: warnings.warn("old"))
    app.run(["status"])
    assert [str(message) for message, *_ in seen] == ["old"]


def test_a_target_without_devices_says_why(monkeypatch):
    monkeypatch.setattr(registry, "get_target", get_absent(registry.get_target))
    monkeypatch.setattr(described, "get_target", registry.get_target)
    result = invoke("devices", "--target", "absent")
    assert result.exit_code == 0
    assert result.stdout == "No devices of absent: it is at home\n"
    assert as_json("devices", "--target", "absent") == {"devices": []}


def get_absent(otherwise):
    """Find the targets that there are, and one that cannot be used."""

    class Absent(FakeTarget):
        name = "absent"

        def devices(self):
            return ()

        def unavailable_reason(self):
            return "it is at home"

    return lambda name: Absent() if name == "absent" else otherwise(name)


def test_a_device_and_a_target_at_once_are_refused():
    result = invoke("devices", "--device", "cpu", "--target", "null")
    assert result.exit_code == 2


def test_a_wrong_fake_is_refused(monkeypatch, capsys):
    monkeypatch.setenv("KERNELDSL_FAKE_GPU", "directx")
    with pytest.raises(SystemExit) as ended:
        app.run(["backends"])
    assert ended.value.code == 2
    assert "directx" in capsys.readouterr().err


def test_progress_is_silent_where_nobody_looks(capsys):
    with output.progress("Checking") as say:
        say("Checking more")
    assert capsys.readouterr() == ("", "")


# ------------------------------------------------------------------------------ documentation

DOCS = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")


def test_every_command_is_documented():
    documented = re.findall(r"^\| `kerneldsl (\w+)", DOCS, re.MULTILINE)
    made = app.make_app()
    registered = [*made.registered_commands, *made.registered_groups]
    assert sorted(documented) == sorted(str(c.name) for c in registered if not c.hidden)
    for former in (c.name for c in registered if c.hidden):
        assert f"`{former}`" in DOCS


def test_every_option_is_documented():
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    found = dict(leaves(typer.main.get_command(app.make_app(("demo",)))))
    options = [
        (path, [name for name in (*each.opts, *each.secondary_opts) if name.startswith("--")])
        for path, command in found.items()
        for each in command.params
    ]
    assert (("cache", "show"), ["--section"]) in options
    for path, names in options:  # one of --kernels and --no-kernels is enough
        assert not names or re.search(rf"(?:{'|'.join(names)})\b", pages), path


def test_every_check_is_documented():
    """Each check's name, as far as it is a constant, stands in the table of checks."""
    documented = re.findall(r"`([a-z_.<>*:0-9]+)`", DOCS)
    patterns = [re.escape(re.sub(r"<\w+>", "", name)).replace(r"\*", ".*") for name in documented]
    parts = "python|packages|environment|cache|memory|processes|cpu|cuda|kernel"
    wanted = re.compile(rf"(?:{parts})(?:\.[\w.]*)?")
    sources = [*(ROOT / "kerneldsl" / "tools" / "doctor").glob("*.py")]
    sources += [ROOT / "targets" / t for t in ("cpu/runtime/host_pool.py", "cuda/checks.py")]
    found = set()
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign):
                candidates = [node.value]
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Check":
                candidates = node.args[:1]
            else:
                continue
            for value in candidates:
                first = value.values[0] if isinstance(value, ast.JoinedStr) else value
                text = getattr(first, "value", None)
                if isinstance(text, str) and wanted.fullmatch(text):
                    found.add(text)
    assert len(found) > 20
    undocumented = [n for n in sorted(found) if not any(re.match(p, n) for p in patterns)]
    assert not undocumented


def test_memory_for_people():
    assert machine.memory_text(None, None) is None
    assert machine.memory_text(None, 2**30) == "? / 1 GiB"
    assert machine.memory_text(2**29, 2**30) == "512 MiB / 1 GiB"
