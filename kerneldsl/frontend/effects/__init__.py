"""Arrays that a normal form may read and write: a launch needs them before a type is known."""
