"""Blind spots of attention: entries that may be wrong without changing any output, and why."""

from cumae.properties.attention.blind_spots.chunks import CHUNKS
from cumae.properties.attention.blind_spots.pages import PAGES
from cumae.properties.attention.blind_spots.rows import ROWS
from cumae.properties.attention.blind_spots.selections import SELECTIONS
from cumae.properties.attention.blind_spots.spot import BlindSpot

__all__ = ["BLIND_SPOTS", "BlindSpot"]

BLIND_SPOTS = (*ROWS, *PAGES, *CHUNKS, *SELECTIONS)
