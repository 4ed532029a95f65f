"""The table of environment variables: checked when the first function is decorated."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.placement import devices, registry
from kerneldsl.utilities import environment
from tests.support.extent import full_beyond


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_checked", None)
    monkeypatch.setattr(environment, "_reported", set())


def _decorate(times: int = 1) -> None:
    for _ in range(times):
        _decorate_one()


def _decorate_one() -> None:
    @kd.kernel
    def double(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = 2 * x[i]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("KERNELDSL_FALLBACK", "slient"),
        ("KERNELDSL_DEBUG", "maybe"),
        ("KERNELDSL_LAUNCHER", "none"),
        ("KERNELDSL_POOL", "small"),
        ("KERNELDSL_THREADING_LAYER", "pthreads"),
        ("KERNELDSL_TRACEBACK", "short"),
    ],
)
def test_a_word_that_it_cannot_be_is_an_error_at_once(monkeypatch, name, word) -> None:
    monkeypatch.setenv(name, word)
    with pytest.raises(kd.ArgumentValueError) as caught:
        _decorate()
    assert f"{name} is {word!r}" in str(caught.value)
    assert "on or off" in str(caught.value) or ", ".join(
        environment.VARIABLES[name].words[:-1]
    ) in str(caught.value)
    monkeypatch.delenv(name)
    _decorate()  # the environment as it is now


@pytest.mark.parametrize(
    ("name", "word"), [("KERNELDSL_CACHE", "disabled"), ("KERNELDSL_CACHE_SHARED", "yep")]
)
def test_the_cache_warns(monkeypatch, name, word) -> None:
    monkeypatch.setenv(name, word)
    with pytest.warns(kd.KernelWarning, match=f"{name} is '{word}'. It is taken as off") as caught:
        _decorate(2)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_a_cache_that_is_disabled_in_other_words_keeps_nothing(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("KERNELDSL_CACHE", "disabled")
    with pytest.warns(kd.KernelWarning):

        @kd.kernel
        def triple(x, out):
            i = kd.grid(1)
            if i < out.size:
                out[i] = 3 * x[i]

    with kd.use("cpu"):
        triple.forall(4)(np.ones(4), np.zeros(4))
    assert not list(tmp_path.rglob("*.kdc"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("KERNELDSL_CASHE_DIR", "Did you mean KERNELDSL_CACHE_DIR?"),
        ("KERNELDSL_TARGETS", "Did you mean KERNELDSL_TARGET?"),
        ("KERNELDSL_ZZZZ", "It reads KERNELDSL_TARGET, "),
        ("KERNELDSL_FOO", "It reads KERNELDSL_TARGET, "),
    ],
)
def test_names_that_are_not_read_are_warned_of_once(monkeypatch, name, said) -> None:
    monkeypatch.setenv(name, "/x")
    with pytest.warns(kd.KernelWarning, match=f"reads no variable {name}") as caught:
        _decorate(2)
    assert len(caught) == 1
    assert said in str(caught[0].message)


@pytest.mark.parametrize(
    ("name", "value", "kind", "said"),
    [
        ("KERNELDSL_TARGET", "cdua", kd.UnknownTargetError, "no target is named 'cdua'"),
        ("KERNELDSL_TARGET", "cpu:x", kd.UnknownTargetError, "names no device"),
        ("KERNELDSL_FAKE_GPU", "cuda,directx", kd.ArgumentValueError, "names directx"),
    ],
)
def test_a_name_that_its_reader_refuses_is_an_error_at_once(
    monkeypatch, name, value, kind, said
) -> None:
    monkeypatch.setenv(name, value)
    for _ in range(2):
        with pytest.raises(kind, match=said) as caught:
            _decorate()
        assert name in str(caught.value)
    monkeypatch.delenv(name)
    _decorate()


@pytest.mark.parametrize("value", ["cpu", " null ", "cuda:1", "cpu:7", ""])
def test_a_target_is_named_and_not_looked_at(monkeypatch, value) -> None:
    monkeypatch.setenv("KERNELDSL_TARGET", value)
    monkeypatch.setattr(registry, "_make_target", None)
    monkeypatch.setattr(devices, "_used", {})
    _decorate()


PROGRAM = """
import numpy as np
import kerneldsl as kd

@kd.kernel
def double(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]

kd.func(lambda x: x)
double.forall(2)(np.ones(2), np.zeros(2))
double.forall(2)(np.ones(2, int), np.zeros(2))
"""


UNREADABLE = [
    pytest.param("KERNELDSL_CACHE_SIZE", "5Q", "Nothing is cached. It must be a number of bytes"),
    pytest.param("KERNELDSL_CACHE_SITE", "~nouser/x", "The site's cache is ignored"),
    pytest.param("KERNELDSL_CACHE_DIR", "~nouser/x", "Nothing is written to the cache"),
    pytest.param("KERNELDSL_CACHE_KEY_FILE", "~nouser/x", "Nothing is cached"),
]


@pytest.mark.parametrize(("name", "value", "said"), full_beyond(UNREADABLE, UNREADABLE[:1]))
def test_what_the_cache_cannot_read_is_warned_of_once(tmp_path, name, value, said) -> None:
    """When the first function is decorated, and by no launch."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program)],
        env=os.environ
        | {"KERNELDSL_TARGET": "cpu", "KERNELDSL_CACHE_DIR": str(tmp_path / "cache")}
        | {name: value},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = (line for line in done.stderr.splitlines() if "Warning" in line)
    assert line.startswith(f"{program}:5: KernelWarning: {name} is '{value}'")
    assert said in line


def test_variables_of_the_tests_are_not_warned_of(monkeypatch) -> None:
    monkeypatch.setenv("KERNELDSL_TEST_SOMETHING", "1")
    monkeypatch.setenv("KERNELDSL_CHECK", "quick")
    monkeypatch.setenv("KERNELDSL_CACHE", " Off ")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _decorate()


def test_readers_are_there() -> None:
    for variable in environment.VARIABLES.values():
        assert not (variable.words and variable.reader)
        if variable.reader:
            module, _, function = variable.reader.partition(":")
            assert callable(getattr(importlib.import_module(module), function))


def test_a_level_that_is_none_is_reported_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import kerneldsl as kd; kd.func(lambda x: x)"],
        env=os.environ | {"KERNELDSL_LOG": "loud"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if "KERNELDSL_LOG" in line]
    assert len(lines) == 1
    assert "KernelWarning: KERNELDSL_LOG is 'loud'. It is taken as debug" in lines[0]


def test_variables_that_the_tests_read_are_known() -> None:
    tests = Path(__file__).parents[2]
    read = {
        name
        for path in tests.rglob("*.py")
        for name in re.findall(
            r"(?:environ\.get\(|environ\[|getenv\()\W*(KERNELDSL_[A-Z_]+)",
            path.read_text(encoding="utf-8"),
        )
    }
    assert read >= {"KERNELDSL_FAULTS", "KERNELDSL_FUZZ_PROGRAMS"}  # it finds some
    assert {name for name in read if not environment.is_known(name)} == set()
