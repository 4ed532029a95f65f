"""Calls of the library with float64; each of these scripts can be run in a process of its own."""

from library_calls import main

main(["float64"])
