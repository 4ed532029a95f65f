"""Rewrite a normal form for its arguments, once for all targets; no Numba here.

Members of named tuples become numbers, expressions over rows loops, literals beside uint64 values
such values, and tiles elements. A target
may need assignments of one value each, too.
"""
