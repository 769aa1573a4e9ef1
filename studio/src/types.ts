/** What the API answers, as far as the page reads it. */

import type { Json, Row } from "./api";

export interface WhoAmI {
  actor: string | null;
  authenticated: boolean;
  version: string;
  serves_one_graph: boolean;
  graphs: { graph_id: string; uri: string }[];
}

export interface Commit {
  graph_commit_id: string;
  graph_branch: string | null;
  manifest_version: number;
  parent_commit_id: string | null;
  merged_parent_commit_id: string | null;
  actor_id: string | null;
  created_at: number;
  kind: string;
  operation_id?: string;
  message?: string;
}

export interface BranchHead {
  name: string;
  head: Commit;
  ahead: number;
  behind: number;
  details: { parent: string | null };
}

export interface CommitGraph {
  commits: Commit[];
  heads: Record<string, string>;
  tags: { name: string; branch: string; graph_commit_id: string | null }[];
  next_page_token?: string;
}

export interface PropertyInfo {
  name: string;
  type: string;
  scalar: string;
  nullable: boolean;
  is_list: boolean;
  enum_values?: string[];
  vector_dim?: number;
  key: boolean;
  unique: boolean;
  indexed: boolean;
  description?: string;
}

export interface TypeInfo {
  name: string;
  kind: "node" | "edge";
  properties: PropertyInfo[];
  key: string[];
  label: string;
  implements: string[];
  constraints: string[];
  source?: string;
  target?: string;
  cardinality?: string;
}

export interface Schema {
  graph_commit_id: string;
  schema_hash: string;
  schema_source: string | null;
  types: TypeInfo[];
}

export interface ColumnType {
  name: string;
  kind: string;
  item_kind?: string;
  nullable: boolean;
  entity?: { kind: "node" | "edge"; type_name: string };
}

export interface Diagnostic {
  severity: "error" | "warning" | "info";
  code: string;
  message: string;
  line: number;
  column: number;
  span: [number, number];
  hint?: string;
}

export interface Parameter {
  name: string;
  kind: string;
  item_kind?: string;
  nullable: boolean;
}

export interface StoredQuery {
  name: string;
  mutation: boolean;
  description?: string;
  params: Parameter[];
}

export interface LintedQuery {
  name: string;
  mutation: boolean;
  ok: boolean;
  parameters: Parameter[];
  columns: ColumnType[];
}

export interface LintReport {
  ok: boolean;
  diagnostics: Diagnostic[];
  queries: LintedQuery[];
  findings: { severity: string; message: string }[];
}

export interface PictureNode {
  type: string;
  id: string;
  label: string;
  data: Row;
}

export interface PictureEdge {
  edge: string;
  id: string;
  source_type: string;
  from: string;
  target_type: string;
  to: string;
}

export interface Subgraph {
  graph_commit_id: string;
  nodes: PictureNode[];
  edges: PictureEdge[];
  truncated: boolean;
}

export interface ReadOutput {
  query_name: string;
  row_count: number;
  columns?: string[];
  column_types?: ColumnType[];
  rows: Row[];
  graph?: Subgraph;
  graph_commit_id?: string;
  explain?: {
    plan: string[];
    row_count: number;
    ms: number;
    stages: { step: string; rows: number; estimated_rows: number | null; ms: number }[];
  };
}

export interface EdgeCount {
  edge: string;
  direction: "out" | "in";
  other: string;
  count: number;
}

export interface Neighbour extends PictureNode {
  edge: string;
  direction: "out" | "in";
  edge_id: string;
  edge_data: Row;
}

export interface NeighbourPage {
  graph_commit_id: string;
  type: string;
  id: string;
  label: string;
  counts: EdgeCount[];
  neighbours: Neighbour[];
  next_page_token?: string;
}

export interface Image {
  type?: string;
  edge?: string;
  from?: string;
  to?: string;
  data?: Row;
  properties?: Row;
  endpoints?: { from: string; to: string };
  [name: string]: Json | Row | undefined;
}

export interface EntityChange {
  kind: "node" | "edge";
  type: { id: string; name: string };
  id: string;
  op: "insert" | "update" | "delete";
  before?: Image;
  after?: Image;
}

export interface ChangesPage {
  changes: EntityChange[];
  summary?: Record<string, { insert: number; update: number; delete: number }>;
  next_page_token?: string;
}

export interface Conflict {
  table_key: string;
  row_id: string | null;
  kind: string;
  message: string;
  base: Image | null;
  ours: Image | null;
  theirs: Image | null;
}

export interface MergePlan {
  source: string;
  target: string;
  outcome: string;
  base_commit_id: string | null;
  changes: { table_key: string; id: string; op: string; after?: Image | null }[];
  merge_conflicts: Conflict[];
}

export interface EntityHistory {
  type: string;
  id: string;
  complete: boolean;
  versions: {
    commit: Commit;
    op: "insert" | "update" | "delete";
    before: Image | null;
    after: Image | null;
  }[];
}

export interface SchemaChange {
  supported: boolean;
  steps: { type: string; affected_rows?: number; [name: string]: Json | undefined }[];
  notes: string[];
  problems: { message?: string; [name: string]: Json | undefined }[];
  render?: string;
}

export interface Snapshot {
  manifest_version: number;
  commit: Commit;
  tables: { table_key: string; row_count: number }[];
}

export interface PendingWrite {
  slot: string;
  owner_alive: boolean;
  writer_kind: string | null;
  actor_id: string | null;
  branch: string | null;
  tables: string[];
}

export interface Recoveries {
  pending: PendingWrite[];
  recoveries: {
    graph_commit_id: string;
    recovery_kind: string;
    recovery_for_actor: string | null;
    sidecar_writer_kind: string;
    created_at: number;
  }[];
}

export interface TableHealth {
  table_key: string;
  rows: number;
  fragments: number;
  files: number;
  bytes: number;
  indexes: number;
  missing_indexes: string[];
  uncovered_rows: number;
}

export interface OptimizeReport {
  branch: string;
  commit: Commit | null;
  tables: {
    table_key: string;
    fragments_removed: number;
    fragments_added: number;
    committed: boolean;
    pending_indexes: { column: string; kind: string; reason: string }[];
    skipped?: string;
  }[];
}

export interface RepairReport {
  tables: {
    table_key: string;
    manifest_version: number;
    lance_head_version: number;
    classification: string;
    action: string;
  }[];
}

export interface CleanupReport {
  dry_run: boolean;
  tables: {
    table_key: string;
    old_versions_removed: number;
    bytes_removed: number;
    error?: string;
  }[];
}

export interface ParquetContent {
  rows: number;
  columns: { name: string; type: string; first: string | null }[];
}
