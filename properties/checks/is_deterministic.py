"""Two launches give the same bits; in the interpreter also in another program order."""

from cumae.properties.checks.compare import changed
from cumae.properties.checks.trial import Trial
from cumae.properties.verdict import Finding


def is_deterministic(trial: Trial) -> Finding | None:
    """Call again as before, then in the interpreter with the programs of each launch in another order."""
    base = trial.first
    live = {name: trial.live(name) for name in base.outputs}
    several = base.watch is not None and base.watch.most_programs > 1
    orders: list[int | None] = [None, 1] if several else [None]
    for order in orders:
        because = "in a second launch" if order is None else "when programs ran in another order"
        found = changed("is_deterministic", trial.binding, base, trial.again(order), live, because)
        if found is not None:
            return found
    return None
