"""Operations and the table of them."""

from cumae.properties.operations.operation import FREE, KEEP, VALUE, Expected, Operation, Output
from cumae.properties.operations.table import OPERATIONS

__all__ = ["FREE", "KEEP", "OPERATIONS", "VALUE", "Expected", "Operation", "Output"]
