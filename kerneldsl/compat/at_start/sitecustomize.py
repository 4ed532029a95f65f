"""The module that ``kerneldsl run`` has Python import first, in each process of a program."""

import os as _os
import sys as _sys
from importlib import import_module as _import_module

_here = _os.path.dirname(__file__)
# The program finds sys.path as Python makes it without this, and another file of this name runs.
_sys.path[:] = [each for each in _sys.path if each != _here]

import kerneldsl.drop_in  # noqa: E402, F401

_own = _sys.modules.pop("sitecustomize")
try:
    _import_module("sitecustomize")
except ModuleNotFoundError as _error:
    if _error.name != "sitecustomize":
        raise
    _sys.modules["sitecustomize"] = _own
