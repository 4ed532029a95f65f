"""Scripts that are run in processes of their own over one cache folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "run_script"]

ROOT = Path(__file__).resolve().parents[2]
#: What every script ends with: its result, and what the cache and the interpreter say of the run.
_REPORT = """
import json, sys
import kerneldsl as kd
print(json.dumps({
    "result": result,
    "hits": kd.cache.stats().hits,
    "misses": kd.cache.stats().misses,
    "writes": kd.cache.stats().writes,
    "modules": [m for m in ("numba", "llvmlite", "cuda.core", "cuda", "sympy", "rich", "typer",
                            "importlib.metadata", "platformdirs") if m in sys.modules],
}))
"""


def run_script(path: Path, text: str | None = None, **environment: str) -> dict[str, Any]:
    """Run a script that leaves a ``result`` in a fresh process, and return its report.

    Parameters
    ----------
    path : Path
        The script; it is written first where a `text` is given.
    text : str, optional
        What stands in it.
    **environment : str
        Variables to set.
    """
    if text is not None:
        path.write_text(text)
    runner = f"exec(compile(open({str(path)!r}).read(), {str(path)!r}, 'exec'), globals())\n"
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KERNELDSL_CACHE")}
    done = subprocess.run(
        [sys.executable, "-c", runner + _REPORT],
        cwd=path.parent,
        env={
            **kept,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{path.parent}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "KERNELDSL_CACHE_DIR": os.environ["KERNELDSL_CACHE_DIR"],
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report
