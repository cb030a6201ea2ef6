"""Variants of a case: laid out in another way, with other garbage, at larger offsets."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

from cumae.oracle import DENSE, Case, GarbageKind, Inputs, Layout
from cumae.oracle.model.rules import INT32_MAX
from cumae.properties.cases.exclusions import leaves_out, one_of
from cumae.properties.cases.narrower import SMALL_ID
from cumae.properties.cases.promises import far_rows
from cumae.properties.dialects import Ints
from cumae.properties.operations import OPERATIONS, Operation
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.enlarged import (
    elements_of_block,
    has_large_slots,
    large_slots,
    with_small_slots,
    within_pool,
    without_empty,
)

HAS_CACHE = frozenset({"row_format", "head_format"})
"""Features of the operations with caches of keys and values."""


def quiet_case(case: Case, garbage: GarbageKind, **others: Any) -> Case:
    """Return the case with dense tensors, the given don't-care fill, and others of its layout's fields."""
    layout = case.layout
    if layout.garbage == garbage and all(getattr(layout, n) == v for n, v in {**DENSE, **others}.items()):
        return case
    return case.laid_out(**DENSE, garbage=garbage, **others)


def enlarged_cases(binding: Binding, case: Case) -> Iterator[Case]:
    """Yield the case at offsets beyond 2^31 elements.

    Slots stay within the promised range, and within the dtypes of the function's inputs. A function that
    promises strides is not run on thousands of requests: gaps between rows reach the same offsets. A table
    has no more columns than the longest promised request has tokens. Under a promised largest block id, ids
    are raised that far, but not those of caches, which would be large in vain.
    """
    enlarge, domain = enlarging(binding.operation), binding.domain
    longest = domain.max_context_len + domain.max_query_len
    for large in enlarge(case) if enlarge is not None else ():
        if domain.strided and len(large.batch.requests) > len(case.batch.requests):
            continue
        if large.layout.min_table_columns > longest:
            continue
        is_own = binding.operation.name not in OPERATIONS
        may_not_fit = is_own or has_large_slots(large)  # other inputs of shipped ones are made to fit
        if not domain.large_slots or (may_not_fit and not _fits(binding, large)):
            large = with_small_slots(large)
        if _has_small_pool(binding) and domain.why_not(large) is not None:
            large = within_pool(large, domain.max_block_id)
            if raised_by(case, large) <= 0:
                continue
        yield large if domain.empty_requests else without_empty(large)


def _has_small_pool(binding: Binding) -> bool:
    """Return whether a largest block id is promised of ids whose number makes no input larger."""
    if binding.domain.max_block_id == INT32_MAX or not binding.operation.features.isdisjoint(HAS_CACHE):
        return False
    return not any(binding.dialect.inputs[name].has_slots for name in binding.inputs)


def _fits(binding: Binding, case: Case) -> bool:
    """Return whether int32 inputs hold the values of a case; maps of all slots are not made."""
    inputs = Inputs(case)
    named = (binding.dialect.inputs[name] for name in binding.inputs)
    held = (one.hold(inputs) for one in named if not one.has_slots)
    narrow = (one.values for one in held if isinstance(one, Ints) and one.dtype == "int32")
    return all(not values.size or values.max() <= INT32_MAX for values in narrow)


def enlarging(operation: Operation) -> Callable[[Case], Iterator[Case]] | None:
    """Return what enlarges the cases of an operation; those of a user's own get large ids and far rows."""
    return (
        large_slots if operation.enlarge is None and operation.name not in OPERATIONS else operation.enlarge
    )


def raised_by(case: Case, enlarged: Case) -> int:
    """Return how much larger the block ids of the enlarged case are; added requests may precede its own."""
    pairs = zip(case.batch.requests[::-1], enlarged.batch.requests[::-1], strict=False)
    steps = (b - a for one, other in pairs for a, b in zip(one.block_ids, other.block_ids, strict=True))
    return max(steps, default=0)


def how_moved(case: Case, enlarged: Case) -> str:
    """Return in words how a case was moved to larger offsets."""
    by, columns, gaps = raised_by(case, enlarged), enlarged.layout.min_table_columns, gaps_of(enlarged.layout)
    told = f"when {by} is added to every block id" if by else "at offsets past 2^31"
    if columns:
        ahead = len(enlarged.batch.requests) - len(case.batch.requests)
        where = f"behind {ahead:,} requests without new tokens" if ahead else "in its last rows"
        told += f", in a table of {columns:,} columns, {where}"
    told += "; slots reach 2^31" if has_large_slots(enlarged) else ""
    return told + "".join(f"; {name} = {getattr(enlarged.layout, name):,}" for name in gaps)


def not_moved_by(binding: Binding, case: Case, enlarged: Case) -> str:
    """Return the promises under which a case is not moved so, as text; "" if there are none."""
    domain = binding.domain
    small = small_id(enlarged, binding.operation.features)
    by_id = raised_by(case, enlarged) and leaves_out(domain, "max_block_id", small, enlarged)
    promises = {
        "far_rows=False": bool(far_rows(enlarged)),
        "large_slots=False": domain.large_slots and has_large_slots(enlarged),
        f"max_block_id={small}": bool(by_id),
    }
    return one_of([f"Domain({told})" for told, helps in promises.items() if helps])


def small_id(case: Case, features: Collection[str]) -> int:
    """Return a largest block id to promise: a power of two less 1, whose block ends by 2^31 elements."""
    most = (INT32_MAX + 1) // elements_of_block(case, features)
    return min(SMALL_ID, 2 ** (most.bit_length() - 1) - 1) if most else 0


def gaps_of(layout: Layout) -> list[str]:
    """Return the fields of a layout that give a gap between rows or blocks."""
    return [name for name, value in layout.strides.items() if name.endswith("_gap") and value > 0]
