"""The tests of kerneldsl; a package, so that suites share :mod:`tests.support`."""
