"""Arrays that a normal form may write: a launch needs them before a type is known."""
