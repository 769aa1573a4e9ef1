"""Files and frames into rows."""
