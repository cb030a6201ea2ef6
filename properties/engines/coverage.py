"""The released functions that adapters run, as a table in Markdown."""

from cumae.properties.engines.released import ENGINES, engine_of

HEAD = "| file | functions | operations | adapters |\n|---|---|---|---|"


def covered() -> str:
    """Return a table for each engine: its files, and which of their functions run under which operation."""
    parts: list[str] = []
    for name in ENGINES:
        engine = engine_of(name)
        rows: dict[str, tuple[set[str], set[str], list[str]]] = {}
        for adapter in engine.adapters.values():
            functions, operations, adapters = rows.setdefault(adapter.file, (set(), set(), []))
            operation = adapter.operation if isinstance(adapter.operation, str) else adapter.operation.name
            functions.update(adapter.names)
            operations.add(operation)
            adapters.append(adapter.name)
        lines = [
            f"| {file} | {_listed(functions)} | {_listed(operations)} | {len(adapters)} |"
            for file, (functions, operations, adapters) in sorted(rows.items())
        ]
        title = f"### {name} {', '.join(engine.versions)}: {len(engine.adapters)} adapters"
        parts.append("\n".join([title, "", HEAD, *lines]))
    return "\n\n".join(parts)


def functions_of(engine: str) -> set[str]:
    """Return the definitions that an engine's adapters take."""
    return {name for adapter in engine_of(engine).adapters.values() for name in adapter.names}


def _listed(names: set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
