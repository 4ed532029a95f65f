"""Calls of the library with float32; each of these scripts can be run in a process of its own."""

from library_calls import main

main(["float32"])
