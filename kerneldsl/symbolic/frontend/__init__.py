"""From a normal form to expressions of SymPy."""
