"""The text of fixture files as they are installed."""

from importlib.resources import files


def installed(operation: str) -> str:
    return files("cumae.fixtures").joinpath(f"{operation}.json").read_text(encoding="utf-8")
