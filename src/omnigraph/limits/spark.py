"""Limits of work on Spark."""

from __future__ import annotations

from typing import Final

SPARK_INPUT_BYTES_MIN: Final = 2 * 1024**3
"""Size of an input from which `load` in a single process would fill memory: Spark takes over."""

SPARK_PIECE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of JSONL or CSV one Spark task parses: seconds of work, so that a repeated task costs
little. Small files are put together up to it."""

SPARK_OPEN_BYTES: Final = 64 * 1024
"""What it costs to open one more file, as bytes to parse: so a task opens 256 files at most."""

SPARK_COLUMNS_BYTES: Final = 256 * 1024 * 1024
"""Bytes of Parquet, decompressed, that one task reads, some at a time. A larger row group is cut by
rows, and each task decodes what stands before its own: so smaller parts would cost more."""

SPARK_EVENT_BYTES: Final = 64 * 1024 * 1024
"""The same for events, which a task holds all at once."""

SPARK_FOOTERS_MAX: Final = 32
"""Footers of Parquet files that the driver reads by itself; more of them are read by workers."""

SPARK_FRAME_ROWS: Final = 262_144
"""Rows of a Spark frame or Parquet file parsed at once; bounds a worker's memory."""

SPARK_BATCH_ROWS: Final = 65_536
"""Rows that workers read at once, and send to Spark."""

SPARK_SCAN_ROWS: Final = 1_000_000
"""Rows whose keys one task reads: starting a task costs 20 ms, a million keys half a second."""

SPARK_PROBE_ROWS: Final = 4_000_000
"""Ends that one task looks up, at least: the ids of the other type are read once for all."""

SPARK_PROBE_ROWS_MAX: Final = 64_000_000
"""The same, at most, where few tasks run at once: a task that fails is done again."""

SPARK_VIOLATIONS_MAX: Final = 1_000
"""Rows that one check of a parallel load brings to the driver, as a load in one process counts."""

SPARK_MERGE_ROWS_MIN: Final = 1_000_000
"""Rows of a type from which workers merge them: each reads all ids, the driver does it once."""

SPARK_DELTA_ROWS_MIN: Final = 100_000
"""Rows of a table that may differ from which a merge on Spark leaves them to workers."""

SPARK_GROUP_BYTES: Final = 256 * 1024 * 1024
"""Bytes of rows that a worker compares at once, about."""

SPARK_EVENT_PARTS: Final = 64
"""Parts into which each piece of events is cut by entity: as many tasks can apply a type's events
at once, and each reads a part of every piece."""

SPARK_FEED_ROWS: Final = 1_000_000
"""Rows that one batch of a stream of changes looks at, unless asked for otherwise."""

SPARK_FEED_TASK_ROWS: Final = 262_144
"""Rows of a large commit whose changes one task tells."""

SPARK_FEED_COMMITS: Final = 1_024
"""Commits in one batch of a stream of changes: planning looks at each."""

SPARK_FEED_WHOLE_ROWS: Final = 8_192
"""Commits that touch no more rows are told whole, by one task; larger ones may be cut anywhere."""

SPARK_INDEX_ROWS: Final = 5_000_000
"""Rows of which one task of a Spark job builds an index."""

SPARK_HELD_ROWS_MAX: Final = 4_000_000
"""Ids that one worker looks up in memory, in about 400 MB; above it Spark joins them."""

SPARK_BROADCAST_ROWS: Final = 100_000
"""Rows that a query on Spark sends whole to every worker instead of sorting both sides of a join:
some 10 MB of ids."""

SPARK_COMBINE_BYTES: Final = 256 * 1024 * 1024
"""Ids of edges that a worker of a cluster counts in memory before it sends the numbers; counting
takes as much again."""

SPARK_COMBINE_MEMORY_SHARE: Final = 0.125
"""Share of this machine's memory that all its workers may hold for that, if they run on it."""

SPARK_COMBINE_BYTES_MAX: Final = 2 * 1024**3
"""What one of them holds at most."""

SPARK_COUNT_ROWS: Final = 1 << 20
"""Edges that are read at once to be counted."""

SPARK_PARTS_MAX: Final = 64
"""Parts into which a worker divides ids before it counts them or looks them up."""

SPARK_MEANT_ROWS_MAX: Final = 16_000_000
"""Nodes of a type that a worker looks through for those that edges must lead to, and may hold: some
13 bytes and the letters of an id, each. Of larger types Spark joins them."""

SPARK_TASKS_TOGETHER: Final = 8
"""Tasks of ours that are one of Spark's, at most: to start one of those costs 20 ms."""

SPARK_TASKS_EACH: Final = 4
"""Tasks of Spark for each that runs at once, at least: few are slow, and progress is seen."""

SPARK_TASKS_UNKNOWN: Final = 8
"""Tasks where a session does not tell how many run at once."""

SPARK_WATCH_S: Final = 0.1
"""How often it is looked whether a query on Spark is to stop."""

SPARK_HOPS_PLANNED: Final = 8
"""Hops in one Spark plan: planning takes longer with each, so longer walks are cut into several."""

SPARK_RESOLVE_PART_BYTES: Final = 64 * 1024 * 1024
"""Bytes of compared values that one task holds, about; comparing them takes some times that."""

SPARK_RESOLVE_HELD_BYTES: Final = 64 * 1024 * 1024
"""Bytes of compared values that are cut into parts at once."""

SPARK_RESOLVE_ROW_BYTES: Final = 40
"""Bytes of an id, a key or a compared text, about."""
