"""The example of the page is a package that is built, packed, installed and used."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.shipping.programs import ROOT, run
from tests.support.pages import prints

PAGE = ROOT / "docs" / "shipping-kernels.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def test_the_example(tmp_path: Path) -> None:
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    project, site = tmp_path / "project", tmp_path / "site"
    for kind, text in blocks:
        if kind in ("py", "toml"):
            path = project / text.partition("\n")[0].removeprefix("# ")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    (build, built), (use, used) = (
        text.removeprefix("$ ").split("\n", 1) for kind, text in blocks if kind == "console"
    )
    done = _run(build, project)
    lines = built.splitlines()
    assert done.stdout.split()[:4] == lines[0].split()
    assert prints(lines[-1], done.stdout.splitlines()[-1])
    (project / ".git").mkdir()
    (project / ".gitignore").write_text("_kernels\n")
    backend = "from hatchling.build import build_wheel; print(build_wheel('dist'))"
    made = _run(f"python -c {shlex.quote(backend)}", project)
    wheel = project / "dist" / made.stdout.split()[-1]
    zipfile.ZipFile(wheel).extractall(site)
    program = (project / shlex.split(use)[1]).read_text()
    done = run(program, site, KERNELDSL_TARGET="cpu")
    assert done.stdout == used, done.stderr
    # What the script has launched is there, too.
    program = (project / "trace.py").read_text() + "\nimport sys; print('numba' in sys.modules)"
    done = run(program, site, KERNELDSL_TARGET="cpu")
    assert done.stdout == "False\n", done.stderr


def _run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command)
    start = [sys.executable] if words[0] == "python" else [sys.executable, "-m", words[0]]
    done = subprocess.run(
        [*start, *words[1:]],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "HOME": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done
