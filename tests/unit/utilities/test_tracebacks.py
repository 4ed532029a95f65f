"""Errors of ours show the user's frames and the message; the rest is in `details`."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.utilities import tracebacks
from stdlib_kernels import imaging, linalg, reduce, scan
from tests.support.shells import interactive_shell

_SCRIPT = """\
import numpy as np
import kerneldsl as kd

kd.use("cpu")

@kd.kernel
def shift(x, out):
    i = kd.grid(1)
    out[i] = x[i] + "a"

def run():
    shift.forall(3)(np.ones(3), np.ones(3))

run()
"""


@kd.kernel
def adds_text(x):
    i = kd.grid(1)
    x[i] = x[i] + "a"


@kd.kernel
def makes_a_list(x):
    x[0] = sum([i + 1 for i in range(3)])


def _launch(kernel):
    with kd.use("cpu"):
        kernel.forall(3)(np.ones(3))


def _caught(kernel):
    with pytest.raises(kd.KernelError) as info:
        _launch(kernel)
    return info.value


def _run(path: Path, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 1
    return done.stderr.splitlines()


def test_a_script_prints_the_users_frames_and_the_message(tmp_path: Path) -> None:
    script = tmp_path / "shift.py"
    script.write_text(_SCRIPT)
    lines = _run(script)
    assert len(lines) <= 11  # newer versions of Python underline calls
    assert all(str(script) in line for line in lines if line.lstrip().startswith("File "))
    assert any(line.startswith("kerneldsl.errors.KernelTypingError: shift(") for line in lines)
    assert not any("numba" in line for line in lines)
    full = _run(script, KERNELDSL_TRACEBACK="full")
    assert len(full) > 60
    assert any("kerneldsl/ir/frontend" in line for line in full)


_OWN_STATISTICS = """\
import kerneldsl as kd

@kd.kernel
def fill(x):
    x[0] = 1

def run():
    try:
        raise ValueError("the program's own")
    except ValueError:
        fill.forall(-1)
"""


def test_a_module_of_the_program_may_be_called_like_one_of_pythons(tmp_path: Path) -> None:
    (tmp_path / "statistics.py").write_text(_OWN_STATISTICS)
    script = tmp_path / "main.py"
    script.write_text("import statistics\nstatistics.run()\n")
    lines = _run(script)
    assert "ValueError: the program's own" in lines
    assert lines[-1].startswith("kerneldsl.errors.LaunchConfigError: ")


def test_what_is_not_shown_is_in_details() -> None:
    error = _caught(adds_text)
    assert error.__cause__ is None
    assert type(error.__context__).__module__.startswith("kerneldsl.ir")
    assert "No implementation of function Function(<built-in function add>)" in error.details
    assert "ir/typing.py" in error.details
    frames = traceback.extract_tb(error.__traceback__)
    assert frames[-1].name == "_launch"
    assert {frame.filename for frame in frames} == {__file__}


def test_details_travel() -> None:
    error = _caught(adds_text)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - what was just written
    assert again.details == error.details
    assert "Function(<built-in function add>)" in again.details


def test_full_tracebacks_keep_frames_and_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELDSL_TRACEBACK", "full")
    error = _caught(adds_text)
    assert type(error.__cause__).__module__.startswith("kerneldsl.ir")
    assert len(traceback.extract_tb(error.__traceback__)) > 5


@pytest.mark.parametrize("word", ["", "full"])
def test_arguments_that_fit_no_parameters(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("KERNELDSL_TRACEBACK", word)
    for call in (lambda: kd.devices(foo=1), lambda: reduce.sum(), lambda: kd.Stream(1, 2, 3, 4)):
        with pytest.raises(TypeError, match="argument") as told:
            call()
        files = {frame.filename for frame in traceback.extract_tb(told.tb)}
        assert (files == {__file__}) is (word == "")


def test_a_type_error_of_the_program_keeps_its_frames() -> None:
    @tracebacks.shorten_errors
    def calls() -> None:
        len(5)  # type: ignore[arg-type]

    with pytest.raises(TypeError) as told:
        calls()
    assert [frame.name for frame in traceback.extract_tb(told.tb)][-1] == "calls"


def test_exceptions_of_the_user_stay_in_the_chain() -> None:
    def launch_instead() -> None:
        try:
            raise ValueError("the user's own")
        except ValueError:
            adds_text.forall(-1)

    with pytest.raises(kd.LaunchConfigError) as told:
        launch_instead()
    assert "the user's own" in "".join(traceback.format_exception(told.value))


def test_nothing_of_the_interpreter_is_changed() -> None:
    hooks = sys.excepthook, sys.unraisablehook
    _caught(adds_text)
    assert (sys.excepthook, sys.unraisablehook) == hooks


def test_a_refused_construct_is_printed_as_a_syntax_error() -> None:
    error = _caught(makes_a_list)
    assert isinstance(error, UnsupportedConstructError)
    assert (error.filename, error.lineno) == (__file__, error.where.lineno)
    shown = "".join(traceback.format_exception(error)).splitlines()
    place = shown.index(f'  File "{__file__}", line {error.lineno}')
    assert shown[place + 1].strip() == "x[0] = sum([i + 1 for i in range(3)])"
    assert shown[place + 2].strip() == "^" * len("[i + 1 for i in range(3)]")
    assert shown[place + 3].startswith("kerneldsl.errors.UnsupportedConstructError: a list comp")
    assert len(shown) == place + 4
    assert "<string>" not in "".join(shown)


@pytest.mark.parametrize(
    "call",
    [
        lambda: adds_text.forall("many"),
        lambda: adds_text[1],
        lambda: adds_text(np.ones(3)),
        lambda: adds_text.ptx("float64[::1]", arch="sm_90"),
        lambda: adds_text.forall(3).plan("float64[::1]", arch="sm_90"),
        lambda: adds_text.forall(3).bind(),
        lambda: kd.kernel(staticmethod(len)),
        lambda: kd.kernel(block="x"),
        lambda: kd.use("nowhere"),
        lambda: kd.empty(-1),
        lambda: kd.Space(block=[]),
    ],
)
def test_public_calls_leave_no_frame(call) -> None:
    with pytest.raises(kd.KernelError) as info:
        call()
    frames = traceback.extract_tb(info.value.__traceback__)
    assert {frame.filename for frame in frames} == {__file__}


def test_ipython_shows_the_message_without_a_stray_file(capsys: pytest.CaptureFixture) -> None:
    with interactive_shell() as shell:
        shell.run_cell("import kerneldsl as kd, numpy as np")
        shell.run_cell("@kd.kernel\ndef lists(x):\n    x[0] = [1, 2]")
        shell.run_cell("@kd.kernel\ndef adds(x):\n    x[0] = x[0] + 'a'")
        capsys.readouterr()
        for kernel, message in (("lists", "a list cannot be used"), ("adds", "does not take")):
            shell.run_cell(f"with kd.use('cpu'): {kernel}.forall(1)(np.ones(1))")
            done = capsys.readouterr()
            shown = done.out + done.err
            assert message in shown
            assert "<string>" not in shown
            assert "site-packages/numba" not in shown
            assert len(shown.splitlines()) <= 14


def _closed(thing):
    thing.close()
    return thing


def _graph():
    stream = kd.Stream()
    with stream.capture() as graph:
        pass
    return graph


@pytest.mark.parametrize(
    "call",
    [
        lambda: kd.empty("a"),
        lambda: kd.full(3, "a"),
        lambda: kd.zeros(3, order="X"),
        lambda: kd.ones(-1),
        lambda: kd.DeviceArray(1, 2, 3),
        lambda: kd.zeros(3).fill("a"),
        lambda: kd.zeros(3).reshape(2),
        lambda: kd.zeros(3)["a"],
        lambda: kd.zeros(3).__setitem__(0, [1, 2]),
        lambda: kd.zeros(3).copy_from_host(np.zeros(4)),
        lambda: kd.zeros(3) + "a",
        lambda: bool(kd.zeros(3)),
        lambda: kd.zeros(3).item(),
        lambda: _closed(kd.zeros(3)).copy_to_host(),
        lambda: kd.zeros(3).sum(out=3),
        lambda: kd.MemoryPool(limit=-1),
        lambda: kd.MemoryPool().trim(-1),
        lambda: kd.Stream(priority="a"),
        lambda: kd.Stream.from_foreign("a"),
        lambda: _closed(kd.Stream()).synchronize(),
        lambda: _closed(kd.Event()).record(),
        lambda: kd.Event().elapsed_ms(kd.Event()),
        lambda: _closed(_graph()).launch(),
        lambda: _graph().update(3),
        lambda: kd.StreamPool(-1),
        lambda: reduce.sum("a"),
        lambda: linalg.matmul(np.zeros(3), np.zeros((2, 2))),
        lambda: imaging.sobel(np.zeros(3)),
        lambda: scan.cumsum("a"),
    ],
)
def test_methods_and_library_functions_leave_no_frame(call) -> None:
    with kd.use("cpu"), pytest.raises(kd.KernelError) as info:
        call()
    files = {frame.filename for frame in traceback.extract_tb(info.value.__traceback__)}
    assert files <= {__file__}
    assert "kerneldsl" in info.value.details


def test_an_index_out_of_bounds_is_the_program_s() -> None:
    with kd.use("cpu"):
        array = kd.zeros(3)
    with pytest.raises(IndexError, match="out of bounds") as info:
        array[5]
    assert [entry.name for entry in info.traceback] == [
        "test_an_index_out_of_bounds_is_the_program_s"
    ]
