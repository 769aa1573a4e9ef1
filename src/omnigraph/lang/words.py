"""The words of both languages, with a sentence on each: for help at the cursor and highlighting."""

from __future__ import annotations

from typing import Final

QUERY_KEYWORDS: Final = {
    "query": "Begins a query: `query name($parameter: Type) { ... }`.",
    "match": "Describes a pattern: bindings, traversals and conditions, all of which must hold.",
    "return": "Says which columns a query returns: `return { $p.name, count(*) as n }`.",
    "distinct": "Merges equal rows, or counts equal values once: `count(distinct $p)`.",
    "order": "Sorts the result: `order { $p.name, n desc }`.",
    "limit": "Keeps at most so many rows.",
    "offset": "Leaves so many rows out at the begin of the result.",
    "as": "Names a column: `count(*) as n`.",
    "asc": "Sorts the smallest first, as is usual.",
    "desc": "Sorts the largest first.",
    "not": "Denies a condition; `not { ... }` asks that a pattern has no solution.",
    "optional": "A pattern that may have no solution: its variables are null then.",
    "exists": "Whether a pattern has a solution: `exists { $p knows $q }`.",
    "and": "True when both conditions are.",
    "or": "True when one of the conditions is.",
    "in": "Whether a list holds a value: `$p.team in $teams`.",
    "contains": "Whether a list holds a value, or a text a part.",
    "starts_with": "Whether a text begins with a part.",
    "is": "Asks for null: `$p.born is null`, `$p.born is not null`.",
    "insert": "Writes a new node or edge: `insert Person { slug: $slug }`.",
    "new": "`insert new` refuses a key that is there already.",
    "upsert": "Writes a node and keeps the properties that are not named, if its key is there.",
    "update": "Changes rows: `update Person set { name: $name } where slug = $slug`.",
    "set": "Names the properties that an update changes.",
    "where": "Says which rows an update or a delete is about.",
    "delete": "Removes rows: `delete Person where slug = $slug`.",
}
QUERY_CONSTANTS: Final = {
    "true": "The Bool that holds.",
    "false": "The Bool that does not hold.",
    "null": "No value. Only to assign; ask with `is null`.",
}
QUERY_FUNCTIONS: Final = {
    "count": "Counts rows (`count(*)`), values, or the solutions of a pattern: `count { ... }`.",
    "sum": "The sum of a number over the rows of a group.",
    "avg": "The mean of a number over the rows of a group.",
    "min": "The least value of a group.",
    "max": "The greatest value of a group.",
    "now": "The instant the query started, in UTC.",
    "date": 'A Date: `date("2025-03-01")`.',
    "datetime": 'A DateTime: `datetime("2025-03-01T10:00:00Z")`.',
    "object": "A node or an edge with all its properties, as one value.",
    "type": "The name of the type of a node or an edge: `type($e)`.",
    "length": "How many hops a shortest path has: `$a $w:knows{1,6} $b`, `length($w)`.",
    "nodes": "The ids of the nodes on a shortest path, in order: `nodes($w)`.",
    "search": "Whether a text holds at least one of some words: `search($d.body, $words)`.",
    "fuzzy": "Whether a text holds a word but for a few letters: `fuzzy($p.name, $name, 2)`.",
    "match_text": "Whether a text holds words next to each other: `match_text($d.body, $words)`.",
    "bm25": "How well a text matches words; larger is better.",
    "nearest": "Ranks by the distance of a vector: `nearest($d.embedding, $v, cosine)`.",
    "rrf": "Joins two rankings into one: `rrf(nearest(...), bm25(...))`.",
}
QUERY_ANNOTATIONS: Final = {
    "description": 'Documents the query: `@description("...")`.',
    "instruction": 'Guides programs that use the query: `@instruction("...")`.',
}

SCHEMA_KEYWORDS: Final = {
    "node": "Declares a node type: `node Person { slug: String @key }`.",
    "edge": "Declares an edge type: `edge Knows: Person -> Person`.",
    "interface": "Declares properties that node types take over with `implements`.",
    "implements": "Names the interfaces whose properties a node type has.",
    "enum": "A String with one of these values: `enum(open, done)`.",
}
SCHEMA_CONSTRAINTS: Final = {
    "key": "The value identifies a node; writing it again means the same node.",
    "unique": "No two rows have the same value. In a body: `@unique(a, b)`.",
    "index": "Asks for an index, which never changes a result. In a body: `@index(a, b)`.",
    "range": "Bounds a number: `@range(age, 0..150)`.",
    "check": 'A text has to match an RE2 pattern: `@check(code, "^[A-Z]+$")`.',
}
SCHEMA_ANNOTATIONS: Final = {
    "default": "The value a new row gets when it is left out: `@default(0)`.",
    "language": "The language of a text, which decides what its words are: `@language(german)`.",
    "embed": "The vector is made from a String property: `@embed(body)`.",
    "description": 'Documents a type or a property: `@description("...")`.',
    "instruction": 'Guides programs that use the type: `@instruction("...")`.',
    "rename_from": 'The name it had before, so that rows are kept: `@rename_from("Old")`.',
    "card": "Bounds the number of edges that leave one node: `@card(0..1)`.",
}
SCALARS: Final = {
    "String": "Text.",
    "Bool": "`true` or `false`.",
    "I32": "A whole number of 32 bits.",
    "I64": "A whole number of 64 bits.",
    "U32": "A whole number of 32 bits, not negative.",
    "U64": "A whole number of 64 bits, not negative.",
    "F32": "A number with 32-bit precision.",
    "F64": "A number with 64-bit precision.",
    "Date": "A day: `2025-03-01`.",
    "DateTime": "An instant in UTC: `2025-03-01T10:00:00Z`.",
    "Blob": "Bytes, kept beside the row.",
    "Vector": "A vector of numbers with so many dimensions: `Vector(384)`.",
}
