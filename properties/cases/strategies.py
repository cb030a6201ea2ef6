"""The Hypothesis strategy for cases."""

from collections.abc import Collection, Sequence

from hypothesis import strategies as st

from cumae.oracle import Case
from cumae.properties.cases.choices import HypothesisChoices
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.draws import draw_case
from cumae.properties.cases.features import NAMES


def cases(
    *, domain: Domain | None = None, features: Collection[str] = NAMES, sizes: Sequence[int] = ()
) -> st.SearchStrategy[Case]:
    """Return a strategy for valid cases of a domain; they shrink towards few requests and short lengths.

    ``features``: the options and layout facts that may differ from their neutral value. ``sizes``: lengths
    that are preferred now and then. Raises ``ValueError``
    for an unknown feature.
    """
    unknown = set(features) - NAMES
    if unknown:
        raise ValueError(f"features = {sorted(unknown)}, must be among {', '.join(sorted(NAMES))}")
    chosen = domain or Domain()

    @st.composite
    def drawn(draw: st.DrawFn) -> Case:
        return draw_case(HypothesisChoices(draw, sizes), chosen, features)

    return drawn()
