"""The path of attention in torch, for cases of production size: the same routes over what kernels wrote."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cumae.oracle import Case
from cumae.properties.attention.answers import Answer, asked, right_answers
from cumae.properties.attention.step import streams_of

BLOCK_BYTES = 2**28


class Dims(NamedTuple):
    """Heads, latent values and rotated values of a row, as in MLA."""

    heads: int = 16
    latent: int = 512
    rope: int = 64


class LargeStep:
    """A case on one rank, uncompressed, its tokens and caches as tensors, and what the operations say."""

    def __init__(self, case: Case, answers: Mapping[str, Answer], device: str, dims: Dims) -> None:
        self.case, self.device, self.dims = case, device, dims
        self._answers, self._said = {**right_answers(), **answers}, dict[str, dict[str, Tensor]]()
        requests = case.batch.requests
        self.places = [(b, p) for b, r in enumerate(requests) for p in range(r.context_len, r.seq_len)]
        streams = [stream[:-1] for stream in streams_of(case.batch)]
        drawn = torch.Generator().manual_seed(1)
        shape = (max((t for stream in streams for t in stream), default=0) + 1, dims.latent + dims.rope)
        self._rows = (torch.rand(shape, generator=drawn, dtype=torch.float64) * 2 - 1).to(device)
        self.starts = [0]
        for stream in streams:
            self.starts.append(self.starts[-1] + len(stream))
        tokens = self.ints([token for stream in streams for token in stream])
        positions = self.ints([p for stream in streams for p in range(len(stream))])
        self.truth = self._rotated(self._rows[tokens], positions)
        self.live = self.ints([self.starts[b] + p for b, p in self.places])
        drawn_queries = torch.rand(len(self.live), dims.heads, shape[1], generator=drawn, dtype=torch.float64)
        queries = (drawn_queries * 4 - 2).to(device)
        self.true_queries = self._rotated(queries, positions[self.live])
        size = case.batch.block_size
        slots = [r.block_ids[p // size] * size + p % size for r in requests for p in range(r.context_len)]
        cached = [self.starts[b] + p for b, r in enumerate(requests) for p in range(r.context_len)]
        self.cache = torch.full((case.num_cache_blocks * size, shape[1]), torch.nan, device=device).double()
        self.cache[self.ints(slots)] = self.truth[self.ints(cached)]
        given = self.says("position_ids", "position_ids")
        self.new_rows = torch.full((case.num_tokens_padded, shape[1]), torch.nan, device=device).double()
        self.new_rows[: len(self.live)] = self._rotated(
            self._rows[tokens[self.live]], given[: len(self.live)]
        )
        self.queries = self._rotated(queries, given[: len(self.live)])
        written = self.says("slot_mapping", "slot_mapping")[: case.num_tokens_padded]
        kept = (written >= 0) & (written < len(self.cache))
        self.cache[written[kept]] = self.new_rows[kept]
        most = max((len(r.block_ids) for r in requests), default=0)
        self.table = self.ints([[*r.block_ids, *[0] * (most - len(r.block_ids))] for r in requests])

    def ints(self, values: Sequence[object]) -> Tensor:
        """Return integers on the device."""
        return torch.tensor(values, dtype=torch.int64, device=self.device)

    def says(self, operation: str, output: str) -> Tensor:
        """Return an output of an operation; of key rows the index in the cache, then in new rows."""
        if operation not in self._said:
            said = self._answers[operation](asked(operation, self.case, None, 0))
            self._said[operation] = {
                name: self.ints([self._number(v) for v in vs]) for name, vs in said.items()
            }
        return self._said[operation][output]

    def inputs(self, name: str) -> Any:
        """Return an input of the case."""
        return asked("topk_to_slots", self.case, None, 0)[name]

    def _number(self, value: object) -> int:
        match value:
            case ("cache", int(block), int(offset)):
                return block * self.case.batch.block_size + offset
            case ("new", int(row)):
                return len(self.cache) + row
        return value if isinstance(value, int) else -2

    def _rotated(self, rows: Tensor, positions: Tensor) -> Tensor:
        """Return rows whose last values are turned by their positions, pair by pair."""
        pairs = self.dims.rope // 2
        angle = positions.double()[:, None] * 10000.0 ** (-torch.arange(pairs, device=self.device) / pairs)
        angle = angle.reshape(len(rows), *[1] * (rows.dim() - 2), pairs)
        x, y = rows[..., self.dims.latent :: 2], rows[..., self.dims.latent + 1 :: 2]
        turned = torch.stack((x * angle.cos() - y * angle.sin(), x * angle.sin() + y * angle.cos()), dim=-1)
        return torch.cat((rows[..., : self.dims.latent], turned.flatten(-2)), dim=-1)

    def keys(self) -> Tensor:
        """Return the contiguous keys as ``prefix_interleave`` says; garbage where it says nothing."""
        everything = torch.cat(
            (self.cache, self.new_rows, self.new_rows.new_full((1, self.cache.shape[1]), torch.nan))
        )
        found = self.says("prefix_interleave", "keys")
        return everything[torch.where((found >= 0) & (found < len(everything)), found, len(everything) - 1)]

    def attend(self, queries: Tensor, rows: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs and log-sum-exps over the rows at ``index`` [queries, keys]; -1 is none.

        Rows that do not exist are garbage.
        """
        rows = torch.cat((rows, rows.new_full((1, rows.shape[1]), torch.nan)))
        index = torch.where(index >= len(rows) - 1, len(rows) - 1, index)
        outputs, sums = [], []
        each = max(1, BLOCK_BYTES // (8 * rows.shape[1] * max(1, index.shape[1])))
        for part, queried in zip(torch.split(index, each), torch.split(queries, each), strict=True):
            keys = rows[part.clamp(min=0)]
            scores = torch.einsum("thd,tkd->thk", queried, keys) / keys.shape[-1] ** 0.5
            scores = scores.masked_fill((part < 0)[:, None], -torch.inf)
            lse = scores.logsumexp(-1)
            weights = (scores - lse.nan_to_num(neginf=0.0, nan=torch.nan)[..., None]).exp()
            values = torch.where((part < 0)[..., None], 0.0, keys[..., : self.dims.latent])
            outputs.append(torch.einsum("thk,tkd->thd", weights, values))
            sums.append(lse)
        return torch.cat(outputs), torch.cat(sums)

    def spans(self, first: Tensor, stop: Tensor) -> Tensor:
        """Return for each query the indices ``[first, stop)``, -1 behind them."""
        most = int((stop - first).clamp(min=0).max()) if len(first) else 0
        index = first[:, None] + torch.arange(most, device=self.device)
        return torch.where(index < stop[:, None], index, -1)


def merged(parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the outputs of parts merged by their log-sum-exps; a part without keys changes nothing."""
    sums = torch.stack([lse for _, lse in parts])
    highest = sums.amax(0).nan_to_num(neginf=0.0, nan=torch.nan)
    weights = (sums - highest).exp()
    total = weights.sum(0).clamp(min=1e-300)
    outputs = torch.stack([output for output, _ in parts])
    return ((weights / total)[..., None] * outputs).sum(0)
