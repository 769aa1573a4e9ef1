"""Reads YAML strictly: one document, no repeated keys, no aliases, and text stays text.

Only `true`, `false`, `null` and numbers are not text; `yes`, `on` or a date are. Who writes
a name gets a name.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from omnigraph.limits import YAML_BYTES_MAX

_RESOLVED = {
    "tag:yaml.org,2002:bool": (re.compile(r"(?:true|false)\Z"), "tf"),
    "tag:yaml.org,2002:null": (re.compile(r"(?:null|~|)\Z"), "n~\0"),
    "tag:yaml.org,2002:int": (re.compile(r"[-+]?[0-9]+\Z"), "-+0123456789"),
    "tag:yaml.org,2002:float": (
        re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z"),
        "-+.0123456789",
    ),
}


class YamlError(ValueError):
    """The text is not the YAML that is read here; `line` counts from 1, 0 when unknown."""

    def __init__(self, message: str, *, line: int = 0, duplicate_key: bool = False) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.line = line
        self.duplicate_key = duplicate_key


def parse_yaml(text: str) -> object:
    """Return the data a text describes. Raises `YamlError`."""
    import yaml

    size = len(text.encode("utf-8", errors="surrogatepass"))
    if size > YAML_BYTES_MAX:
        raise YamlError(f"{size} bytes exceed the limit of {YAML_BYTES_MAX}")
    try:
        return yaml.load(text, Loader=_loader(yaml))  # noqa: S506 - a safe loader, made stricter
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 0
        raise YamlError(error.problem or "not valid YAML", line=line) from error
    except YamlError:
        raise
    except RecursionError as error:
        raise YamlError("nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:
        raise YamlError(str(error).splitlines()[0]) from error


def _loader(yaml: Any) -> type[object]:  # noqa: ANN401 - the library carries no types
    """Return the class that reads; made on demand, for the library is imported late."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # the library carries no types
        yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}

        def compose_node(self, parent: object, index: object) -> object:
            if self.check_event(yaml.AliasEvent):
                line = self.peek_event().start_mark.line + 1
                raise YamlError("aliases are not read here; write the value out", line=line)
            return super().compose_node(parent, index)

        def construct_mapping(
            self,
            node: Any,  # noqa: ANN401
            deep: bool = False,
        ) -> dict[str, object]:
            seen: set[str] = set()
            for key, _value in node.value:
                line = key.start_mark.line + 1
                if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                    raise YamlError("a key must be text; quote it", line=line)
                if key.value in seen:
                    raise YamlError(f"the key '{key.value}' is repeated", line=line,
                                    duplicate_key=True)  # fmt: skip
                seen.add(key.value)
            mapping: dict[str, object] = super().construct_mapping(node, deep)
            return mapping

    for tag, (pattern, starts) in _RESOLVED.items():
        Loader.add_implicit_resolver(tag, pattern, ["" if c == "\0" else c for c in starts])
    return Loader
