"""Merging branches: where they parted, what changed, conflicts, the merge itself."""
