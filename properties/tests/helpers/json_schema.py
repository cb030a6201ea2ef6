"""A reader of JSON Schema for the keywords that our schema uses; any other keyword is an error."""

import re
from collections.abc import Callable, Iterator
from typing import Any

Schema = dict[str, Any]
TYPES: dict[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "object": (dict,),
    "string": (str,),
}
ANNOTATIONS = {"$defs", "$schema", "default", "title"}
CLOSED = {"additionalProperties", "items"}  # read together with the keywords beside them


def faults(value: Any, schema: Schema | bool, whole: Schema, path: str = "file") -> list[str]:
    """Return the places at which a JSON value breaks a schema, with the keyword that it breaks."""
    if isinstance(schema, bool):
        return [] if schema else [f"{path}: nothing may stand here"]
    found: list[str] = []
    for keyword, rule in schema.items():
        if keyword in READERS:
            holds = READERS[keyword](value, rule)
            found += [] if holds else [f"{path}: {keyword} {rule}"]
        elif keyword == "$ref":
            found += faults(value, whole["$defs"][rule.removeprefix("#/$defs/")], whole, path)
        elif keyword in ("oneOf", "anyOf"):
            fitting = sum(not faults(value, part, whole, path) for part in rule)
            found += [] if fitting == 1 or (fitting and keyword == "anyOf") else [f"{path}: {keyword}"]
        elif keyword not in {*ANNOTATIONS, *CLOSED, "properties", "prefixItems", "propertyNames"}:
            raise NotImplementedError(f"{path}: this reader knows no keyword {keyword}")
    for place, part, rule in inner(value, schema):
        found += faults(part, rule, whole, f"{path}{place}")
    return found


def inner(value: Any, schema: Schema) -> Iterator[tuple[str, Any, Schema | bool]]:
    """Yield the values inside of a list or an object, each with the schema that it must keep."""
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        for i, part in enumerate(value):
            yield f"[{i}]", part, first[i] if i < len(first) else schema.get("items", True)
    if isinstance(value, dict):
        for name, part in value.items():
            yield f".{name}", name, schema.get("propertyNames", True)
            named = schema.get("properties", {})
            yield f".{name}", part, named.get(name, schema.get("additionalProperties", True))


def is_number(value: Any) -> bool:
    return type(value) in (int, float)


READERS: dict[str, Callable[[Any, Any], bool]] = {
    "type": lambda value, rule: type(value) in TYPES[rule],
    "const": lambda value, rule: type(value) is type(rule) and value == rule,
    "enum": lambda value, rule: any(type(value) is type(one) and value == one for one in rule),
    "minimum": lambda value, rule: not is_number(value) or value >= rule,
    "maximum": lambda value, rule: not is_number(value) or value <= rule,
    "pattern": lambda value, rule: not isinstance(value, str) or re.search(rule, value) is not None,
    "required": lambda value, rule: not isinstance(value, dict) or all(name in value for name in rule),
    "minItems": lambda value, rule: not isinstance(value, list) or len(value) >= rule,
    "uniqueItems": lambda value, rule: (
        not isinstance(value, list) or len(set(map(repr, value))) == len(value)
    ),
}
