"""Words of texts in files beside the tables, so that a new process need not find them again.

A file holds what `build_text_segment` makes of one column of some fragments. Its name says of which
data files and which column, and by which rules texts are split; data files never change, so what
a file says stays true. It is derived from the rows: one that is missing, damaged or of other rules
is passed over, and the rows are read instead.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from numpy.typing import NDArray

from omnigraph.limits import SEGMENT_ROWS_MIN, WORD_FILE_BYTES_MAX, WORD_FILE_ROWS_MIN
from omnigraph.read.segments import Kept, Segments
from omnigraph.read.text import TextSegment, build_text_segment
from omnigraph.read.words import rules_of
from omnigraph.store import FragmentGroup, Pin, Table, Tables, count, fragment_groups
from omnigraph.store.upkeep.kept import pack, read_kept
from omnigraph.store.upkeep.words import WordsHead, data_files_of, word_file, words_head

_ARRAYS = {
    "offsets": "<i8",
    "rows": "<i4",
    "places": "<i4",
    "lengths": "<i4",
    "present": "?",
    "addresses": "<u8",
    "letters": "u1",
    "ends": "<i4",
}


class WordFiles(Struct, frozen=True):
    """Reads and writes the words of texts in a language, of the tables of one graph."""

    tables: Tables
    language: str

    def load(self, table: Table, group: FragmentGroup, name: str) -> Kept[TextSegment] | None:
        """Return the words of a column of some fragments, None where no file says them."""
        if not _is_worth(group):
            return None
        field, rules = table.field_id(name), rules_of(self.language)
        kept = read_kept(self.tables.files, word_file(self.tables, table, group, field, rules))
        head = words_head(kept)
        if kept is None or head is None:
            return None
        if (head.rules, head.field, head.key) != (rules, field, group.key):
            return None
        arrays = kept.arrays(_ARRAYS)
        if arrays is None:
            return None
        count("word_files_read")
        return _decoded(head.signature, arrays)

    def save(self, table: Table, group: FragmentGroup, name: str, kept: Kept[TextSegment]) -> None:
        """Write the words of a column of some fragments."""
        if kept.value.size_bytes > WORD_FILE_BYTES_MAX:
            return
        field, rules = table.field_id(name), rules_of(self.language)
        head = WordsHead(
            rules=rules,
            field=field,
            key=group.key,
            signature=kept.signature,
            data_files=data_files_of(group),
        )
        path = word_file(self.tables, table, group, field, rules)
        # Not synced: one that a crash leaves half-written has a wrong checksum.
        self.tables.files.replace(path, pack(head, _encoded(kept)), sync=False)


def keep_words(tables: Tables, pin: Pin, name: str, language: str) -> None:
    """Write the words of a column of a table version that no file says yet."""
    files = WordFiles(tables, language)
    build = partial(build_text_segment, language=language)
    table = tables.open(pin.path, pin.version)
    for group in fragment_groups(table, rows_min=SEGMENT_ROWS_MIN):
        if _is_worth(group) and files.load(table, group, name) is None:
            kept = Segments.computed(table, group, name, build)
            files.save(table, group, name, kept)


def _is_worth(group: FragmentGroup) -> bool:
    """Whether finding the words again takes long enough to matter."""
    return sum(fragment.physical_rows for fragment in group.fragments) >= WORD_FILE_ROWS_MIN


def _encoded(kept: Kept[TextSegment]) -> dict[str, bytes]:
    words = kept.value
    # In the order of their numbers, which is that in which they were found.
    spelled = [word.encode() for word in words.words]
    arrays: dict[str, NDArray[Any]] = {
        "offsets": words.offsets,
        "rows": words.rows,
        "places": words.places,
        "lengths": words.lengths,
        "present": words.present,
        "addresses": kept.addresses,
        "letters": np.frombuffer(b"".join(spelled), np.uint8),
        "ends": np.cumsum([0, *map(len, spelled)]),
    }
    return {
        name: np.ascontiguousarray(arrays[name], kind).tobytes() for name, kind in _ARRAYS.items()
    }


def _decoded(signature: str, arrays: dict[str, NDArray[Any]]) -> Kept[TextSegment]:
    ends, letters = pa.py_buffer(arrays["ends"]), pa.py_buffer(arrays["letters"])
    spelled = pa.StringArray.from_buffers(len(arrays["ends"]) - 1, ends, letters).to_pylist()
    words = TextSegment(
        words={word: number for number, word in enumerate(spelled)},
        offsets=arrays["offsets"],
        rows=arrays["rows"],
        places=arrays["places"],
        lengths=arrays["lengths"],
        present=arrays["present"],
    )
    return Kept(signature, arrays["addresses"], words)
