"""Promises given as text, as on a command line: ``NAME=VALUE``, with a Python literal as VALUE."""

from ast import literal_eval
from collections.abc import Sequence
from typing import Any

from cumae.oracle.model.rules import require
from cumae.properties.cases.domain import require_promise


def given_promises(texts: Sequence[str], field: str) -> dict[str, Any]:
    """Return the values of promises by name. ``field``: the name of the texts in an error.

    Raises ``ValueError`` for a text of another form, for an unknown promise, and for one given twice.

    >>> given_promises(["padding='none'", "topk=(8, 2048)"], "--promise")
    {'padding': 'none', 'topk': (8, 2048)}
    """
    promises: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        rule = "be NAME=VALUE with a Python literal, in quotes of the shell: \"padding='none'\""
        require(bool(equals) and name.isidentifier(), field, text, rule)
        try:
            literal = literal_eval(value.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            require(False, field, text, rule)
        require_promise(name, literal)
        require(name not in promises, field, text, f"be given once for {name}")
        promises[name] = literal
    return promises
