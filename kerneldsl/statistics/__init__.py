"""Statistics of launches, copies, fallbacks and memory."""
