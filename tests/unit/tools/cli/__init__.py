"""Tests of `kerneldsl/tools/cli`."""
