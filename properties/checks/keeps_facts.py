"""The metamorphic facts hold between a kernel's own answers."""

import numpy as np

from cumae.oracle import Case, Inputs
from cumae.properties.batches.domain import Domain
from cumae.properties.checks.facts import FACTS, Answer
from cumae.properties.checks.trial import Trial, quiet_case
from cumae.properties.running.binding import Binding
from cumae.properties.running.observation import Observation
from cumae.properties.verdict import Finding


def keeps_facts(trial: Trial) -> Finding | None:
    """Call on related cases inside the domain and compare the answers with each other."""
    base, first_seen = trial.quiet.case, trial.first
    for fact in FACTS.values():
        cases = fact.relate(base)
        if not cases or any(trial.binding.domain.why_not(case) for case in cases):
            continue
        if trial.is_over():
            return None
        garbage = base.layout.garbage
        answers = [
            trial.bench(quiet_case(case, garbage), "on a case related to it").observe() for case in cases
        ]
        if any(seen.is_misshapen for seen in (first_seen, *answers)):
            continue  # `agrees` tells
        pairs = zip((base, *cases), (first_seen, *answers), strict=True)
        first, *others = [_by_own_name(trial.binding, case, seen) for case, seen in pairs]
        broken = fact.broken(base, first, others)
        if broken is not None:
            return Finding("keeps_facts", broken, fact.rule)
    return None


def related_cases(case: Case, domain: Domain) -> list[Case]:
    """Return the cases inside a domain that some fact relates to a case."""
    cases = [other for fact in FACTS.values() for other in fact.relate(case)]
    return [other for other in cases if domain.why_not(other) is None]


def _by_own_name(binding: Binding, case: Case, seen: Observation) -> Answer:
    """Return outputs by the names that facts know; what says nothing of the operation's own is left out.

    Of a router they know the experts of each row, in order, where one selection is right, else -1; weights
    may depend on the place of a row, as what is computed in vectors does at their ends. Slots that may stand
    in any order are sorted in each row.
    """
    theirs = binding.dialect.outputs_of(binding.operation.name)
    named = {name: theirs[name].says if name in theirs else name for name in seen.outputs}
    found = {named[name]: words for name, words in seen.outputs.items() if named[name]}
    if binding.operation.rights is not None and "expert_ids" in found:
        experts = np.sort(found["expert_ids"].reshape(-1, case.options.top_k), axis=1)
        experts[np.array(binding.operation.rights(Inputs(case))) != 1] = -1
        found["expert_ids"] = experts
        found.pop("expert_weights", None)
    for output in binding.operation.outputs:
        if output.unordered and output.name in found:
            rows = found[output.name].reshape(-1, case.options.topk)
            found[output.name] = np.sort(rows, axis=1).ravel()
    return found
