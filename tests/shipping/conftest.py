"""The built package, which tests copy before they change it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.shipping.programs import build, write_package


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package ``mypkg`` and its kernels, for all levels."""
    folder = tmp_path_factory.mktemp("built")
    build(write_package(folder))
    return folder


@pytest.fixture
def installed(built: Path, tmp_path: Path) -> Path:
    """A copy of that folder."""
    folder = tmp_path / "site"
    shutil.copytree(built, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder
