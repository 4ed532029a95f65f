"""Kernels of expressions run on each target, as those of the conformance suite do."""

from __future__ import annotations

from tests.conformance.conftest import computing, computing_target, on, target

__all__ = ["computing", "computing_target", "on", "target"]
