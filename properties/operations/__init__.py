"""Operations and the table of them."""

from cumae.properties.operations.operation import FREE, KEEP, VALUE, Axis, Expected, Operation, Output
from cumae.properties.operations.table import OPERATIONS

__all__ = ["FREE", "KEEP", "OPERATIONS", "VALUE", "Axis", "Expected", "Operation", "Output"]
