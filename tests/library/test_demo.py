"""The demo on real and on bad images."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from PIL import Image

import kerneldsl as kd
from kerneldsl.tools.cli.app import run
from kerneldsl_demo import pictures
from kerneldsl_demo.pipeline import STAGES, equalized, reference

FILES = {"input", "grey", "blur", "edges", "equalized", "contact-sheet"}


def demo(*args: object) -> int:
    """Run the command line and return its exit status."""
    with pytest.raises(SystemExit) as ended:
        run(["demo", *map(str, args)])
    return int(ended.value.code or 0)


def report_of(capsys, *args: object) -> dict:
    assert demo(*args, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_photograph(target, tmp_path, capsys):
    report = report_of(capsys, "--output", tmp_path, "--target", target)
    assert report["image"].endswith("astronaut.png")
    assert report["shape"] == [512, 512, 3]
    assert report["target"].startswith(target)
    assert [stage["stage"] for stage in report["stages"]] == [stage.name for stage in STAGES]
    assert all(stage["passed"] for stage in report["stages"])
    assert sum(len(stage["launched"]) for stage in report["stages"]) == 8
    assert {path.stem for path in tmp_path.glob("*.png")} == FILES
    for name in FILES - {"contact-sheet"}:
        with Image.open(tmp_path / f"{name}.png") as picture:
            assert picture.size == (512, 512)
    grey = np.asarray(Image.open(tmp_path / "grey.png"))
    written = np.asarray(Image.open(tmp_path / "equalized.png"))
    np.testing.assert_array_equal(
        written, equalized(grey, np.bincount(grey.ravel(), minlength=256))
    )


def test_table_for_people(tmp_path, capsys):
    assert demo("--output", tmp_path, "--target", "cpu", "--size", 64) == 0
    text = capsys.readouterr().out
    assert "64 × 64 pixels" in text
    assert "ran on cpu" in text
    assert all(stage.name in text for stage in STAGES)
    assert text.count(" ok") == len(STAGES)
    assert "differs" not in text
    assert f"wrote {tmp_path / 'contact-sheet.png'}" in text


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
def test_pictures_of_every_kind(rng, tmp_path, capsys, mode):
    colours = Image.fromarray(rng.integers(0, 256, (37, 53, 4)).astype(np.uint8), "RGBA")
    path = tmp_path / "picture.tiff"
    colours.convert("RGB").convert(mode).save(path)
    report = report_of(capsys, path, "--output", tmp_path / "out", "--target", "cpu")
    assert report["shape"][:2] == [37, 53]
    assert all(stage["passed"] for stage in report["stages"])


def test_a_grey_picture_stays_as_it_is(rng, tmp_path, capsys):
    values = rng.integers(0, 256, (20, 30)).astype(np.uint8)
    Image.fromarray(values).save(tmp_path / "grey.png")
    report_of(capsys, tmp_path / "grey.png", "--output", tmp_path / "out", "--target", "cpu")
    written = np.asarray(Image.open(tmp_path / "out" / "grey.png"))
    np.testing.assert_array_equal(written, values)


def test_a_single_pixel(tmp_path, capsys):
    Image.new("RGB", (1, 1), "teal").save(tmp_path / "dot.png")
    report = report_of(capsys, tmp_path / "dot.png", "--output", tmp_path / "out")
    assert report["shape"] == [1, 1, 3]


def refused(capsys, *args: object) -> str:
    assert demo(*args) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err


def test_bad_images(tmp_path, capsys):
    assert "there is no image file" in refused(capsys, tmp_path / "nothing.png")
    assert "there is no image file" in refused(capsys, tmp_path)
    text = tmp_path / "text.png"
    text.write_text("no image")
    assert "cannot be read as an image" in refused(capsys, text)
    Image.new("RGB", (60, 60), "teal").save(tmp_path / "whole.png")
    cut = tmp_path / "cut.png"
    cut.write_bytes((tmp_path / "whole.png").read_bytes()[:60])
    assert "cannot be read as an image" in refused(capsys, cut)
    deep = tmp_path / "deep.png"
    Image.fromarray(np.zeros((4, 4), np.uint16)).save(deep)
    assert "8 bits a channel" in refused(capsys, deep)


def test_bad_places(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert "cannot be made" in refused(capsys, "--output", tmp_path / "file" / "inside")
    assert "no target is named 'metal'" in refused(
        capsys, "--output", tmp_path, "--target", "metal", "--size", 8
    )


def test_missing_extra_names_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert 'pip install "kerneldsl[demo]"' in refused(capsys, "--output", tmp_path)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(kd.ToolMissingError, match=r"kerneldsl\[demo\]"):
        reference(np.zeros((3, 3, 3), np.uint8), 2.0)


def test_a_wrong_result_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "kerneldsl_demo.cli.reference",
        lambda image, sigma: {k: v + 1 for k, v in reference(image, sigma).items()},
    )
    assert demo("--output", tmp_path, "--target", "cpu", "--size", 32) == 1
    assert "differs" in capsys.readouterr().out


def test_histogram_is_drawn_from_the_bottom():
    drawn = pictures.draw_histogram(np.array([0, 5, 10, 10]), height=11)
    dark = (drawn == 40).sum(axis=0)
    assert drawn.shape == (11, 4)
    assert dark[0] < dark[1] < dark[2] == dark[3]
