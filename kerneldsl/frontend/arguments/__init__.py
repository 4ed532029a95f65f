"""Rewrites of a normal form for the kinds of its arguments."""
