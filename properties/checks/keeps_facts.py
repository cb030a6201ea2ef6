"""The metamorphic facts hold between a kernel's own answers."""

from cumae.properties.checks.facts import FACTS
from cumae.properties.checks.trial import Trial, quiet_case
from cumae.properties.running.observe import Bench
from cumae.properties.verdict import Finding


def keeps_facts(trial: Trial) -> Finding | None:
    """Call on related cases inside the domain and compare the answers with each other."""
    base = trial.quiet.case
    for fact in FACTS.values():
        cases = fact.relate(base)
        if not cases or any(trial.binding.domain.why_not(case) for case in cases):
            continue
        answers = [
            Bench(trial.binding, quiet_case(case, base.layout.garbage), trial.device).observe()
            for case in cases
        ]
        broken = fact.broken(base, trial.first.outputs, [answer.outputs for answer in answers])
        if broken is not None:
            return Finding("keeps_facts", broken, fact.rule)
    return None
