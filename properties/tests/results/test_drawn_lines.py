"""Lines of a drawing of requests that are idle, left out, or cut in the middle of a block."""

from cumae.oracle import Batch, Case, Request, leveled
from cumae.properties.results.drawing import draw
from cumae.properties.results.steps import draw_steps
from cumae.properties.results.verdict import Finding

LONG = Case(Batch((Request(0, 256, (0, 1)),), 192))


def test_a_step_counts_its_idle_requests() -> None:
    busy = Case(Batch((Request(2, 0, (0,)), Request(1, 1, (1,)), Request(0, 0)), 4))
    idle = Case(Batch((Request(2, 0, (0,)), Request(2, 0, (1,)), Request(0, 0)), 4))
    lines = [line.strip() for line in draw_steps(leveled([busy, idle])).splitlines()]
    assert "step 1 of 2: 1 token of 3 requests, 2 without new tokens" in lines
    assert "step 2 of 2: 0 tokens of 3 requests, 3 without new tokens" in lines


def test_one_request_that_is_left_out_is_one() -> None:
    batch = Batch(tuple(Request(0, 1, (b,)) for b in range(13)), 1)
    assert "  … 1 more request" in draw(Case(batch)).splitlines()


def test_a_block_is_drawn_once_however_often_it_is_cut() -> None:
    found = Finding("agrees", "", "", index=60, axis="token", wrong=(60, 120, 250))
    line, legend = draw(LONG, found).splitlines()[:2]
    assert line.count("|0:") == line.count("|1:") == 1
    assert line.count("✗") == 3 and "✗ wrong" in legend
    assert "✗" not in draw(LONG)
