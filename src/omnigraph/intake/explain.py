"""Says what a load would do with its inputs. Of files only headers are read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.catalog import EdgeType, Entity
from omnigraph.errors import BadRequestError
from omnigraph.intake.csv_files import csv_header
from omnigraph.intake.inputs import Input, as_arrow
from omnigraph.intake.records import open_input
from omnigraph.limits import HEADER_BYTES_MAX
from omnigraph.store import readable
from omnigraph.wording import counted

_WORDS = {
    "jsonl": "envelopes, JSONL",
    "records": "records, JSONL",
    "csv": "CSV",
    "parquet": "Parquet",
    "frame": "frame",
    "graphml": "GraphML",
}


def explain_inputs(inputs: Sequence[Input]) -> list[dict[str, Any]]:
    """Return, for each use of files, what becomes of their columns; as plain JSON data."""
    plans: list[dict[str, Any]] = []
    for item in inputs:
        plan = _plan(item)
        same = next((other for other in plans if _alike(other, plan)), None)
        if same is None:
            plans.append(plan)
        else:
            same["files"] += plan["files"]
            same["size_bytes"] += plan["size_bytes"]
    return plans


def _alike(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    varying = ("files", "size_bytes")
    return all(one.get(key) == other.get(key) for key in {*one, *other} if key not in varying)


def _plan(item: Input) -> dict[str, Any]:
    plan: dict[str, Any] = {
        "type": None if item.entity is None else item.entity.name,
        "form": item.form,
        "files": [item.label],
        "size_bytes": item.size_bytes,
    }
    if item.entity is None:
        return plan
    reading, header = item.reading, _header(item)
    if item.form == "csv":
        plan["delimiter"] = reading.csv.delimiter
    if reading.shape.where is not None:
        plan["where"] = reading.shape.where
    plan["properties"] = dict(_origins(item, item.entity, header))
    if header is not None:
        plan["missing"] = _missing(item, header)
        plan["unknown"] = _unknown(item, item.entity, header)
    if reading.duplicates != "refuse":
        plan["duplicates"] = reading.duplicates
    return plan


def _origins(item: Input, entity: Entity, header: list[str] | None) -> Iterator[tuple[str, str]]:
    """Yield where each property comes from."""
    shape = item.reading.shape
    said = {target: f"column {path}" for path, target in shape.columns}
    said |= dict(shape.computed)
    said |= {name: f"constant {json.dumps(value, default=str)}" for name, value in shape.constants}
    ends = [item.reading.from_col, item.reading.to_col] if isinstance(entity, EdgeType) else []
    for name in ["id", *ends, *entity.properties]:
        declared = entity.properties.get(name)
        otherwise = None if declared is None or declared.default is None else "default"
        if name in said:
            yield name, said[name]
        elif header is None:
            yield name, f"member {name}, if there"
        elif name in header:
            yield name, f"column {name}"
        elif declared is not None:
            yield name, otherwise or ("null" if not declared.required else "nothing: required")


def _missing(item: Input, header: Sequence[str]) -> list[str]:
    """Return columns the mapping names that the file lacks."""
    shape = item.reading.shape
    named = {path for path, _target in shape.columns} | shape.reads()
    return sorted(name for name in named if not {name, name.split(".")[0]} & set(header))


def _unknown(item: Input, entity: Entity, header: Sequence[str]) -> list[str]:
    """Return columns of the file that the load would refuse."""
    shape = item.reading.shape
    if shape.ignored is True:
        return []
    named = {path for path, _target in shape.columns} | shape.reads()
    used = {
        *named,
        *(name.split(".")[0] for name in named),
        *item.reading.known(entity, events=True),
    }
    ignored = () if isinstance(shape.ignored, bool) else shape.ignored
    return [name for name in header if name not in used and name not in ignored]


def _header(item: Input) -> list[str] | None:
    """Return the columns of an input; records of JSON have none."""
    if item.form == "csv":
        with open_input(item.path) as handle:
            return csv_header(handle, item.reading.csv, HEADER_BYTES_MAX)
    if item.form == "parquet":
        try:
            return list(pq.read_schema(readable(item.path)).names)
        except pa.ArrowInvalid as error:
            raise BadRequestError(f"{item.path} is not a Parquet file: {error}") from error
    if item.form == "frame":
        columns = getattr(item.data, "columns", None)
        if hasattr(item.data, "mapInArrow") and columns is not None:
            return list(columns)
        return list(as_arrow(item.data).column_names)
    return None


def plan_text(plans: Sequence[dict[str, Any]]) -> str:
    """Return plans as people read them."""
    lines: list[str] = []
    for plan in plans:
        files = plan["files"]
        shown = files[0] if len(files) == 1 else f"{counted(len(files), 'file')}, {files[0]}, ..."
        lines.append(f"{plan['type'] or 'any type'} <- {shown} ({_WORDS[plan['form']]})")
        if "where" in plan:
            lines.append(f"  where {plan['where']}")
        width = max((len(name) for name in plan.get("properties", {})), default=0)
        lines += [
            f"  {name:<{width}} <- {text}" for name, text in plan.get("properties", {}).items()
        ]
        if plan.get("duplicates"):
            lines.append(f"  of several records of an entity the {plan['duplicates']} counts")
        for key, words in (("missing", "not in the file"), ("unknown", "not used by the type")):
            if plan.get(key):
                lines.append(f"  {words}: {', '.join(plan[key])}")
    return "\n".join(lines)
