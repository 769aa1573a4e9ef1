"""Limits of the languages, of storage, writes and reads."""

from __future__ import annotations

from typing import Final

I32_MIN: Final = -(2**31)
I32_MAX: Final = 2**31 - 1
I64_MIN: Final = -(2**63)
I64_MAX: Final = 2**63 - 1
U32_MAX: Final = 2**32 - 1
U64_MAX: Final = 2**64 - 1

U16_VALUES: Final = 2**16

FLOAT_EXACT_MAX: Final = 2.0**53
"""Up to here every integer is a float of 64 bits; sums below it are exact in floats."""

PACKED_MAX: Final = 2.0**62
"""Counts of rows, and numbers that hold several others, stay below: two of them can be added."""

F32_ROUNDING: Final = 2.0**-24
"""Largest relative error of rounding to a float of 32 bits."""

SUM_DIGITS: Final = 38
"""Digits sums of integers are computed in: a sum of 64-bit integers cannot leave them."""

MEAN_SCALE: Final = 2.0**-64
"""What floats are multiplied by when their sum leaves the floats: they are fewer than 2^64."""

VECTOR_DIM_MAX: Final = I32_MAX
"""Arrow's fixed-size list length is a signed 32-bit integer."""

NESTING_DEPTH_MAX: Final = 32
"""Deepest nesting of parentheses and blocks in query text; bounds parser recursion."""

PIPELINE_DIFF_ROWS_MAX: Final = 1_000_000
"""Rows of a run up to which its report counts what was changed, entity by entity."""

HEADER_BYTES_MAX: Final = 1024 * 1024
"""Bytes of a CSV file that are read to find its header."""

EXPRESSION_ARGUMENTS_MAX: Final = 64
"""Arguments of one function in a mapping: more than any key has columns."""

EXPRESSION_DEPTH_MAX: Final = 100
"""Deepest chain of operators in one expression; bounds the recursion of everything after it."""

SOURCE_CHARS_MAX: Final = 8 * 1024 * 1024
"""Longest schema or query file: far above hand-written files, bounds compile memory."""

DIAGNOSTICS_MAX: Final = 100
"""Diagnostics collected per file before the compiler stops: more do not help."""

RRF_K_DEFAULT: Final = 60
"""Rank offset of reciprocal rank fusion, the customary constant."""

FUZZY_EDITS_DEFAULT: Final = 2
"""Levenshtein distance that `fuzzy` allows when the query names none."""

MEMORY_RETURNED_BYTES: Final = 16 * 1024 * 1024
"""A query that took more memory than this gives it back at its end: allocators would keep it."""

SYNC_THREADS: Final = 32
"""Parallel fsync calls: enough for the files of many writers at once. Threads begin when needed."""

RECOVERY_ATTEMPTS_MAX: Final = 3
"""How often one process tries to resolve a write whose slot's lease lapses on the way."""

REMOVAL_LOOKS_S: Final = (0.02, 0.1, 0.4)
"""Pauses between looks whether a version with missing files is being removed, or is damaged."""

OPEN_TABLES_MAX: Final = 1_024
"""Table handles kept open per graph: every table of a large schema, or those that a thousand
branches write to."""

OPEN_VERSIONS_MAX: Final = 4
"""Versions of one table that its own commits keep open: a busy table closes no other one."""

HANDLE_COMMITS_MAX: Final = 64
"""Versions of a branch committed one from another before a handle is opened anew (10 KB each)."""

RESTORE_ATTEMPTS_MAX: Final = 5
"""Times a commit clears leftovers above its parent before it gives up."""

ROWS_PER_FILE_MAX: Final = 128 * 1024
"""Rows per data file. A commit that rewrites a row costs Lance a look at every row of its file."""

PROBE_KEYS_MAX: Final = 8192
"""Ids asked for in one index scan; beyond it a scan costs more than it saves."""

TAIL_FRAGMENT_ROWS_MAX: Final = 4096
"""Largest unindexed fragment whose ids are held in memory instead of scanned."""

TAIL_FRAGMENTS_CACHED_MAX: Final = 8192
"""Unindexed fragments whose ids are held in memory, over all tables."""

PROBE_PLANS_MAX: Final = 256
"""Versions of tables whose split into indexed and other fragments is held in memory."""

LANCE_METADATA_CACHE_BYTES: Final = 32 * 1024 * 1024
"""What Lance holds of manifests and file footers of a graph; each commit adds some 20 KB."""

LANCE_INDEX_CACHE_BYTES: Final = 256 * 1024 * 1024
"""What Lance holds of indexes of a graph; a page of 4,096 keys is some 55 KB as stored."""

JOURNAL_TIER_BASE: Final = 8
"""Fragments of one size that make a journal append join them; measured flat to 1,000 appends."""

CHECKPOINT_ROWS: Final = 512
"""Rows of a manifest file that ends with a checkpoint; those of shorter files are kept at hand."""

MANIFEST_READS_MAX: Final = 8
"""Times the newest manifest version is looked for while cleanups remove it before it is read."""

PUBLISH_ATTEMPTS_MAX: Final = 6
"""Times one publish tries again while the head is still the captured one."""

SLOT_WAIT_S: Final = 30.0
"""How long a writer waits for a living one to finish before it reports a conflict."""

OPEN_BRANCH_COMMITS_MIN: Final = 64
OPEN_BRANCHES_COMMITS_MAX: Final = 1_024 * OPEN_BRANCH_COMMITS_MIN
"""Commits in memory of the branches a handle keeps warm beside main, each counted as so many at
least: a thousand branches with short histories. One took 35 KB, and some 0.3 KB for each commit.
Branches in use stay whatever their number; opening one again took 8 ms on a disk."""

MADE_BRANCHES_MAX: Final = 16
"""Branches a handle made and has not used yet whose manifests are kept open."""

BRANCHES_MET_MAX: Final = 65_536
"""Branches of which a handle remembers whose merges they took, some 300 bytes each."""

RETIREMENT_COMMITS_MAX: Final = 1_000
"""Commits of a branch that are looked through when it is deleted, for merges it took; those of a
longer one are left to the cleanup."""

PAST_BRANCHES_COMMITS_MAX: Final = 256 * OPEN_BRANCH_COMMITS_MIN
"""The same of deleted or unopened branches whose history was read, for merges and cleanups."""

REMOVALS_AT_ONCE: Final = 8
"""Branches whose files are removed side by side: a disk takes long to forget a folder."""

COMMIT_THREADS: Final = 32
"""Threads one handle commits with, over all branches: tables of one commit move in parallel."""

SLOTS_SEEN_MAX: Final = 4096
"""Slots of others watched at once. One that is forgotten is watched for a lease once more."""

SYNCED_FOLDERS_MAX: Final = 16_384
"""Folders known to be on disk, a few MB of names. One that is forgotten is synced once more."""

SCAN_INSTEAD_OF_PROBE_MIN: Final = 20_000
"""Ids from which one scan of the id column beats index probes (measured break-even near 10,000)."""

PROBLEMS_MAX: Final = 100
"""Problems of one input that are collected and reported before the rest is counted only."""

WRITE_ATTEMPTS_MAX: Final = 32
"""Times one write is prepared again on a newer head before it reports a conflict."""

GROUP_MEMBERS_MAX: Final = 64
"""Writes that one publish takes along."""

GROUP_ROWS_MAX: Final = 2_048
"""Rows of all writes of one publish; below `TAIL_FRAGMENT_ROWS_MAX`, so ids are remembered."""

GROUP_BYTES_MAX: Final = 4 << 20
"""Bytes of the rows of all writes of one publish: they are held in memory until it is done."""

MEMBER_ROWS_MAX: Final = 256
"""Rows of one write that is published with others; a larger one is published alone."""

INNER_STATES_MAX: Final = 1_024
"""States between commits published together that a handle remembers to have made, per table."""

ROW_SCHEMAS_MAX: Final = 4_096
"""Types whose row schema is remembered, over all graphs of the process."""

GATHER_SHARE: Final = 0.15
GATHER_WAIT_MAX_S: Final = 0.05
"""How long a writer waits for others to come back: a part of what the last group took, and most."""

COMMIT_MESSAGE_BYTES_MAX: Final = 2_000
"""Longest message of a commit, as UTF-8: it is kept with every state and sent in a header."""

RESERVE_AFTER_LOSSES: Final = 2
"""Lost races after which a write takes the slot first, so that fast writers cannot starve it."""

COMPILED_QUERIES_MAX: Final = 256
"""Compiled queries an open graph keeps, so that a repeated call is not compiled again."""

SESSION_BRANCHES_MAX: Final = 256
"""Branches a session has looked at, above which those that were deleted are forgotten."""

LINE_BYTES_MAX: Final = 512 * 1024 * 1024
"""Longest line of one entity, blobs included. None larger is stored, so that exports load."""

LOAD_CHUNK_ROWS: Final = 65_536
"""Rows of one type parsed before they become an Arrow chunk; bounds Python objects in memory."""

BATCH_LINES_MIN: Final = 64
"""Fewer lines are parsed one by one."""

LOAD_BLOCK_BYTES: Final = 4 * 1024 * 1024
"""Lines of a file read and parsed at once."""

LOAD_CHUNK_BYTES: Final = 16 * 1024 * 1024
"""Input text parsed before it becomes Arrow chunks; parsed rows take several times as much."""

COLUMN_CHUNK_BYTES: Final = 16 * 1024 * 1024
"""Columns of an input, as Arrow holds them, taken in at once; typed rows are copies of them."""

COLUMN_BATCH_ROWS: Final = 8192
"""Rows of a Parquet file decoded at once: only then it is known how many bytes they have."""

LOAD_MEMORY_BYTES: Final = 64 * 1024 * 1024
"""Arrow chunks of one load kept in memory; the largest types beyond it go to temporary files."""

JOINED_ROWS_MIN: Final = 100_000
"""Ends of edges from which those without a node are found by several threads."""

BULK_MEMORY_BYTES_MAX: Final = 1024**3
BULK_MEMORY_SHARE: Final = 16
"""The same for a bulk load, one at a time: that part of the memory there is, at most so much."""

EMBED_CHUNK_ROWS: Final = 8192
"""Rows from a temporary file whose vectors are made at once; a text is asked for once in each."""

ULID_CHUNK_ROWS: Final = 262_144
"""Ids made at once; a chunk of texts cannot hold more than two gigabytes."""

STAGE_BATCH_BYTES: Final = 16 * 1024 * 1024
"""Rows handed to the table writer at once: small batches cost it more than their content."""

STAGE_BATCH_ROWS_MIN: Final = 64
STAGE_BATCH_ROWS_MAX: Final = 262_144

UPSERT_PART_BYTES: Final = 64 * 1024 * 1024
"""Rows merged into a table at once; a few copies of them are held in memory."""

TAIL_FRAGMENTS: Final = 32
"""Unindexed fragments after which a table's tail is compacted (each costs a look-up 0.06 ms)."""

LARGE_WRITE_ROWS: Final = 200_000
"""Rows of one write from which on its indexes are built in the background."""

TAIL_ROWS: Final = 20_000
"""Unindexed rows after which a table's tail is compacted."""

TIER_FRAGMENTS_MIN: Final = 24
"""Fragments below a tier's size that make a compaction rewrite them as larger ones."""

VERSION_RUNS_MAX = 16
"""Runs of row versions one compacted fragment keeps; each costs bytes in every later version."""

COMPACTION_TIERS: Final = (2_048, 65_536, ROWS_PER_FILE_MAX)
"""Sizes, in rows, that fragments grow through: each row is rewritten at most once per tier."""

INDEX_SORT_BYTES_MAX: Final = 2 * 1024**3
"""Memory Lance may sort the keys of an index in; its own limit can be too low for 10M rows."""

INDEX_SEGMENTS_MAX: Final = 8
"""Index segments of one column before they are merged; each adds about 0.1 ms to a probe."""

RESIDENT_BYTES_MAX: Final = 4 * 1024**3
"""Columns and adjacency kept in memory per graph for reading."""

KEYS_ADDED_MAX: Final = 20_000
"""Ids added to a table since its ids were put in order, before they are ordered anew."""

LANDMARK_KEYS: Final = 64
"""Ids between two that are kept as texts of Python: a search for one begins there, and is left with
six steps instead of seventeen among 100,000."""

NEWEST_KNOWN_MAX: Final = 8192
"""Columns, and edge types, whose newest version read is known so that the next is made from it: a
hundred branches of a large schema. One that is forgotten is read whole once more."""

KEY_BYTES: Final = 150
"""Memory of one id in a Python dictionary, about."""

QUERY_ROWS_MAX: Final = 100_000_000
"""Rows a query may hold at once: about 1 GB for each variable of its pattern."""

QUERY_MEMORY: Final = "bytes of memory of a query"
"""The resource that a query which would hold too much is refused for."""

QUERY_MEMORY_SHARE: Final = 4
"""The part of the machine's memory that one table of a query, made on its way, may take."""

ROW_BYTES: Final = 8
"""Memory of a number: of a row, a weight, a place."""

PATH_NODE_BYTES: Final = 40
"""Memory of a node on a path, about: an id and its places."""

HOP_STARTS: Final = 256
"""Nodes that hops are followed from together at first; then as many as suit the next limit."""

HOP_BLOCK_ROWS: Final = 1 << 21
"""Neighbours looked at together in one hop, about: a part of a second between looks at the time."""

JOINED_TEXT_BYTES_MAX: Final = 64
"""Longest text that joins compare as words; longer ones are numbered first, which costs more."""

JOIN_WORD_BYTES: Final = 8
"""Bytes of a text that joins compare at once."""

JOIN_ROUNDS_MAX: Final = 24
"""Times keys whose hashes collide are put into another table before they are sorted instead."""

JOIN_CHUNK_ROWS: Final = 1 << 17
"""Keys that are looked up at once: what is computed of them stays near the processor."""

JOIN_THREADS: Final = 4
"""Threads that look up keys, and chunks from which there are several."""

JOIN_LONG_SHARE: Final = 4
"""Long texts looked up at once, for each that is known: a table of those is made every time."""

JOIN_BLOCK_ROWS: Final = 1 << 20
"""Pairs of rows a join looks at together where no equality says which ones fit."""

JOIN_BLOCK_BYTES: Final = 64 * 1024 * 1024
"""What such pairs are compared by takes about so much at most."""

JOIN_SAMPLE_ROWS: Final = 256
"""Rows by which it is told how much that is, and pairs that are looked at together however long
their texts are."""

PIECE_ROWS: Final = 1 << 16
"""Rows that a query which stops at its limit makes at first, about: a millisecond of work."""

PIECE_JOINED_NODES: Final = 64
"""Nodes that such a query starts from at most when it joins them by value."""

PIECE_GROWTH: Final = 8
"""How much larger each next piece of the rows is when a query stops at its limit."""

RESULT_BATCH_ROWS: Final = 65_536
"""Rows of a result that become Python values at once."""

SCHEMA_READS_MAX: Final = 8
"""Looks at schema files that others are replacing before a reader gives up."""

SCHEMAS_KEPT_MAX: Final = 32
"""Schemas of the past a handle keeps compiled; another costs one read and a few milliseconds."""

SCHEMA_CHARS_KEPT_MAX: Final = 256 * 1024
"""Characters of declarations a handle keeps checked; each takes about 50 bytes."""

TEXT_CHUNK_ROWS: Final = 65_536
"""Rows of text split into words at once; bounds the memory of splitting."""

WORD_CHARS_MAX: Final = 40
"""Longest word that text search knows: longer ones are data, not language."""

WORD_BYTES: Final = 200
"""Memory of one word of a vocabulary, about."""

SEGMENT_ROWS_MIN: Final = 4096
"""Rows from which a fragment's words or vectors are kept on their own between table versions."""

BM25_K1: Final = 1.2
"""How soon further occurrences of a word stop counting, the customary constant."""

BM25_B: Final = 0.75
"""How much a long text is held against a word in it, the customary constant."""

BM25_SMOOTHING: Final = 0.5
"""Added to the numbers of texts with and without a word, the customary constant."""

VECTOR_BLOCK_VALUES: Final = 1 << 20
"""Vector components converted to 64 bits at once: 8 MiB, which stays near the processor."""

EMBED_BATCH_TEXTS: Final = 128
"""Texts sent to an embedder at once: few calls for a load, and no request a server refuses."""

IVF_PARTITION_ROWS: Final = 4096
"""Vectors per partition of a vector index: small enough to probe a few, large enough to train."""

IVF_SAMPLE_RATE: Final = 256
"""Vectors looked at for each centroid of a vector index that is built in pieces."""

IVF_PARTITIONS_MAX: Final = 1024
"""Partitions of a vector index; more take long to train and gain little."""

NEAREST_ROWS_MIN: Final = 4096
"""Rows below which all distances are computed in full: sorting them out first gains nothing."""

NEAREST_ROWS_SHARE: Final = 4
"""The same if the rows are at most this many times those asked for."""

SQUARES_SLACK: Final = 1e-12
"""Rounding that sums of squares in 64 bits may have, relative to them; generous."""

ANN_BYTES_MIN: Final = 1024**3
"""Size of a vector column from which `nearest` over a whole type asks the vector index."""

ANN_PROBES_MIN: Final = 32
"""Partitions of a vector index that are searched at least; an eighth of them if that is more."""

ANN_SPARE_SHARE: Final = 2
ANN_SPARE_ROWS: Final = 16
"""Rows asked of a vector index: so many times those wanted and more; ids settle equal distances."""

TAKE_SHARE: Final = 8
"""A large vector column is not read as a whole for less than this fraction of its rows."""

BRANCH_CONTROL_ATTEMPTS_MAX: Final = 50
"""Times another writer may be first before making or removing a branch gives up."""

FEED_CHANGES_DEFAULT: Final = 1_000
"""Changes in one answer of the feed, unless asked for otherwise."""

FEED_CHANGES_MAX: Final = 8_192
"""The most changes one may ask for in one answer."""

FEED_COMMITS_DEFAULT: Final = 128
"""Commits in one answer of the feed."""

FEED_HELD_BYTES: Final = 256 * 1024 * 1024
"""Rows of commits that are held between the pages in which they are read."""

HISTORY_SPARE_COMMITS: Final = 256
"""Commits that are read beyond a page of the history of all branches: where clocks disagree about
the time of a merge, its parents lie among them."""

CLEANUP_GRACE_S: Final = 600.0
"""States replaced less than this ago are never cleaned up: a reader may still use them."""

RETAIN_VERSIONS: Final = 100
RETAIN_S: Final = 7 * 86_400.0
RETAIN_VERSIONS_MAX: Final = 10_000
"""States of each branch that a cleanup keeps when it is not told: the newest ones, and those that
are younger than a week, the newest ten thousand of them: that many a commit a minute makes. Tagged
ones, and those that branches and merges rest on, stay for ever."""

OPTIMIZE_ATTEMPTS_MAX: Final = WRITE_ATTEMPTS_MAX
"""Times writers may come first before an optimize gives up on a branch."""

OPTIMIZE_THREADS: Final = 4
"""Tables compacted at the same time."""

MAINTENANCE_THREADS: Final = 4
"""Tables cleaned up at the same time on a disk; in an object store `OBJECT_CALLS_AT_ONCE`."""

NUMBERED_BATCH_ROWS: Final = 1 << 16
"""Edges whose ends are read at once to be found."""

PATCHED_EDGES_MAX: Final = 4096
"""New edges that are put into a known adjacency one by one; more are sorted in with all."""

CONDITION_SHARE: Final = 0.1
"""Share of rows a condition is taken to keep when nothing is known about it."""

LISTING_COST: Final = 3.0
"""Listing a neighbour in a frame costs about this much more than counting it."""

COUNTED_TABLE_ROWS_MAX: Final = 20_000
"""Rows of a table on which a condition is evaluated just to know how many fit."""

WHOLE_TABLE_SHARE: Final = 4
"""A condition is evaluated on a whole table unless the nodes asked about are this much fewer."""

DENSE_NODES_SHARE: Final = 8
"""Nodes are merged through an array over all nodes unless they are this much fewer."""

DENSE_GROUPS_SHARE: Final = 4
"""Groups are found through an array over all nodes if those are at most this many per row."""

EDGES_IN_PLACE_SHARE: Final = 2
"""Edges are looked at as they lie in memory unless the nodes asked about are this much fewer."""

PROBE_FRONTIER_MAX: Final = 1024
"""Nodes of one hop that are looked up through an index; beyond it adjacency is built instead."""

PROBE_HOPS_MAX: Final = 6
"""Hops of one traversal that are looked up through an index."""

PROBE_ROWS_MIN: Final = 20_000
"""Rows of the tables of a query below which reading them whole is as fast as looking rows up."""

PROBED_QUERIES_MAX: Final = 8
"""Queries on one edge or node type answered by index before it is taken into memory."""

PROBED_TABLES_MAX: Final = 4096
"""Tables whose queries answered by index are counted; one that is forgotten counts from zero."""

UPKEEP_COMMITS: Final = 200
UPKEEP_S: Final = 3_600.0
"""Commits of a handle, or time at its next commit, after which it optimizes and cleans up."""

UPKEEP_LOSSES_MAX: Final = 2
"""Lost races after which an optimize in the background leaves a branch to its writers."""

ORPHAN_AGE_S: Final = 86_400.0
"""Age at which a branch of a table that nothing names is left behind, not being written."""

QUERY_TIME: Final = "milliseconds of a query"
"""What a query that took too long exceeded; servers answer 504 for it."""

STORE_CONNECT_TIMEOUT_S: Final = 5.0
"""How long a connection to an object store may take before it counts as failed."""

STORE_REQUEST_TIMEOUT_S: Final = 30.0
"""How long one request to an object store may take: a large file on a slow line."""

STORE_RETRIES_MAX: Final = 8
"""Times a request is repeated while the store is busy or broken; each waits twice as long."""

STORE_RETRY_TIMEOUT_S: Final = 60.0
"""Time after which a request is no longer repeated."""

PUT_ATTEMPTS_MAX: Final = 3
"""Times a put that failed without a trace in the store is made again."""

OBJECT_CALLS_AT_ONCE: Final = 8
"""Tables staged side by side in an object store, where a call is mostly waiting."""

OBJECT_READ_BYTES: Final = 8 * 1024 * 1024
"""Bytes of an input object that one request reads; Parquet asks for what it needs."""

LEASE_S: Final = 3.0
"""How long a silent owner keeps its slot in an object store. A dead one stalls its branch so. A
publish that took longer, anywhere, looks for its commit before it is acknowledged."""

LEASE_MARGIN_S: Final = 0.5
"""Safety margin of a lease, on both sides: for slow requests, not for clocks."""

LEASE_POLL_S: Final = 0.2
"""Pause between looks at the slot of another writer; at first an eighth of it."""

DRAWN_NODES_MAX: Final = 300
"""Nodes of a picture for a notebook; more would hide each other."""

MERGE_PAIRS_MAX: Final = 2_000
"""Pairs of branches whose common states a cleanup keeps, beside those with parents and main."""

MERGE_BASE_STATES_MAX: Final = 24
"""States merged into the base of a merge after merges that crossed. Each costs a comparison; what
lies further back is taken as not known, which can only show a conflict more."""

TEXT_BYTES: Final = 24
"""Memory that a text of a column takes, about: its offset and some twenty letters."""

NUMBER_BYTES: Final = 8
"""Memory that a number, date or instant of a column takes."""

LIST_BYTES: Final = 64
"""Memory that a list of a column takes, about."""

ADJACENCY_BYTES: Final = 32
"""Memory that an edge takes, walked both ways by pairs and by edges: 29 were measured."""

RESOLVE_BLOCK_NODES: Final = 1_000
"""Nodes of a block that are compared with each other: half a million pairs. A larger one says
more about its key, such as an empty name, than about its nodes; it is left out, and reported."""

RESOLVE_CLUSTER_NODES: Final = 50
"""Nodes that are merged into one. More are seldom one thing: pairs were chained, or a threshold is
too low."""

RESOLVE_PREFIX_LENGTH: Final = 4
"""Letters of a prefix, unless given."""

RESOLVE_PAIRS_AT_ONCE: Final = 262_144
"""Pairs that are compared at once: some 40 MB for five comparisons."""

RESOLVE_VECTOR_VALUES: Final = 4_000_000
"""Numbers of vectors that are compared at once: 32 MB on each side."""

RESOLVE_SCORE_DIGITS: Final = 6
"""Digits of a score. What is left of the order in which numbers were added lies far below."""

RESOLVE_ROWS_AT_ONCE: Final = 262_144
"""Rows looked through at once for the nodes that are merged: each time their ids are hashed."""

RESOLVE_SPARK_NODES_MIN: Final = 5_000_000
"""Nodes from which Spark resolves them, if there is one and nothing else is asked for."""

RESOLVE_REPORTED: Final = 100
"""Blocks and clusters left out that a report names; the tables have all."""
