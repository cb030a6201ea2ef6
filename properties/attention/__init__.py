"""Attention as the judge of all metadata: computed through them, it equals dense attention."""

from cumae.properties.attention.answers import Answer, answer_of
from cumae.properties.attention.judge import Fault, Judged, error_bound, judge, judged

__all__ = ["Answer", "Fault", "Judged", "answer_of", "error_bound", "judge", "judged"]
