"""numba.cuda's functions and classes; :mod:`kerneldsl.cuda` collects their names."""
