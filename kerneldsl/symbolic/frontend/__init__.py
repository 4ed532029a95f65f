"""Reading of a normal form into expressions of SymPy."""
