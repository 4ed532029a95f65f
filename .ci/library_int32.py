"""Calls of the library with int32; each of these scripts can be run in a process of its own."""

from library_calls import main

main(["int32"])
