"""Just enough of two frameworks to run their adapters without them."""
