"""Compare what a notebook shows now with what is stored in it."""

from __future__ import annotations

import base64
import html
import io
import re
from typing import Any

import numpy as np

from tests.notebooks.execution import PICTURES, VARIES

__all__ = ["code_cells", "differences", "kinds", "pictures_of", "text_of"]

#: Mean difference of two pictures' levels, of 255, from which on they show something else: another
#: release of Matplotlib or FreeType moves edges of letters by a part of a pixel.
_PICTURE_TOLERANCE = 6.0


def code_cells(notebook: Any) -> list[Any]:
    """Return the code cells of a notebook."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell: Any) -> list[str]:
    """Return what a cell's outputs are: a stream's name, or MIME types."""
    return [output.get("name") or " ".join(sorted(output.data)) for output in cell.outputs]


def text_of(cell: Any) -> str:
    """Return what a reader of a cell's outputs reads: streams, texts, and HTML without its tags."""
    texts = []
    for output in cell.outputs:
        data = output.get("data", {})
        texts.append(output.get("text") or _words(data.get("text/html")) or _plain(data))
    return "\n".join(texts)


def _plain(data: Any) -> str:
    return str(data.get("text/plain", ""))


def _words(text: str | None) -> str | None:
    if text is None:
        return None
    text = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", text)))


def pictures_of(cell: Any) -> list[bytes]:
    """Return the files of the pictures among a cell's outputs."""
    return [
        base64.b64decode(value)
        for output in cell.outputs
        for kind, value in output.get("data", {}).items()
        if kind in PICTURES
    ]


def differences(stored: Any, now: Any) -> list[str]:
    """Return in words what is not as it was stored; of cells that vary, only other kinds."""
    found = []
    for one, other in zip(code_cells(stored), code_cells(now), strict=True):
        if kinds(one) != kinds(other):
            found.append(f"{one.id} shows {kinds(other)}, stored are {kinds(one)}")
        elif VARIES in one.metadata.get("tags", ()):
            continue
        elif text_of(one) != text_of(other):
            found.append(f"{one.id} shows\n{text_of(other)}\nstored is\n{text_of(one)}")
        else:
            pictures = zip(pictures_of(one), pictures_of(other), strict=True)
            found += [f"{one.id}: {why}" for a, b in pictures if (why := _picture(a, b))]
    return found


def _picture(stored: bytes, now: bytes) -> str | None:
    """Say how two pictures differ, where they show something else."""
    a, b = map(_pixels, (stored, now))
    if np.abs(np.subtract(a.shape, b.shape)).max() > 4:
        return f"the picture has the shape {b.shape}, stored is {a.shape}"
    height, width, _ = np.minimum(a.shape, b.shape)
    difference = float(np.abs(a[:height, :width] - b[:height, :width]).mean())
    return f"levels differ by {difference:.1f}" if difference > _PICTURE_TOLERANCE else None


def _pixels(file: bytes) -> np.ndarray[Any, Any]:
    """Return the levels of a picture, of a moving one of the last."""
    from PIL import Image

    picture = Image.open(io.BytesIO(file))
    picture.seek(getattr(picture, "n_frames", 1) - 1)
    return np.asarray(picture.convert("RGB"), dtype=np.float64)
