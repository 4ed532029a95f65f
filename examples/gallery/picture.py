"""Colors of the gallery's kernels, and the files of their pictures."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np

import kerneldsl as kd

SIZE = 384


@kd.func
def paint(out, i, j, t, brightness):
    """Give a pixel the color at `t` of a circle of hues, at a brightness from 0 to 1."""
    for channel in range(3):
        wave = 0.5 + 0.5 * math.cos(6.2831853 * (t + channel / 3.0))
        out[i, j, channel] = np.uint8(255.0 * brightness * wave)


def photograph(size: int) -> np.ndarray:
    """Return scikit-image's photograph of Eileen Collins, which is NASA's, as a square."""
    from PIL import Image

    from kerneldsl_demo.pictures import default_image

    with Image.open(default_image()) as image:
        return np.array(image.convert("RGB").resize((size, size)))


def write(picture: np.ndarray, file: Path | BinaryIO) -> None:
    """Write a picture as a WebP, which loses a little."""
    from PIL import Image

    Image.fromarray(picture).save(file, format="webp", quality=82, method=6)


def main(draw: Callable[[int], np.ndarray], file: str) -> None:
    """Write a picture to the file that the command line names, or into the working folder."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(f"{Path(file).stem}.webp")
    write(draw(SIZE), path)
    print(path)
