"""Tests of `kerneldsl/detection`."""
