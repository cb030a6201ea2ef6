"""Parameters that keep a default get nothing: a report names those that the dialect knows."""

from pathlib import Path

import torch

from cumae import Domain, check, explain
from cumae.properties.running.device import prepare
from cumae.properties.tests.helpers.command_line import cumae

prepare("auto")
TOLD = "  never passed, because of a default: block_size, row_index, inputs or outputs of cumae"
DOMAIN = Domain(captured=False, min_requests=1, all_but=("never_synchronises",))


def positions(
    context_lens: torch.Tensor,
    query_lens: torch.Tensor,
    num_requests: int,
    block_size: int = 16,
    row_index: None = None,
    tile: int = 1024,
) -> torch.Tensor:
    lens = zip(context_lens[:num_requests].tolist(), query_lens[:num_requests].tolist(), strict=True)
    return torch.cat([torch.arange(start, start + count) for start, count in lens])


def test_an_agreeing_verdict_names_them() -> None:
    verdict = check(positions, "position_ids", domain=DOMAIN.having(padding="none"), examples=5, save_to=None)
    assert verdict.ok and TOLD in explain(verdict).splitlines(), explain(verdict)


def test_a_report_names_them() -> None:
    def wrong(context_lens: torch.Tensor, num_requests: int, block_size: int = 16) -> torch.Tensor:
        return context_lens[:num_requests].long() + 1

    told = explain(check(wrong, "position_ids", domain=DOMAIN, examples=5, save_to=None)).splitlines()
    assert "  never passed, because of a default: block_size, an input or output of cumae" in told, told


def test_the_command_names_them(tmp_path: Path) -> None:
    promises = "padding='none'", "min_requests=1", "all_but=('never_synchronises',)"
    target = "cumae.properties.tests.results.test_unpassed:positions"
    agrees = [text for promise in promises for text in ("--promise", promise)]
    run = cumae("fuzz", target, "--op", "position_ids", "--cases", "3", *agrees, cwd=tmp_path)
    assert run.returncode == 0, run.stdout
    assert f"positions: {TOLD.strip()}" in run.stdout.splitlines()
