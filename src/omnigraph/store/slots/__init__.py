"""One-owner files: a lock on a disk, a lease in an object store."""
