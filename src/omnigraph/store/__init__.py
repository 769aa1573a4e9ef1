"""Bytes on disk: control files, slots, tables and the journal. The only room that knows Lance."""

from __future__ import annotations

from omnigraph.store.blobs import BlobRef, find_blob, open_blob
from omnigraph.store.branches import (
    BranchRef,
    TagRef,
    branch_exists,
    branch_files,
    branch_names,
    branch_path,
    create_tag,
    delete_branch,
    delete_forks,
    delete_tag,
    forget_retired,
    fork_table,
    is_stored,
    list_branches,
    list_tags,
    make_branch,
    read_branch,
    retire_branch,
    retired_branches,
    split_branch,
    tag_file,
)
from omnigraph.store.bulk import (
    fragment_ids,
    joined_rewrites,
    read_fragments,
    rewrite_fragments,
    write_rows,
)
from omnigraph.store.columns import ColumnChanges, change_columns
from omnigraph.store.conditional import check_conditional_put
from omnigraph.store.control import ControlFiles
from omnigraph.store.counters import count, measured
from omnigraph.store.delta import TableDelta, table_delta
from omnigraph.store.durability import Durability, Syncer, new_syncer
from omnigraph.store.fragments import FragmentGroup, fragment_groups
from omnigraph.store.indexing import (
    IndexSpec,
    lacking_indexes,
    missing_indexes,
    nearest_rows,
    rebased,
    stage_indexes,
)
from omnigraph.store.journal import Journal, JournalView, StagedAppend, StaleJournal
from omnigraph.store.keys import ID_INDEX, KeyProbe, addresses_of, id_filter, quoted
from omnigraph.store.location import Location, locate
from omnigraph.store.op_class import only_maintenance, only_ours
from omnigraph.store.parallel import side_by_side
from omnigraph.store.slots import HeldSlot, Slots, open_slots
from omnigraph.store.staging import (
    OPERATION_PROPERTY,
    StagedTable,
    commit_staged,
    restore,
    stage_delete,
    stage_fragments,
    stage_index,
    stage_insert,
    stage_overwrite,
    version_file,
)
from omnigraph.store.tables import (
    Table,
    Tables,
    blob_array,
    blob_field,
    is_blob,
    new_session,
    primary_key_field,
)
from omnigraph.store.torn import newest_version, set_aside_torn
from omnigraph.store.upsert import stage_rewritten, stage_upsert

__all__ = [
    "ID_INDEX",
    "OPERATION_PROPERTY",
    "BlobRef",
    "BranchRef",
    "ColumnChanges",
    "ControlFiles",
    "Durability",
    "FragmentGroup",
    "HeldSlot",
    "IndexSpec",
    "Journal",
    "JournalView",
    "KeyProbe",
    "Location",
    "Slots",
    "StagedAppend",
    "StagedTable",
    "StaleJournal",
    "Syncer",
    "Table",
    "TableDelta",
    "Tables",
    "TagRef",
    "addresses_of",
    "blob_array",
    "blob_field",
    "branch_exists",
    "branch_files",
    "branch_names",
    "branch_path",
    "change_columns",
    "check_conditional_put",
    "commit_staged",
    "count",
    "create_tag",
    "delete_branch",
    "delete_forks",
    "delete_tag",
    "find_blob",
    "forget_retired",
    "fork_table",
    "fragment_groups",
    "fragment_ids",
    "id_filter",
    "is_blob",
    "is_stored",
    "joined_rewrites",
    "lacking_indexes",
    "list_branches",
    "list_tags",
    "locate",
    "make_branch",
    "measured",
    "missing_indexes",
    "nearest_rows",
    "new_session",
    "new_syncer",
    "newest_version",
    "only_maintenance",
    "only_ours",
    "open_blob",
    "open_slots",
    "primary_key_field",
    "quoted",
    "read_branch",
    "read_fragments",
    "rebased",
    "restore",
    "retire_branch",
    "retired_branches",
    "rewrite_fragments",
    "set_aside_torn",
    "side_by_side",
    "split_branch",
    "stage_delete",
    "stage_fragments",
    "stage_index",
    "stage_indexes",
    "stage_insert",
    "stage_overwrite",
    "stage_rewritten",
    "stage_upsert",
    "table_delta",
    "tag_file",
    "version_file",
    "write_rows",
]
