"""Build the site: lay out its sources, run Sphinx, check the links of what it made."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

from docs.site.links import broken_links
from docs.site.stage import stage

__all__ = ["build"]

_CONFIGURATION = Path(__file__).parent


def build(folder: Path) -> int:
    """Build the site below a folder: ``source/`` and ``html/``.

    Parameters
    ----------
    folder : Path
        Made where it is not there.

    Returns
    -------
    int
        The exit status: not 0 after a warning of Sphinx or a link that leads nowhere.
    """
    source, html = folder / "source", folder / "html"
    stage(source)
    shutil.rmtree(html, ignore_errors=True)  # pages of an earlier build
    options = ["-q", "-W", "--keep-going", "-E", "-b", "html", "-c", str(_CONFIGURATION)]
    options += ["-d", str(folder / "doctrees")]
    status = build_main([*options, str(source), str(html)])
    if status:
        return status
    broken = broken_links(html)
    for line in broken:
        print(line, file=sys.stderr)
    if broken:
        print(f"{len(broken)} links of the site lead nowhere", file=sys.stderr)
        return 1
    print(f"{html / 'index.html'}: {sum(1 for _ in html.rglob('*.html'))} pages")
    return 0
