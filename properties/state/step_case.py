"""The case of an engine's step: its requests, in buffers that keep their shapes from step to step."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from cumae.oracle import Batch, Case, Layout, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.state.setting import BUCKETS, Setting


class StepCases:
    """Turn rows of requests into cases. ``num_blocks``: one more than the largest block id of the engine."""

    def __init__(self, setting: Setting, domain: Domain, features: Collection[str], num_blocks: int) -> None:
        self._setting = setting
        self._domain = domain
        self._features = features
        self._num_blocks = num_blocks

    def case_of(self, rows: Sequence[Request | None], *, hidden: bool) -> Case:
        """Return the case of a step. None marks a vacated row; ``hidden``: the host has no lengths."""
        by_row = "row_index" in self._features
        indices: list[int] = []
        requests: list[Request] = []
        for row in range(max((row for row, r in enumerate(rows) if r is not None), default=-1) + 1):
            request = rows[row] or Request(0, 0)
            shown = request.query_len > 0 or self._domain.empty_requests
            if shown and not (by_row and rows[row] is None):
                indices.append(row)
                requests.append(request)
        if by_row and indices:
            turn = sum(request is not None for request in rows) % len(indices)
            indices, requests = indices[turn:] + indices[:turn], requests[turn:] + requests[:turn]
        setting = self._setting
        batch = Batch(tuple(requests), setting.block_size, setting.world)
        layout = self._layout(batch, tuple(indices) if by_row else None, hidden)
        return Case(batch, layout, setting.options)

    def _layout(self, batch: Batch, row_index: tuple[int, ...] | None, hidden: bool) -> Layout:
        """Return the layout that keeps the buffer shapes of the steps before."""
        setting, sizes, features = self._setting, self._setting.sizes, self._features
        padded = next(b for b in BUCKETS if b >= batch.num_tokens) if setting.buckets else batch.num_tokens
        count = len(batch.requests)
        most_rows = max([count, *(row + 1 for row in row_index or ())])
        pads = self._domain.padding != "none"
        num_padding_requests = sizes.num_rows + 1 - count if pads else 0
        widest = max((len(request.block_ids) for request in batch.requests), default=0)
        largest = max((max(request.block_ids, default=-1) for request in batch.requests), default=-1)
        longest = max((request.context_len for request in batch.requests), default=0)
        room = next(b for b in BUCKETS if b >= sizes.budget)
        by_slot = pads and "num_padding_slots" in features
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
            row_index=row_index,
            host_lens=not (hidden and "host_lens" in features),
        )

    def _key_slack(self, batch: Batch) -> int:
        scope = self._setting.options.keys.key_scope
        num_keys = sum(r.seq_len for r in batch.requests if scope == "all" or r.phase == "prefill")
        return self._setting.sizes.num_rows * self._setting.most_tokens - num_keys
