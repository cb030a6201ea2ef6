"""Attention as the validator of all metadata: computed through them, it must equal dense attention."""

from cumae.properties.attention.answers import Answer, answer_of
from cumae.properties.attention.judge import Fault, Judged, error_bound, judge, judged

__all__ = ["Answer", "Fault", "Judged", "answer_of", "error_bound", "judge", "judged"]
