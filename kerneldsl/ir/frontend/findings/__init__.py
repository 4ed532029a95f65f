"""Findings: values of a typed kernel that lose something, each kind in its own module."""
