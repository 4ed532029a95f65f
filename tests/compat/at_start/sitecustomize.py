"""The module that Python imports first in each process that a test of numba-cuda's suite starts."""

import os
import sys
from pathlib import Path

_here = os.path.dirname(__file__)
sys.path[:] = [each for each in sys.path if each != _here]

from tests.compat.suite import ROOT, prepare  # noqa: E402

if "tests.compat.suite" not in sys.orig_argv:
    prepare(Path(os.environ[ROOT]))
