"""Files and objects by name, on a disk or in a bucket: reading, writing, syncing."""
