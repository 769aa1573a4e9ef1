"""Checks one property declaration: name, type, annotations, embedding and default."""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Iterable

from msgspec import Struct

from omnigraph.catalog import (
    FLOATS,
    INTEGERS,
    Annotation,
    Embedding,
    Property,
    PropertyType,
    Scalar,
    TypeKind,
    scalar_range,
)
from omnigraph.catalog.languages import LANGUAGES
from omnigraph.catalog.model import LiteralValue
from omnigraph.catalog.temporal import parse_date, parse_datetime
from omnigraph.lang.pg_ast import AnnotationSyntax, Argument, PropertySyntax, Value, Word
from omnigraph.lang.source import Diagnostics, Severity, Span, did_you_mean

ROW_COLUMNS = (
    "_rowid",
    "_rowaddr",
    "_rowoffset",
    "_row_created_at_version",
    "_row_last_updated_at_version",
)
RESERVED = {
    TypeKind.INTERFACE: ("id",),
    TypeKind.NODE: ("id",),
    TypeKind.EDGE: ("id", "src", "dst", "from", "to"),
}
LITERALS = ("true", "false", "null")
"""Words that a mutation's `where` takes for a value, so that no property may be meant by them."""

FLAGS = ("key", "unique", "index")
PROPERTY_ANNOTATIONS = (*FLAGS, "language", "embed", "default", "description", "rename_from")
TYPE_ANNOTATIONS = ("description", "instruction", "rename_from")


class DraftProperty(Struct, frozen=True, kw_only=True):
    """A checked property with the one-column constraints its annotations ask for."""

    checked: Property
    flags: frozenset[str]
    syntax: PropertySyntax

    @property
    def span(self) -> Span:
        """Where the property's name stands."""
        return self.syntax.name.span


def refuse_literal_name(
    syntax: PropertySyntax, kind: TypeKind, owner: str, diagnostics: Diagnostics
) -> None:
    """Refuse a new property named as a literal; a graph of an earlier release may have one."""
    name = syntax.name.text
    if name in LITERALS:
        diagnostics.error(
            "S03",
            syntax.name.span,
            f"property name `{name}` is reserved on {kind} {owner}",
            hint=f'it is a literal; a property of this name gets another by @rename_from("{name}")',
        )


def check_language(
    syntax: PropertySyntax, kind: TypeKind, owner: str, diagnostics: Diagnostics
) -> None:
    """Check `@language`; in a graph of an earlier release it may be anything, without effect."""
    where, declared = f"{owner}.{syntax.name.text}", syntax.type
    for item in syntax.annotations:
        if item.name.text != "language":
            continue
        text = item.argument.text if item.argument is not None else None
        if kind is TypeKind.EDGE:
            problem = f"@language is not supported on edge property {where}"
            diagnostics.error("S14", item.span, problem, hint="only nodes are searched by words")
        elif declared.scalar is not Scalar.STRING or declared.is_list or declared.enum_values:
            problem = f"@language on {where} needs a String property, got {declared}"
            diagnostics.error("S14", item.span, problem)
        elif text is None or item.keywords:
            problem = f"@language on {where} needs exactly one language"
            diagnostics.error("S14", item.span, problem, hint="@language(german)")
        elif text not in LANGUAGES:
            problem = f"@language on {where}: unknown language '{text}'"
            hint = did_you_mean(text, LANGUAGES) or f"one of {', '.join(LANGUAGES)}"
            diagnostics.error("S14", item.span, problem, hint=hint)


def check_property(
    syntax: PropertySyntax, kind: TypeKind, owner: str, diagnostics: Diagnostics
) -> DraftProperty:
    """Check one declaration; problems go to `diagnostics`, a usable draft always comes back."""
    name, declared = syntax.name.text, syntax.type
    if name in ROW_COLUMNS or name in RESERVED[kind]:
        diagnostics.error(
            "S03",
            syntax.name.span,
            f"property name `{name}` is reserved on {kind} {owner}",
            hint=f"every {'edge' if kind is TypeKind.EDGE else 'node'} has an implicit `{name}`"
            if name in RESERVED[kind]
            else "it names a storage column",
        )
    if declared.is_list and declared.scalar is Scalar.BLOB:
        diagnostics.error("S16", syntax.type_span, "a list of Blob is not supported")
    flags: set[str] = set()
    kept: list[Annotation] = []
    embedding: Embedding | None = None
    rename_from: str | None = None
    default: LiteralValue = None
    has_default = False
    seen: set[str] = set()
    for item in syntax.annotations:
        word = item.name.text
        if word in seen and word in PROPERTY_ANNOTATIONS:
            diagnostics.error("S14", item.span, f"{owner}.{name} declares @{word} multiple times")
            continue
        seen.add(word)
        check_keywords(item, diagnostics)
        if word in FLAGS:
            _check_flag(item, declared, kind, f"{owner}.{name}", diagnostics)
            flags.add(word)
        elif word == "embed":
            embedding = _embedding(item, declared, kind, f"{owner}.{name}", diagnostics)
        elif word == "default":
            default, has_default = _default(item, declared, f"{owner}.{name}", diagnostics)
        elif word == "rename_from":
            rename_from = single_text(item, diagnostics)
        else:
            kept.extend(_kept(item, f"{owner}.{name}", diagnostics))
    if has_default and "key" in flags and kind is not TypeKind.EDGE:
        diagnostics.error("S15", syntax.name.span, f"key property {owner}.{name} has a @default")
    return DraftProperty(
        checked=Property(
            name=name,
            type=declared,
            annotations=canonical(kept),
            embedding=embedding,
            default=default,
            has_default=has_default,
            rename_from=rename_from,
        ),
        flags=frozenset(flags),
        syntax=syntax,
    )


def _check_flag(
    item: AnnotationSyntax,
    declared: PropertyType,
    kind: TypeKind,
    where: str,
    diagnostics: Diagnostics,
) -> None:
    word = item.name.text
    code = "S08" if word == "key" else "S09"
    if item.argument is not None:
        diagnostics.error("S14", item.span, f"@{word} on {where} does not accept a value")
    if word == "key" and kind is TypeKind.EDGE:
        diagnostics.error(code, item.span, f"@key is not supported on edge property {where}")
    if declared.is_list:
        diagnostics.error(code, item.span, f"@{word} is not supported on list property {where}")
    elif declared.scalar is Scalar.VECTOR and word != "index":
        diagnostics.error(code, item.span, f"@{word} is not supported on vector property {where}")
    elif declared.scalar is Scalar.BLOB:
        diagnostics.error(code, item.span, f"@{word} is not supported on blob property {where}")


def _embedding(
    item: AnnotationSyntax,
    declared: PropertyType,
    kind: TypeKind,
    where: str,
    diagnostics: Diagnostics,
) -> Embedding | None:
    if kind is TypeKind.EDGE:
        diagnostics.error("S13", item.span, f"@embed is not supported on edge property {where}")
        return None
    if declared.scalar is not Scalar.VECTOR or declared.is_list:
        shape = "list" if declared.is_list else str(declared.scalar).lower()
        diagnostics.error(
            "S13",
            item.span,
            f"@embed is not supported on {shape} property {where}",
            hint="declare it as Vector(n)",
        )
        return None
    value = item.argument.value if item.argument is not None else None
    source = value.text if isinstance(value, Word) else value
    if not isinstance(source, str) or not source.strip():
        diagnostics.error(
            "S13", item.span, f"@embed on {where} needs the name of its source property"
        )
        return None
    model: str | None = None
    for key, argument in item.keywords:
        if key.text != "model":
            diagnostics.error(
                "S13",
                key.span,
                f"@embed on {where} has no argument `{key.text}`",
                hint="the only one is `model`",
            )
        elif not isinstance(argument.value, str) or not argument.value.strip():
            diagnostics.error("S13", argument.span, "`model` must be a non-blank string")
        else:
            model = argument.value
    return Embedding(source=source, model=model)


def check_keywords(item: AnnotationSyntax, diagnostics: Diagnostics) -> None:
    """Report every keyword argument that an annotation has already."""
    seen: set[str] = set()
    for key, _ in item.keywords:
        if key.text in seen:
            diagnostics.error(
                "S14", key.span, f"@{item.name.text} has argument `{key.text}` multiple times"
            )
        seen.add(key.text)


def canonical(annotations: Iterable[Annotation]) -> tuple[Annotation, ...]:
    """Return annotations in canonical order."""
    return tuple(sorted(annotations, key=lambda item: item.sort_key))


def single_text(item: AnnotationSyntax, diagnostics: Diagnostics) -> str | None:
    """Return the one non-blank text an annotation must carry, or report and return None."""
    is_list = item.argument is not None and isinstance(item.argument.value, tuple)
    text = "" if item.argument is None or is_list else item.argument.text
    if not text.strip() or item.keywords:
        diagnostics.error(
            "S14",
            item.span,
            f"@{item.name.text} needs exactly one non-blank string",
            hint=f'@{item.name.text}("...")',
        )
        return None
    return text


def _kept(item: AnnotationSyntax, where: str, diagnostics: Diagnostics) -> list[Annotation]:
    word = item.name.text
    if word == "description":
        text = single_text(item, diagnostics)
        return [] if text is None else [Annotation(name=word, value=text)]
    if word == "instruction":
        diagnostics.error("S14", item.span, f"@instruction is not supported on property {where}")
        return []
    if word in ("range", "check"):
        diagnostics.error(
            "S10" if word == "range" else "S11",
            item.span,
            f"@{word} requires property name and {'bounds' if word == 'range' else 'pattern'}",
            hint=f"write it in the body: @{word}({where.rpartition('.')[2]}, ...)",
        )
        return []
    if word == "card":
        diagnostics.error("S12", item.span, "@card belongs to the head of an edge declaration")
        return []
    if word != "language":
        warn_unknown(item, PROPERTY_ANNOTATIONS, diagnostics)
    return [keep_verbatim(item)]


def warn_unknown(item: AnnotationSyntax, known: tuple[str, ...], diagnostics: Diagnostics) -> None:
    """Warn that an annotation has no meaning here; typos would otherwise pass in silence."""
    if diagnostics.is_full(Severity.WARNING):
        return
    hint = did_you_mean(item.name.text, known)
    diagnostics.warning(
        "W01",
        item.span,
        f"unknown annotation @{item.name.text} is kept but has no effect",
        hint=hint.replace("`", "`@", 1) if hint else None,
    )


def keep_verbatim(item: AnnotationSyntax) -> Annotation:
    """Return an annotation as catalog data."""
    return Annotation(
        name=item.name.text,
        value=None if item.argument is None else item.argument.text,
        arguments=tuple(sorted((key.text, arg.text) for key, arg in item.keywords)),
    )


def _default(
    item: AnnotationSyntax, declared: PropertyType, where: str, diagnostics: Diagnostics
) -> tuple[LiteralValue, bool]:
    if item.argument is None or item.keywords:
        diagnostics.error("S15", item.span, f"@default on {where} needs exactly one literal")
        return None, False
    try:
        return _default_value(item.argument, declared), True
    except ValueError as error:
        diagnostics.error("S15", item.argument.span, f"@default on {where}: {error}")
        return None, False


def _default_value(argument: Argument, declared: PropertyType) -> LiteralValue:
    """Convert a written default to a value of its type. Raises `ValueError` with the reason."""
    if declared.scalar in (Scalar.VECTOR, Scalar.BLOB):
        raise ValueError(f"not supported for {declared}")
    # Enum values are spellings: `true`, `1` and even `null` can be one.
    if argument.text in declared.enum_values:
        return argument.text
    if declared.is_list and isinstance(argument.value, tuple):
        return tuple(_scalar_default(item, declared.element) for item in argument.value)
    return _scalar_default(argument.value, declared)


def _scalar_default(value: Value, declared: PropertyType) -> LiteralValue:
    scalar = declared.scalar
    if isinstance(value, Word) and value.text == "null":
        raise ValueError("null is what an absent value means already")
    if declared.is_list:
        raise ValueError(f"expected a list for {declared}")
    if declared.enum_values:
        raise ValueError(f"expected one of {', '.join(declared.enum_values)}")
    if isinstance(value, Word):
        raise ValueError(f'`{value.text}` is not a literal; write "{value.text}" for a string')
    if scalar is Scalar.BOOL and isinstance(value, bool):
        return value
    if isinstance(value, bool | tuple):
        raise ValueError(f"expected {declared}")
    if scalar in INTEGERS and isinstance(value, int):
        low, high = scalar_range(scalar)
        if not low <= value <= high:
            raise ValueError(f"{value} is outside the range of {scalar}")
        return value
    if scalar in FLOATS and isinstance(value, int | float):
        return _float_default(float(value), scalar)
    if isinstance(value, str):
        return _text_default(value, scalar)
    raise ValueError(f"expected {declared}")


def _float_default(value: float, scalar: Scalar) -> float:
    if scalar is Scalar.F32:
        try:
            value = float(struct.unpack("<f", struct.pack("<f", value))[0])
        except OverflowError as error:
            raise ValueError(f"{value} is outside the range of F32") from error
    if not math.isfinite(value):
        raise ValueError("expected a finite number")
    # Equal defaults look equal: adding zero leaves only one zero.
    return value + 0.0


def _text_default(value: str, scalar: Scalar) -> str | datetime.date:
    if scalar is Scalar.STRING:
        return value
    if scalar is Scalar.DATE:
        return parse_date(value)
    if scalar is Scalar.DATETIME:
        return parse_datetime(value)
    raise ValueError(f"expected {scalar}, got a string")
