"""Check the English of pages, docstrings and comments: ``python -m tests.support.prose``."""
