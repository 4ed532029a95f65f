"""Tests of `kerneldsl/lowering`."""
