"""Draw every picture of the gallery.

Run it: python examples/gallery/draw.py FOLDER
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
#: Programs that draw no picture.
HELPERS = {"draw", "picture"}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for program in sorted(HERE.glob("*.py")):
        if program.stem not in HELPERS:
            picture = folder / f"{program.stem}.webp"
            subprocess.run([sys.executable, str(program), str(picture)], check=True)


if __name__ == "__main__":
    main()
