"""One entity by its type and id."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from omnigraph.catalog import Entity, Scalar
from omnigraph.errors import NotFoundError
from omnigraph.graph.acting import Acting
from omnigraph.graph.targets import At
from omnigraph.ops.export import export_rows

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def entity_image(
    acting: Acting, table_key: str, entity_id: str, at: At
) -> dict[str, object] | None:
    """Return an entity as its envelope, as it was at a state; None when it did not exist."""
    state = acting.state(at)
    if table_key not in state.pins:
        raise NotFoundError(f"no table {table_key} at graph version {state.version}")
    pin = state.pins[table_key]
    table = acting.engine.tables.open(pin.path, pin.version)
    catalog = acting.engine.schema_of(state.head.schema_hash).catalog
    return next(export_rows(catalog, table_key, table, only_id=entity_id), None)


def get_entity(acting: Acting, type_name: str, entity_id: str, at: At) -> dict[str, Any] | None:
    """Return an entity as it was at a state, as values of Python; None when it did not exist."""
    state = acting.state(at)
    catalog = acting.engine.schema_of(state.head.schema_hash).catalog
    entity = catalog.entity_named(type_name)
    pin = state.pins[entity.table_key]
    table = acting.engine.tables.open(pin.path, pin.version)
    image = next(export_rows(catalog, entity.table_key, table, only_id=entity_id), None)
    return python_entity(entity, image)


def python_entity(entity: Entity, image: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return an envelope as one flat mapping: the id, the ends of an edge, values of Python."""
    if image is None:
        return None
    ends = {name: image[name] for name in ("from", "to") if name in image}
    data = image["data"]
    fields = {"id": data["id"], **ends}
    for item in entity.properties.values():
        if item.name in data:
            fields[item.name] = _python(data[item.name], item.type.scalar)
    return fields


def _python(value: object, scalar: Scalar) -> object:
    if isinstance(value, list):
        return [_python(item, scalar) for item in value]
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    try:
        if scalar is Scalar.DATE:
            return (_EPOCH + datetime.timedelta(days=value)).date()
        if scalar is Scalar.DATETIME:
            return _EPOCH + datetime.timedelta(milliseconds=value)
    except OverflowError:
        return value  # outside the years 1 to 9999, which only an older release could store
    return value
