"""Build the site: ``python -m docs.site [FOLDER]``, by default into ``build/site``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from docs.site.build import build
from docs.site.stage import ROOT

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m docs.site", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    sys.exit(build(parser.parse_args().folder))
