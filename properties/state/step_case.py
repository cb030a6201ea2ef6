"""The case of an engine's step: its requests, in buffers that keep their shapes from step to step."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from cumae.oracle import Batch, Case, Layout, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.promises import PLACES, tokens_each
from cumae.properties.state.setting import BUCKETS, Setting


class Withhold(Protocol):
    """Returns requests that lack some of their blocks."""

    def __call__(self, *, requests: tuple[Request, ...]) -> tuple[Request, ...]:
        """Return the requests, with -1 in place of some blocks."""


class StepCases:
    """Turn rows of requests into cases. ``num_blocks``: one more than the largest block id of the engine."""

    def __init__(self, setting: Setting, domain: Domain, features: Collection[str], num_blocks: int) -> None:
        self._setting = setting
        self._domain = domain
        self._features = features
        self._num_blocks = num_blocks

    def case_of(
        self,
        rows: Sequence[Request | None],
        *,
        hidden: bool = False,
        padding: int = 0,
        withhold: Withhold | None = None,
    ) -> Case:
        """Return the case of a step. None marks a vacated row.

        ``hidden``: the host has no lengths. ``padding``: padding tokens of an engine without buckets, if
        there is room. ``withhold``: takes blocks away for this step, where the function sees that.
        """
        by_row = "row_index" in self._features
        # A vacated row would be a prefill without tokens.
        leaves_vacated = by_row or self._domain.only_decodes
        indices: list[int] = []
        requests: list[Request] = []
        for row in range(max((row for row, r in enumerate(rows) if r is not None), default=-1) + 1):
            request = rows[row] or Request(0, 0)
            shown = request.query_len > 0 or self._domain.empty_requests
            if shown and not (leaves_vacated and rows[row] is None):
                indices.append(row)
                requests.append(request)
        if by_row and indices:
            turn = sum(request is not None for request in rows) % len(indices)
            indices, requests = indices[turn:] + indices[:turn], requests[turn:] + requests[:turn]
        if self._domain.order != "any":
            place = PLACES[self._domain.order]
            turns = sorted(range(len(requests)), key=lambda i: place(requests[i]))
            indices, requests = [indices[i] for i in turns], [requests[i] for i in turns]
        setting = self._setting
        if withhold is not None and self._domain.missing_blocks and "missing_blocks" in self._features:
            requests = list(withhold(requests=tuple(requests)))
        if withhold is not None and by_row and indices and self._domain.rowless_requests:
            indices[sum(indices) % len(indices)] = -1
        batch = Batch(tuple(requests), setting.block_size, setting.world)
        layout = self._layout(batch, tuple(indices) if by_row else None, hidden, padding)
        return Case(batch, layout, setting.options)

    def _layout(self, batch: Batch, row_index: tuple[int, ...] | None, hidden: bool, padding: int) -> Layout:
        """Return the layout that keeps the buffer shapes of the steps before."""
        setting, sizes, features = self._setting, self._setting.sizes, self._features
        pads = self._domain.padding != "none"
        padded = batch.num_tokens
        if setting.buckets:
            padded = next(b for b in BUCKETS if b >= batch.num_tokens)
        elif pads:
            padded += max(0, min(padding, sizes.budget - batch.num_tokens))
        count = len(batch.requests)
        most_rows = max([count, *(row + 1 for row in row_index or ())])
        most = min(sizes.num_rows + 1, self._domain.max_requests)
        num_padding_requests = max(most - count, 0) if pads else 0
        if self._domain.padded_together:
            each = tokens_each(batch)
            room = min(2 * sizes.num_rows + 1 - most_rows, self._domain.max_requests - count)
            num_padding_requests = max(min((padded - batch.num_tokens) // each, room), 0)
            padded = batch.num_tokens + num_padding_requests * each
        widest = max((_width(request) for request in batch.requests), default=0)
        largest = max((max(request.block_ids, default=-1) for request in batch.requests), default=-1)
        longest = max((request.context_len for request in batch.requests), default=0)
        room = next((bucket for bucket in BUCKETS if bucket >= sizes.budget), sizes.budget)
        by_slot = pads and "num_padding_slots" in features and not self._domain.padded_together
        return replace(
            setting.layout,
            num_padding_tokens=padded - batch.num_tokens,
            num_padding_requests=num_padding_requests,
            num_spare_rows=2 * sizes.num_rows + 1 - most_rows - num_padding_requests,
            num_spare_columns=sizes.blocks_each - widest,
            num_spare_blocks=self._num_blocks - 1 - largest,
            num_spare_tokens=room - padded,
            num_padding_slots=room - padded if by_slot and not setting.buckets else 0,
            key_slack=self._key_slack(batch) if "key_slack" in features else 0,
            context_slack=setting.most_tokens - longest,
            page_slack=self._page_slack(batch) if "page_slack" in features else 0,
            row_index=row_index,
            host_lens=not (hidden and "host_lens" in features),
        )

    def _key_slack(self, batch: Batch) -> int:
        """Return the slack that keeps the buffer of keys, or of windows, as long as the most tokens."""
        keys = self._setting.options.keys
        kept = (r.seq_len for r in batch.requests if keys.key_scope == "all" or r.phase == "prefill")
        num_keys = sum(min(seq_len, keys.window or seq_len) for seq_len in kept)
        return self._setting.sizes.num_rows * self._setting.most_tokens - num_keys

    def _page_slack(self, batch: Batch) -> int:
        """Return the slack that keeps the page table as wide as the widest table of blocks."""
        size = self._setting.options.blocks.kernel_block_size or batch.block_size
        most = self._setting.sizes.blocks_each * (batch.block_size // size)
        longest = max((request.seq_len for request in batch.requests), default=0)
        return most - -(-longest // (size * batch.world))


def _width(request: Request) -> int:
    """Return the table columns that a request needs: missing blocks at its end need none."""
    return max((column + 1 for column, block_id in enumerate(request.block_ids) if block_id >= 0), default=0)
