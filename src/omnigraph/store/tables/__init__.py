"""Lance tables: versions, staged changes, keys, indexes, the journal."""
