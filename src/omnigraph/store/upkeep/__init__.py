"""What cleans up after old versions, interrupted writes and moved graphs."""
