"""Variables that are on or off."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kerneldsl.cache.settings import read_settings
from kerneldsl.errors import ArgumentValueError
from kerneldsl.utilities.environment import is_on

SWITCHES = ("DEBUG", "POOL", "LAUNCHER", "NUMPY_AS_CUPY")


@pytest.mark.parametrize("word", ["", "  "])
def test_an_empty_variable_is_as_if_it_were_not_set(
    monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    for name in (*SWITCHES, "CACHE", "CACHE_SHARED"):
        monkeypatch.setenv(f"KERNELDSL_{name}", word)
    monkeypatch.setenv("KERNELDSL_CACHE_KEY_FILE", "key")
    for name in SWITCHES:
        assert is_on(f"KERNELDSL_{name}", default=True)
        assert not is_on(f"KERNELDSL_{name}", default=False)
    assert read_settings().is_on
    assert not read_settings().is_shared


@pytest.mark.parametrize("word", ["off", "0", "False", " no "])
def test_each_variable_knows_the_words_for_off(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    for name in (*SWITCHES, "CACHE", "CACHE_SHARED"):
        monkeypatch.setenv(f"KERNELDSL_{name}", word)
    monkeypatch.setenv("KERNELDSL_CACHE_KEY_FILE", "key")
    assert not any(is_on(f"KERNELDSL_{name}", default=True) for name in SWITCHES)
    assert not read_settings().is_on
    assert not read_settings().is_shared


def test_an_unknown_word_shares_no_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE_SHARED", "maybe")
    monkeypatch.setenv("KERNELDSL_CACHE_KEY_FILE", "key")
    assert not read_settings().is_shared


def test_an_unknown_word_is_refused_at_its_use_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable may be set after the first function was decorated: it is not silently on."""
    for name in SWITCHES:
        monkeypatch.setenv(f"KERNELDSL_{name}", "of")
        with pytest.raises(ArgumentValueError, match=f"KERNELDSL_{name} is 'of'"):
            is_on(f"KERNELDSL_{name}", default=True)


def test_the_first_native_launch_refuses_an_unknown_word(tmp_path: Path) -> None:
    code = """
import os
import numpy as np
import kerneldsl as kd

@kd.kernel
def fill(x):
    x[kd.grid(1)] = 1

os.environ["KERNELDSL_LAUNCHER"] = "of"
with kd.use("cpu"):
    launch = fill.forall(3)
    for _ in range(33):  # native code is made after 32
        launch(np.zeros(3))
"""
    program = tmp_path / "program.py"
    program.write_text(code)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert "KERNELDSL_LAUNCHER is 'of'" in done.stderr
    assert done.returncode == 1
