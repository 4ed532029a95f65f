"""Worker of ``kerneldsl profile``: the process in which the script runs."""

from __future__ import annotations

import json
import os
import runpy
import sys

__all__ = ["main"]


def main(options: str, report: str, script: str, *arguments: str) -> None:
    """Run a script as Python would, under a profile.

    `options` are those of the command as JSON; `report` is the file to write, as JSON, also where
    the script ends with an exception.
    """
    import kerneldsl as kd

    wanted = json.loads(options)
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    profile = kd.profile(nvtx=wanted["nvtx"], cupti=wanted["cupti"])
    try:
        with profile:
            runpy.run_path(script, run_name="__main__")
    finally:
        summary = profile.summary(wanted["by"], streams=wanted["streams"], work=wanted["work"])
        found = {**summary.to_dict(), "recorded_ns": profile.recorded_ns, "refused": None}
        if wanted["timeline"] is not None:
            try:
                profile.timeline(wanted["timeline"], work=wanted["work"])
            except kd.KernelError as error:  # the command tells it: it is not the script's fault
                found["refused"] = str(error)
        with open(report, "w", encoding="utf-8") as file:
            json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
