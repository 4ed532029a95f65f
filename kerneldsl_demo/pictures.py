"""Images in and out of the demo, through Pillow."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from kerneldsl.errors import ArgumentValueError, ToolMissingError

__all__ = ["Picture", "contact_sheet", "default_image", "draw_histogram", "read", "write"]

#: Bytes: (h, w) grey, (h, w, 3) red, green, blue, or (h, w, 4) with alpha.
Picture: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

#: Pillow's modes with bytes as values, and what each is read as.
_MODES = {
    **dict.fromkeys(("1", "L", "RGB", "RGBX", "CMYK", "YCbCr"), "RGB"),
    **dict.fromkeys(("LA", "P", "PA", "RGBA"), "RGBA"),
}
#: Pixels between the pictures of a contact sheet, and their width there.
_MARGIN, _WIDTH = 12, 360


def missing_extra(error: ImportError) -> ToolMissingError:
    """Say which extra brings the package that could not be imported."""
    return ToolMissingError(
        f"the demo needs the package {error.name!r}, which is not installed",
        value=error.name,
        remedy='Install it with: pip install "kerneldsl[demo]"',
    )


def default_image() -> Path:
    """Return the path of scikit-image's photograph of the astronaut Eileen Collins.

    The picture is NASA's and in the public domain.
    """
    from importlib.util import find_spec

    # Found without importing it: scikit-image takes longer to import than the demo to run.
    spec = find_spec("skimage")
    if spec is None or spec.origin is None:
        raise missing_extra(ImportError("no skimage", name="skimage"))
    return Path(spec.origin).parent / "data" / "astronaut.png"


def read(path: Path, size: int | None = None) -> Picture:
    """Read an image of bytes: ``uint8[h, w, 3]``, or ``uint8[h, w, 4]`` with alpha.

    It is upright, and a grey image has three equal channels. With a `size` it is scaled so that its
    longer side has so many pixels.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise missing_extra(error) from error
    if not path.is_file():
        raise ArgumentValueError(
            f"there is no image file {str(path)!r}",
            value=path,
            remedy="Give the path of a PNG, JPEG, TIFF or other image, or none for the built-in "
            "photograph",
        )
    try:
        with Image.open(path) as opened:
            image = ImageOps.exif_transpose(opened)
            mode = _MODES.get(image.mode)
            if mode is not None:
                image = image.convert(mode)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ArgumentValueError(
            f"{str(path)!r} cannot be read as an image: {error}",
            value=path,
            remedy="Open it with another program and save it as PNG",
        ) from error
    if mode is None:
        raise ArgumentValueError(
            f"{str(path)!r} has pixels of the mode {image.mode!r}",
            value=image.mode,
            limit="The demo takes grey, RGB and RGBA images of 8 bits a channel",
            remedy="Convert it, with: convert IMAGE -depth 8 IMAGE.png",
        )
    if size is not None:
        scale = size / max(image.size)
        width, height = (max(1, round(n * scale)) for n in image.size)
        image = image.resize((width, height), Image.Resampling.LANCZOS)
    return np.asarray(image)


def write(path: Path, picture: np.ndarray[Any, Any]) -> None:
    """Write an image as PNG; brighter values than a byte holds are scaled until they fit."""
    from PIL import Image

    try:
        Image.fromarray(_to_bytes(picture)).save(path)
    except OSError as error:
        raise ArgumentValueError(
            f"{str(path)!r} cannot be written: {error.strerror or error}",
            value=path,
            remedy="Choose another folder with --output",
        ) from error


def _to_bytes(picture: np.ndarray[Any, Any]) -> Picture:
    if picture.dtype == np.uint8:
        return picture
    brightest = float(picture.max())
    scale = 255.0 / brightest if brightest > 255.0 else 1.0
    return np.asarray(np.clip(np.rint(picture * scale), 0, 255).astype(np.uint8))


def draw_histogram(counts: np.ndarray[Any, Any], height: int = 256) -> Picture:
    """Draw counts as bars: ``int64[n]`` to an image of shape (height, n).

    The few highest bars are cut off, so that a black background leaves the rest to be seen.
    """
    top = max(1.0, float(np.percentile(counts, 98)) * 1.1)
    bars = np.rint(counts * (height - 1) / top)
    rows = np.arange(height - 1, -1, -1)[:, np.newaxis]
    return np.where(rows <= bars, 40, 235).astype(np.uint8)


def contact_sheet(pictures: list[np.ndarray[Any, Any]], columns: int = 3) -> Picture:
    """Lay pictures out in rows, each scaled to the same width."""
    from PIL import Image

    scaled = []
    for picture in pictures:
        image = Image.fromarray(_to_bytes(picture)).convert("RGB")
        height = max(1, round(image.height * _WIDTH / image.width))
        scaled.append(image.resize((_WIDTH, height), Image.Resampling.LANCZOS))
    rows = [scaled[i : i + columns] for i in range(0, len(scaled), columns)]
    heights = [max(image.height for image in row) for row in rows]
    sheet = Image.new(
        "RGB",
        (columns * (_WIDTH + _MARGIN) + _MARGIN, sum(heights) + (len(rows) + 1) * _MARGIN),
        "white",
    )
    top = _MARGIN
    for row, row_height in zip(rows, heights, strict=True):
        for column, image in enumerate(row):
            sheet.paste(image, (_MARGIN + column * (_WIDTH + _MARGIN), top))
        top += row_height + _MARGIN
    return np.asarray(sheet)
