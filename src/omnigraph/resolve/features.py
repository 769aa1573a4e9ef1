"""What rules look at in a node, computed once per node: keys of blocks, and forms of its values.

Arrow and NumPy only; a process and the workers of a cluster call the same functions.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.limits import RESOLVE_PREFIX_LENGTH
from omnigraph.resolve.rules import Comparison, Key, Rules

ID = "id"
_SEPARATOR = "\x1f"
_FORMS = {
    "exact": "value",
    "vector": "value",
    "normalised": "text",
    "edit": "text",
    "words": "words",
}
"""What comparisons look at."""


def wanted_columns(rules: Rules) -> list[str]:
    """Return the columns that features are made of."""
    keys = [key.property for block in rules.keys for key in block]
    return list(dict.fromkeys([ID, *keys, *(item.property for item in rules.compare)]))


def key_column(number: int) -> str:
    """Return the name of the feature that holds the keys of a block."""
    return f"key{number}"


def value_column(item: Comparison) -> str:
    """Return the name of the feature that a comparison looks at."""
    return f"{_FORMS[item.by]}:{item.property}"


def features(rows: pa.Table | pa.RecordBatch, rules: Rules) -> pa.Table:
    """Return ids, keys and compared values of a table or batch of nodes as a table."""
    table = pa.table(rows) if isinstance(rows, pa.RecordBatch) else rows
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    plain: dict[str, pa.Array] = {}

    def text(name: str) -> pa.Array:
        if name not in plain:
            plain[name] = normalised(columns[name])
        return plain[name]

    arrays = {ID: columns[ID]}
    for number, block in enumerate(rules.keys):
        parts = [_key(columns[key.property], key, text) for key in block]
        arrays[key_column(number)] = (
            parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, _SEPARATOR)
        )
    for item in rules.compare:
        name, form = item.property, _FORMS[item.by]
        own = columns[name] if form == "value" else text(name)
        arrays[value_column(item)] = _sorted_words(own) if form == "words" else own
    return pa.table(arrays)


def normalised(texts: pa.Array) -> pa.Array:
    """Return texts without case, accents, marks and punctuation, single-spaced; empty is null."""
    plain = pc.utf8_lower(pc.utf8_normalize(texts, form="NFKD"))
    plain = pc.replace_substring_regex(plain, pattern=r"\pM+", replacement="")
    plain = pc.replace_substring_regex(plain, pattern=r"[^\pL\pN]+", replacement=" ")
    plain = pc.utf8_trim_whitespace(plain)
    return pc.if_else(pc.equal(plain, ""), pa.scalar(None, plain.type), plain)


def _key(column: pa.Array, key: Key, text: Callable[[str], pa.Array]) -> pa.Array:
    if key.by == "exact":
        return pc.cast(column, pa.string())
    texts = text(key.property)
    if key.by == "prefix":
        return pc.utf8_slice_codeunits(texts, 0, key.length or RESOLVE_PREFIX_LENGTH)
    if key.by == "initials":
        return pc.replace_substring_regex(texts, pattern=r"(\S)\S*\s*", replacement=r"\1")
    if key.by == "words":
        return _sorted_words(texts)
    return texts


def _sorted_words(texts: pa.Array) -> pa.Array:
    """Return the distinct words of each text in alphabetical order."""
    words = (
        None if text is None else " ".join(sorted(set(text.split()))) for text in texts.to_pylist()
    )
    return pa.array(words, pa.string())
