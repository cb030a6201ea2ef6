"""Exact comparison of whole buffers, element by element."""

from dataclasses import replace

from cumae.oracle import Case
from cumae.properties.comparing.cause import cause_of_numbers, likely_cause
from cumae.properties.comparing.difference import about_output, difference, with_strays
from cumae.properties.comparing.evidence import cause_of_extent, evidence, read_output
from cumae.properties.comparing.judged import wrong_answer
from cumae.properties.comparing.masks import Mask, elements, never_written, unwritten, wrong_elements
from cumae.properties.dialects.held import ITEM_BYTES
from cumae.properties.operations import KEEP, Expected
from cumae.properties.operations.binding import Binding
from cumae.properties.operations.items import is_padding
from cumae.properties.results.verdict import Finding
from cumae.properties.running.observation import Observation

CAST = "if the engine casts what the function returns, the test has to cast it, too"
"""A likely cause of a wrong dtype."""


def wrong_values(
    check: str,
    binding: Binding,
    seen: Observation,
    expected: dict[str, Expected],
    case: Case | None = None,
) -> Finding | None:
    """Return the first written element that differs from the oracle's value, or a wrong dtype or shape.

    The ``case`` that was run allows causes that need more than the values.
    """
    for name, words in seen.outputs.items():
        want = expected[name]
        if name in seen.mistyped:
            what = f"has dtype {seen.dtypes[name]}, must have {seen.mistyped[name]}"
            return replace(about_output(check, binding, name, what), cause=CAST)
        if words.shape != want.words.shape:
            found = _wrong_shape(check, binding, name, seen, want)
            return replace(found, cause=read_output(binding, seen, expected))
        if name in seen.cut:
            needed = want.is_specified.nonzero()[0]
            if needed.size and needed[-1] >= seen.cut[name]:
                what = f"has {seen.cut[name]} elements, must have at least {needed[-1] + 1}"
                return about_output(check, binding, name, what)
        differs = wrong_elements(seen, name, want)
        if differs.any():
            cause = read_output(binding, seen, expected)
            cause = cause or likely_cause(*evidence(binding, seen, name, want, case))
            if not cause and case is not None and words.ndim > 1:
                item_bytes = ITEM_BYTES[binding.forms[name].dtype_for(case)]
                rounds = _rounds(binding, case)
                cause = cause_of_numbers(want.words[differs], words[differs], item_bytes, rounds=rounds)
            what = "differs from the oracle"
            found = difference(check, binding, name, differs, want.words, words, what, cause)
            found = with_strays(found, seen)
            return found if case is None else replace(found, rows=looked_up_rows(binding, case))
    return None if case is None else wrong_answer(check, binding, seen, expected, case)


def _rounds(binding: Binding, case: Case) -> bool:
    """Return whether numbers of a case are converted, and not only copied."""
    options, features = case.options, binding.operation.features
    of_rows = "power_of_two_scales" in features and options.rows.row_format == "fp8"
    return of_rows or ("key_scale_thousandths" in features and options.heads.is_scaled)


def _wrong_shape(check: str, binding: Binding, name: str, seen: Observation, want: Expected) -> Finding:
    shapes = dict.fromkeys(seen.shapes.get(name, (want.words.shape,)))
    must = " or ".join(str(list(shape)) for shape in shapes)
    return about_output(check, binding, name, f"has shape {list(seen.outputs[name].shape)}, must have {must}")


def looked_up_rows(binding: Binding, case: Case) -> tuple[int, ...]:
    """Return the table row of each request; empty if it is the index, or the operation reads no table."""
    rows = binding.dialect.table_rows(case)
    looked_up = "row_index" in binding.operation.features and rows != list(range(len(rows)))
    return tuple(rows) if looked_up else ()


def wrong_extent(
    check: str,
    binding: Binding,
    first: Observation,
    second: Observation,
    expected: dict[str, Expected],
    case: Case | None = None,
) -> Finding | None:
    """Return the first element that was not written but must be, or was written but must not be.

    Other content before the second call shows elements that got a wrong value which was there already.
    """
    for name in first.outputs:
        if name not in second.outputs:
            return about_output(check, binding, name, "was not returned by a second call")
        if name in first.opaque:
            continue
        want, words = expected[name], first.outputs[name]
        if words.shape != want.words.shape or second.outputs[name].shape != words.shape:
            return _wrong_shape(check, binding, name, first, want)
        missing = never_written(first, second, name, want)
        if missing.any():
            cause = read_output(binding, first, {name: want})
            cause = cause or cause_of_extent(binding, name, missing, case, "is left as it was")
            what = "was never written"
            if binding.domain.padding == "written" and _is_all_padding(binding, name, missing, case):
                promise = "any" if _writes_padding(binding, first, second, case) else "untouched"
                what += f"; Domain(padding={promise!r}) leaves it open"
            found = difference(check, binding, name, missing, want.words, words, what, cause)
            found = with_strays(found, first)
            found = found if case is None else replace(found, rows=looked_up_rows(binding, case))
            return replace(found, actual="the value from before the call")
        hidden = wrong_elements(second, name, want) & elements(unwritten(first, name))
        if hidden.any():
            what = "differs from the oracle"
            return difference(check, binding, name, hidden, want.words, second.outputs[name], what, "")
        kept = unwritten(first, name) & unwritten(second, name)
        excess = elements(~kept) & (want.state == KEEP)
        if excess.any() and name not in binding.returned:
            cause = cause_of_extent(binding, name, excess, case, "is written")
            what = "was written and must keep what it held"
            is_padded = _is_promised_padding(binding, name, excess, case)
            if is_padded:
                what += "; Domain(padding='any') leaves it open"
            elif not cause and not binding.forms[name].is_in_place:
                what += "; Domain(keeps=False) leaves it open"
            one = max(first, second, key=lambda seen: int((excess & elements(~unwritten(seen, name))).sum()))
            where = excess & elements(~unwritten(one, name))
            return difference(check, binding, name, where, one.before[name], one.outputs[name], what, cause)
    return None


def _writes_padding(binding: Binding, first: Observation, second: Observation, case: Case | None) -> bool:
    """Return whether a function wrote to padding of an output, of which it may leave other padding."""
    if case is None:
        return False
    for name in first.outputs:
        if name not in first.opaque and name in second.outputs and name not in binding.returned:
            written = elements(~(unwritten(first, name) & unwritten(second, name)))
            if (written & is_padding(binding.forms[name], case, len(written))).any():
                return True
    return False


def _is_all_padding(binding: Binding, name: str, where: Mask, case: Case | None) -> bool:
    """Return whether all of some elements lie in padding, whose other elements may be as wrong."""
    return case is not None and not (where & ~is_padding(binding.forms[name], case, len(where))).any()


def _is_promised_padding(binding: Binding, name: str, where: Mask, case: Case | None) -> bool:
    """Return whether some elements lie in padding that is promised to keep its values."""
    if binding.domain.padding != "untouched":
        return False
    return case is None or bool((where & is_padding(binding.forms[name], case, len(where))).any())


def changed(
    check: str, binding: Binding, base: Observation, other: Observation, live: dict[str, Mask], because: str
) -> Finding | None:
    """Return the first specified element in which two observations of one case differ."""
    for name, words in base.outputs.items():
        if name not in other.outputs:
            return about_output(check, binding, name, f"was not returned {because}")
        found = other.outputs[name]
        if found.shape != words.shape:
            return about_output(check, binding, name, f"changed its shape {because}")
        if len(words) != len(live[name]):
            continue  # a wrong shape: `agrees` reports it
        differs = elements(words != found) & live[name]
        if differs.any():
            return difference(check, binding, name, differs, words, found, f"changed {because}")
    return None
