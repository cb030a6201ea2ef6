"""Operations: their table, and the expected content of their outputs."""

from cumae.properties.operations.expected import FREE, JUDGED, KEEP, UNORDERED, VALUE, Expected
from cumae.properties.operations.operation import Operation
from cumae.properties.operations.table import OPERATIONS, operation_named, shipped_kernels

__all__ = [
    "FREE",
    "JUDGED",
    "KEEP",
    "OPERATIONS",
    "UNORDERED",
    "VALUE",
    "Expected",
    "Operation",
    "operation_named",
    "shipped_kernels",
]
