"""Warnings point at the user's line, from however deep they come."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from kerneldsl.errors import CacheWarning
from kerneldsl.utilities.tracebacks import OWN_FOLDERS, warn_user

_LIBRARY_CODE = """
def outer(*warning):
    inner(*warning)

def inner(*warning):
    warn_user(*warning)
"""


@pytest.mark.parametrize("folder", OWN_FOLDERS)
def test_a_warning_names_the_line_outside_this_distribution(folder: str) -> None:
    namespace: dict[str, Any] = {"warn_user": warn_user}
    exec(compile(_LIBRARY_CODE, f"{folder}module.py", "exec"), namespace)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        namespace["outer"]("the text", CacheWarning)  # this line
    (warning,) = found
    assert (warning.filename, warning.category) == (__file__, CacheWarning)
    assert "# this line" in _line(warning.lineno)


def test_a_warning_of_the_users_own_call_names_that_line() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_user("the text", CacheWarning)
    (warning,) = found
    assert "warn_user(" in _line(warning.lineno)


def _line(number: int) -> str:
    return Path(__file__).read_text().splitlines()[number - 1]
