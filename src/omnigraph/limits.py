"""Every default and limit of OmniGraph, each with its reason. No logic lives here."""

from __future__ import annotations

from typing import Final

I32_MIN: Final = -(2**31)
I32_MAX: Final = 2**31 - 1
I64_MIN: Final = -(2**63)
I64_MAX: Final = 2**63 - 1
U32_MAX: Final = 2**32 - 1
U64_MAX: Final = 2**64 - 1

VECTOR_DIM_MAX: Final = I32_MAX
"""Arrow's fixed-size list length is a signed 32-bit integer."""

NESTING_DEPTH_MAX: Final = 32
"""Deepest nesting of parentheses and blocks in query text; bounds parser recursion."""

EXPRESSION_DEPTH_MAX: Final = 100
"""Deepest chain of operators in one expression; bounds the recursion of everything after it."""

SOURCE_CHARS_MAX: Final = 8 * 1024 * 1024
"""Longest schema or query file: far above hand-written files, bounds compile memory."""

DIAGNOSTICS_MAX: Final = 100
"""Diagnostics collected per file before the compiler stops: more help nobody."""

RRF_K_DEFAULT: Final = 60
"""Rank offset of reciprocal rank fusion, the customary constant."""

FUZZY_EDITS_DEFAULT: Final = 2
"""Levenshtein distance that `fuzzy` allows when the query names none."""

SYNC_THREADS: Final = 8
"""Parallel fsync calls: enough to overlap the files of a commit, few enough to stay cheap."""

OPEN_TABLES_MAX: Final = 256
"""Table handles kept open per graph: every table of a large schema, twice."""

RESTORE_ATTEMPTS_MAX: Final = 5
"""Times a commit clears leftovers above its parent before it gives up."""

ROWS_PER_FILE_MAX: Final = 1024 * 1024
"""Rows per data file of a bulk write: Lance's own default, stated."""

PROBE_KEYS_MAX: Final = 8192
"""Ids asked for in one index scan; beyond it a scan costs more than it saves."""

TAIL_FRAGMENT_ROWS_MAX: Final = 4096
"""Largest unindexed fragment whose ids are held in memory instead of scanned."""

TAIL_FRAGMENTS_CACHED_MAX: Final = 8192
"""Unindexed fragments whose ids are held in memory, over all tables."""

JOURNAL_TIER_BASE: Final = 8
"""Fragments of one size that make a journal append fold them; measured flat to 1,000 appends."""

JOURNAL_CACHED_ROWS_MAX: Final = 4096
"""Largest journal fragment whose rows stay in memory for the next fold."""

PUBLISH_ATTEMPTS_MAX: Final = 6
"""Times one publish tries again while the head is still the captured one."""

SLOT_WAIT_S: Final = 30.0
"""How long a writer waits for a living one to finish before it reports a conflict."""

TABLE_COMMIT_THREADS: Final = 8
"""Tables of one commit moved in parallel."""

SCAN_INSTEAD_OF_PROBE_MIN: Final = 20_000
"""Ids from which one scan of the id column beats index probes (measured break-even near 10,000)."""

PROBLEMS_MAX: Final = 100
"""Problems of one input that are collected and reported before the rest is counted only."""

WRITE_ATTEMPTS_MAX: Final = 32
"""Times one write is prepared again on a newer head before it reports a conflict."""

RESERVE_AFTER_LOSSES: Final = 2
"""Lost races after which a write takes the slot first, so that fast writers cannot starve it."""

COMPILED_QUERIES_MAX: Final = 256
"""Compiled queries a handle keeps, so that a repeated call is not compiled again."""

LINE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Longest line of a JSONL input: one entity, blobs included."""

LOAD_CHUNK_ROWS: Final = 65_536
"""Rows of one type parsed before they become an Arrow chunk; bounds Python objects in memory."""

FOLD_FRAGMENTS: Final = 32
"""Unindexed fragments after which a table's tail is folded (a probe costs 0.06 ms for each)."""

FOLD_ROWS: Final = 20_000
"""Unindexed rows after which a table's tail is folded."""

TIER_FRAGMENTS_MIN: Final = 24
"""Fragments below a tier's size that make a fold rewrite them as larger ones."""

VERSION_RUNS_MAX = 16
"""Runs of row versions one compacted fragment keeps; each costs bytes in every later version."""

COMPACTION_TIERS: Final = (2_048, 65_536, 1_048_576)
"""Sizes, in rows, that fragments grow through: each row is rewritten at most once per tier."""

INDEX_SEGMENTS_MAX: Final = 8
"""Index segments of one column before they are merged; each adds about 0.1 ms to a probe."""

RESIDENT_BYTES_MAX: Final = 4 * 1024**3
"""Columns and adjacency kept in memory per graph for reading."""

QUERY_ROWS_MAX: Final = 100_000_000
"""Rows a query may hold at once: about 1 GB for each variable of its pattern."""

SCHEMA_READS_MAX: Final = 8
"""Looks at schema files that others are replacing before a reader gives up."""

BRANCH_CONTROL_ATTEMPTS_MAX: Final = 50
"""Times somebody else may be first before making or removing a branch gives up."""

FEED_CHANGES_DEFAULT: Final = 1_000
"""Changes in one answer of the feed, unless asked for otherwise."""

FEED_CHANGES_MAX: Final = 8_192
"""The most changes anybody may ask for in one answer."""

FEED_COMMITS_DEFAULT: Final = 128
"""Commits in one answer of the feed."""
