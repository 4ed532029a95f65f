"""Rewrites and analyses of a kernel's syntax tree, before its code is written."""
