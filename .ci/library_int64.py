"""Calls of the library with int64; each of these scripts can be run in a process of its own."""

from library_calls import main

main(["int64"])
