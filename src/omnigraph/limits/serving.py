"""Limits of the server, its clients, policies and clusters."""

from __future__ import annotations

from typing import Final

REQUEST_BYTES_MAX: Final = 1024 * 1024
"""Body of a request to a server, loads excepted: query text and parameters are far smaller."""

LOAD_REQUEST_BYTES_MAX: Final = 32 * 1024 * 1024
"""Body of a load sent to a server: one commit's worth, held in memory while it is read."""

PARQUET_ROWS_BYTES_MAX: Final = 256 * 1024 * 1024
"""Memory that the rows of one Parquet file in a request may take: eight times its greatest size."""

REQUEST_HEAD_SECONDS_MAX: Final = 20.0
"""Time the first line and the headers of a request may take to arrive."""

REQUEST_BODY_SECONDS_MAX: Final = 60.0
"""Time a request body may take to arrive; a client that trickles holds a connection that long."""

REQUESTS_IN_FLIGHT_MAX: Final = 512
"""Requests a server works on or keeps waiting; more are told to come back."""

ACTOR_WRITES_MAX: Final = 32
"""Writes of one actor in flight, so that no actor fills the server alone."""

ACTOR_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
"""Bytes of one actor's writes in flight."""

ACTOR_QUEUE_MAX: Final = 256
"""Writes of one actor that wait for those in flight; more are told to come back."""

ACTOR_WAIT_S: Final = 30.0
"""How long a write waits for others of its actor; clients wait as long for an answer."""

ACTOR_RETRY_AFTER_S: Final = 60
"""The latest a client is told to come back when too many writes of its actor wait."""

IDEMPOTENCY_KEY_S: Final = 24 * 3600.0
"""How long a server knows which request a key was used for: clients repeat within minutes."""

KEY_CLAIM_ATTEMPTS_MAX: Final = 10
"""Times a key is tried to be bound while others bind it and give it back."""

KEY_SWEEP_EVERY: Final = 64
"""Keys after which old ones of one folder are forgotten: 256 folders share the work."""

SERVER_THREADS: Final = 16
"""Threads a server reads with."""

OPENAPI_AFTER_S: Final = 2.0
"""Time after its start at which a server makes its interface, if it was not asked for yet."""

OPENAPI_FORMS: Final = 2
"""The published interface, with and without tokens."""

SERVER_WRITE_THREADS: Final = 64
"""Threads a server writes with. Most of them wait: writes of a branch are published together."""

SERVER_QUERY_SECONDS_MAX: Final = 60.0
"""Time one query may take on a server."""

SERVER_QUERY_GRACE_S: Final = 1.0
"""Time after which a query that had its time is no longer waited for, though it still runs."""

SERVER_QUICK_S: Final = 0.02
"""A query that takes longer is watched: it is stopped when its client hangs up."""

SERVER_MEMORY_LOOK_S: Final = 5.0
"""How often a server looks whether it holds memory that nothing is in."""

SERVER_MEMORY_KEPT_BYTES: Final = 2 * 1024 * 1024
"""By how much its memory may have changed since it last gave some back."""

SMALL_QUERY_BYTES_MAX: Final = 256 * 1024 * 1024
"""Memory of one table of a query that a server runs itself; one that needs more is run apart."""

LARGE_QUERY_SHARE: Final = 4
"""Part of the machine's memory (one in so many) that a process for large queries may take."""

LARGE_PROCESS_BYTES: Final = 1024 * 1024 * 1024
"""Memory that may be set aside by a process for large queries before it has one: mostly stacks."""

LARGE_QUERY_TABLES: Final = 3
"""Tables of about one size that a query holds at a time: one, what it is made of, the answer."""

LARGE_QUERIES_MAX: Final = 2
"""Large queries that a server runs at a time; the next ones wait, in turn by actor."""

LARGE_QUERY_IDLE_S: Final = 10.0
"""How long a process for large queries waits for the next one, with what it has read."""

LARGE_QUERY_LOOK_S: Final = 0.05
"""How often it is asked whether the client of a large query is still there."""

LARGE_QUERY_NICE: Final = 10
"""How far large queries stand back when others want the processor."""

HELD_RESULT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Memory of an answer that is streamed; a larger one is read from a file as it is taken."""

RESULT_FILES_BYTES_MAX: Final = 16 * 1024 * 1024 * 1024
"""Bytes of all answers in files that are still being taken; more are told to come back."""

RESULT_FILE_ROWS: Final = 64 * 1024
"""Rows of one part of an answer in a file."""

RESULT_FILES_RETRY_S: Final = 10
"""When a client is told to come back that found no room for an answer."""

ACTOR_READS_MAX: Final = 8
"""Reads of one actor in flight; one thread at least is always left to the others."""

RESULT_ROWS_MAX: Final = 100_000
"""Rows of a query in one JSON answer, which is made as a whole; streams have no such limit."""

RESULT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of rows in one JSON answer."""

RENDER_ROWS: Final = 1024
"""Rows made into JSON at once; then it is asked whether the caller is still there."""

SERVER_DRAIN_SECONDS: Final = 30.0
"""Time requests under way get to finish when a server stops."""

SERVER_DRAIN_NOTICE_S: Final = 1.0
"""Time a server that stops still serves while it says that it is not ready."""

WORKER_HOLD_BACK_S: Final = 0.005
"""How long a worker with more connections than another leaves a new one to that one."""

WORKER_PAUSE_S: Final = 1.0
"""How long a worker takes no connection when its process has no room for one."""

WORKER_CONNECT_S: Final = 2.0
"""How long a worker tries to reach another one."""

WORKER_TICKS_BETWEEN_NOTES: Final = 10
"""Tenths of a second after which a worker tells what it has done."""

WORKER_RESTART_S: Final = 0.5
"""Pause before a worker is replaced that ended soon after its start; it doubles each time."""

WORKER_RESTART_S_MAX: Final = 30.0
"""Longest pause before a worker is replaced; one that ran for so long is replaced at once."""

WORKER_LOOK_S: Final = 1.0
"""How often a supervisor looks whether its workers still get to their work."""

WORKER_SILENCE_S: Final = 30.0
"""How long a worker may be silent: then it hangs, and is killed and replaced."""

WORKER_STOP_S: Final = 5.0
"""Time a worker that stops gets beside what its requests get; then it is killed."""

STREAM_CHUNK_BYTES: Final = 64 * 1024
"""Bytes of a streamed answer made at once; the next part waits until this one is taken."""

CLIENT_TIMEOUT_S: Final = 30.0
"""How long a client waits for an answer."""

CLIENT_RETRIES: Final = 2
"""How often a client sends a request again, to a server that is busy or hung up."""

CLIENT_RETRY_AFTER_S_MAX: Final = 5.0
"""A server that asks a client to wait for longer is not waited for: the caller hears of it."""

CLIENT_BACKOFF_S: Final = 0.1
"""First pause before a request whose connection broke is sent again; the next is twice as long."""

KEYS_FRESH_S: Final = 600.0
"""How long keys of an issuer are used until they are fetched anew: one it takes back ends then."""

KEYS_KNOWN_S_MAX: Final = 24 * 3600.0
"""How long keys are used while their issuer does not answer."""

KEYS_RETRY_S: Final = 30.0
"""Shortest time between two fetches of the keys of an issuer, whatever tokens name."""

KEYS_TIMEOUT_S: Final = 5.0
"""How long keys are waited for: a request waits with them."""

KEYS_BYTES_MAX: Final = 1024 * 1024
"""Largest set of keys that is read."""

JWT_CHARS_MAX: Final = 16 * 1024
"""Longest token of an issuer that is looked at."""

CLOCK_SKEW_S: Final = 60.0
"""By how much the clock of an issuer may be off."""

YAML_BYTES_MAX: Final = 4 * 1024 * 1024
"""Largest YAML file that is read: these are written by people."""

POLICY_DECISIONS_CACHED: Final = 4096
"""Answers of a policy kept in memory; one is a few hundred bytes and costs about 0.1 ms to find."""

CLUSTER_RECORDS_KEPT: Final = 100
"""Used approvals a cluster's ledger remembers."""

MCP_ROWS_DEFAULT: Final = 100
"""Rows an agent gets from one call when it names no number: they land in its context."""

MCP_ROWS_MAX: Final = 10_000
"""Rows an agent can ask for in one call."""
