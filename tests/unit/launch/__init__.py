"""Tests of `kerneldsl/launch`."""
