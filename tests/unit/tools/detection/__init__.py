"""Tests of `kerneldsl/tools/detection`."""
