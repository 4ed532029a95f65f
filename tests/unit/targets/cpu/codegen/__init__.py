"""Tests of `targets/cpu/codegen`."""
