"""Dialects: the names and formats in which engines pass kernel arguments, a folder for each engine."""

from typing import Literal

from cumae.oracle.model.rules import require_choice
from cumae.properties.dialects.cumae import CUMAE
from cumae.properties.dialects.dialect import Dialect, Input
from cumae.properties.dialects.fastdeploy.names import FASTDEPLOY
from cumae.properties.dialects.flashinfer.names import FLASHINFER
from cumae.properties.dialects.held import TENSORS, Floats, Held, Ints, Rows
from cumae.properties.dialects.output import Output, Piece
from cumae.properties.dialects.sglang.names import SGLANG
from cumae.properties.dialects.vllm.names import VLLM

DialectName = Literal["cumae", "fastdeploy", "flashinfer", "sglang", "vllm"]
DIALECTS = {dialect.name: dialect for dialect in (CUMAE, FASTDEPLOY, FLASHINFER, SGLANG, VLLM)}

__all__ = [
    "CUMAE",
    "DIALECTS",
    "FASTDEPLOY",
    "FLASHINFER",
    "SGLANG",
    "TENSORS",
    "VLLM",
    "Dialect",
    "DialectName",
    "Floats",
    "Held",
    "Input",
    "Ints",
    "Output",
    "Piece",
    "Rows",
    "dialect_named",
]


def dialect_named(dialect: str | Dialect) -> Dialect:
    """Return a dialect, or the one of a name. Raises ``ValueError`` for an unknown name."""
    if isinstance(dialect, Dialect):
        return dialect
    require_choice("dialect", dialect, tuple(DIALECTS))
    return DIALECTS[dialect]
