"""Rewrites of a function's AST, each in a file named for what it does.

A pass is a frozen dataclass whose fields are its options; called with a ``FunctionDef`` it returns
a new one and leaves its input as it was.
"""
