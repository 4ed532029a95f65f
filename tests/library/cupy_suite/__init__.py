"""CuPy's own tests on the library; ``make cupy-tests`` runs them."""
