"""A verdict in words: what differs, where, by which rule, drawn, and one line that shows it again."""

from itertools import accumulate

from cumae.oracle import Case, Inputs
from cumae.properties.reports.drawing import draw
from cumae.properties.verdict import Failure, Finding, Verdict


def explain(verdict: Verdict) -> str:
    """Return the report of a verdict; one line where everything agreed."""
    if verdict.failure is None:
        return summary(verdict)
    failure, finding = verdict.failure, verdict.failure.finding
    lines = [
        f"{verdict.target} disagrees with {verdict.operation}: {finding.check}",
        "",
        f"  {finding.message}",
    ]
    if finding.expected:
        lines += [f"    expected {finding.expected}", f"    actual   {finding.actual}"]
    place = _place(finding, failure.case)
    if place:
        lines.append(f"    at {place}")
    if finding.total:
        lines.append(f"    {finding.count} of {finding.total} elements differ")
    lines += [f"  rule: {finding.rule}", ""]
    lines += [f"  smallest case found ({_count(failure)}):", draw(failure.case, _wrong_tokens(finding)), ""]
    lines += _held(failure.case)
    if failure.file is not None:
        lines += ["", f"  reproduce: cumae replay {failure.file}"]
    return "\n".join(lines)


def summary(verdict: Verdict) -> str:
    """Return one line: status, comparisons and speed."""
    rate = verdict.cases / verdict.seconds if verdict.seconds else 0.0
    counts = f"{verdict.cases} cases, {verdict.comparisons} comparisons"
    counts += f", {verdict.seconds:.1f} s, {rate:.0f} cases/s"
    extra = f", {verdict.not_promised} not promised" if verdict.not_promised else ""
    return f"{verdict.status}: {verdict.target} ({counts}{extra})"


def _count(failure: Failure) -> str:
    requests = len(failure.case.batch.requests)
    return f"{requests} request{'' if requests == 1 else 's'}, found after {failure.found_after} cases"


def _place(finding: Finding, case: Case) -> str:
    """Return the request, token and block an index belongs to."""
    if finding.index < 0:
        return ""
    requests = case.batch.requests
    if finding.axis in ("token", "slot"):
        starts = [0, *accumulate(request.query_len for request in requests)]
        for b, request in enumerate(requests):
            if starts[b] <= finding.index < starts[b + 1]:
                position = request.context_len + finding.index - starts[b]
                column = position // case.batch.tokens_per_block
                block = f", block {request.block_ids[column]}"
                return f"token {finding.index}: request {b}, position {position}{block}"
        return f"token {finding.index}: padding, the step has {case.batch.num_tokens} tokens"
    if finding.axis == "key_row":
        return _key_place(finding.index, case)
    if finding.axis == "request_start":
        return f"entry {finding.index} of {len(requests)} requests ({case.num_requests_padded} padded)"
    return ""


def _key_place(row: int, case: Case) -> str:
    starts = Inputs(case)["cu_seqlens_k"]
    for b, request in enumerate(case.batch.requests):
        if starts[b] <= row < starts[b + 1]:
            position = row - starts[b]
            kind = "cached" if position < request.context_len else "new"
            return f"key row {row}: request {b}, position {position}, {kind}"
    return f"key row {row}: behind the last key, {starts[-1]}"


def _wrong_tokens(finding: Finding) -> tuple[int, ...]:
    return finding.wrong if finding.axis in ("token", "slot") else ()


def _held(case: Case) -> list[str]:
    """Return the parts of layout and options that are not neutral, as text."""
    lines = []
    for name, record in (("layout", case.layout), ("options", case.options)):
        kind = type(record)
        odd = [
            f"{field}={getattr(record, field)!r}"
            for field in kind.__dataclass_fields__
            if getattr(record, field) != getattr(kind(), field)
        ]
        if odd:
            lines.append(f"  {name}: {', '.join(odd)}")
    if case.batch.world > 1:
        lines.append(f"  world: {case.batch.world} ranks")
    return lines
