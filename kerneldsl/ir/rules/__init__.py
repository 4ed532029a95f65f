"""Types of calls of the language: one function for each rule that a row of an intrinsic names."""
