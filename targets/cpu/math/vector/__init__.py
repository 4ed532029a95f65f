"""Mathematical functions that LLVM vectorizes."""
