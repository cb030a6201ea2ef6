"""Operations and the table of them."""

from cumae.properties.operations.operation import (
    FREE,
    JUDGED,
    KEEP,
    UNORDERED,
    VALUE,
    Expected,
    Operation,
    Output,
)
from cumae.properties.operations.table import OPERATIONS

__all__ = ["FREE", "JUDGED", "KEEP", "OPERATIONS", "UNORDERED", "VALUE", "Expected", "Operation", "Output"]
