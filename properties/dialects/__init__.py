"""How engines name and hold what their kernels get, one engine a file."""

from cumae.properties.dialects.cumae import CUMAE
from cumae.properties.dialects.dialect import Dialect, Input, NamedOutput
from cumae.properties.dialects.held import Held, Ints, Rows

DIALECTS = {dialect.name: dialect for dialect in (CUMAE,)}

__all__ = ["CUMAE", "DIALECTS", "Dialect", "Held", "Input", "Ints", "NamedOutput", "Rows"]
