"""Every program of the gallery draws, small; in a full run the picture that is stored."""

from __future__ import annotations

import importlib
import importlib.util
import io
from pathlib import Path

import numpy as np
import pytest

import kerneldsl as kd
from docs.site.examples import gallery_page, gallery_programs
from tests.support.extent import full_beyond

ROOT = Path(__file__).parents[2]
PROGRAMS = gallery_programs()
#: Bytes that all pictures may take.
MOST_BYTES = 1_500_000
#: Of a full run: the mean difference of a channel from the stored picture, of 255.
MOST_DIFFERENCE = 2.0

Image = pytest.importorskip("PIL.Image", reason="the demo extra is not installed")
pytest.importorskip("skimage", reason="the demo extra is not installed")


@pytest.fixture
def drawn(monkeypatch):
    """Draw a program's picture at a size."""
    monkeypatch.syspath_prepend(ROOT / "examples" / "gallery")

    def draw(program: Path, size: int) -> np.ndarray:
        spec = importlib.util.spec_from_file_location(f"gallery_{program.stem}", program)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with kd.use("cpu"):
            return module.draw(size)

    return draw


def check(picture: np.ndarray, size: int) -> None:
    assert picture.shape == (size, size, 3)
    assert picture.dtype == np.uint8
    assert picture.std() > 10, "a picture of one color"


QUICK = [p for p in PROGRAMS if p.stem in ("mandelbrot", "sorting", "histogram")]


@pytest.mark.parametrize("program", full_beyond(PROGRAMS, QUICK), ids=lambda p: p.stem)
def test_it_draws(program, drawn):
    check(drawn(program, 48), 48)


@pytest.mark.full
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_the_stored_picture_is_what_it_draws(program, drawn):
    with Image.open(ROOT / "docs" / "gallery" / f"{program.stem}.webp") as image:
        stored = np.array(image.convert("RGB"))
    picture = drawn(program, len(stored))
    check(picture, len(stored))
    # What is stored has lost a little, so that what is drawn must lose it, too.
    file = io.BytesIO()
    importlib.import_module("picture").write(picture, file)
    with Image.open(file) as image:
        written = np.array(image.convert("RGB"))
    assert np.abs(written.astype(float) - stored).mean() < MOST_DIFFERENCE


def test_there_are_twelve_small_pictures():
    pictures = {path.stem: path for path in (ROOT / "docs" / "gallery").glob("*.webp")}
    assert set(pictures) == {program.stem for program in PROGRAMS}
    assert len(pictures) == 12
    assert sum(path.stat().st_size for path in pictures.values()) < MOST_BYTES


def test_each_is_on_the_page_with_its_kernels():
    page = gallery_page()
    assert page.count("\n## ") == 12
    assert page.count("@kd.kernel") >= 12
    for program in PROGRAMS:
        assert f"docs/gallery/{program.stem}.webp" in page
