"""Tests of `kerneldsl/runtime/memory`."""
