"""Tests of `targets/null`."""
