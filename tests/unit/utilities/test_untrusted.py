"""Files that somebody else named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kerneldsl.cache.management import _opened
from kerneldsl.utilities.untrusted import read_plain_file


def _next_descriptor() -> int:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    return descriptor


@pytest.mark.parametrize(
    "read", [lambda path: read_plain_file(path, 10), lambda path: _opened(path).__enter__()]
)
def test_a_folder_is_refused_and_stays_not_open(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    before = _next_descriptor()
    with pytest.raises(OSError):
        read(tmp_path)
    assert _next_descriptor() == before
