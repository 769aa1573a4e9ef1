"""Records of any form as events of change data capture."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Entity
from omnigraph.errors import BadRequestError
from omnigraph.intake.events import EventFrame
from omnigraph.intake.inputs import Reading
from omnigraph.intake.records import Records
from omnigraph.rows.problems import Problems


def event_frame(
    entity: Entity | None, reading: Reading, records: Records, problems: Problems, *, applies: bool
) -> EventFrame:
    """Return records as events; unless they apply, all are deletes."""
    if entity is None:
        raise BadRequestError("events have a type")
    frame, lines = reading.rows(entity, records, problems, events=True)
    sequence = reading.seq_col
    if records.texts and sequence in frame.column_names and sequence not in entity.properties:
        at = frame.column_names.index(sequence)
        frame = frame.set_column(at, sequence, _numbers(frame[sequence]))
    return EventFrame(
        entity=entity,
        frame=frame,
        lines=lines.tolist(),
        from_col=reading.from_col,
        to_col=reading.to_col,
        op_col=reading.op_col if applies else None,
        seq_col=sequence,
    )


def _numbers(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return what orders events of a CSV file as numbers, if all of it is: 10 comes after 9."""
    try:
        return pc.cast(texts, pa.int64())
    except pa.ArrowInvalid:
        return texts
