"""Tests of `kerneldsl/launch/native`."""
