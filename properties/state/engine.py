"""A serving engine small enough to read: requests come, run and go, and each step is a valid case."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from cumae.oracle import GARBAGE_KINDS, INDEX_DTYPES, Batch, Case, Layout, Options, Phase, Request
from cumae.properties.cases.choices import Choices
from cumae.properties.cases.domain import Domain
from cumae.properties.cases.draws import draw_options

MOST_DRAFTS = 3
BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What an engine is made for: requests at a time, blocks of one, and tokens of a step."""

    num_rows: int = 4
    blocks_each: int = 4
    budget: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What does not change while an engine runs; ``buckets``: tokens are padded as for captured graphs."""

    block_size: int
    world: int
    options: Options
    layout: Layout
    buckets: bool
    sizes: Sizes


def draw_setting(
    choices: Choices,
    domain: Domain,
    features: Collection[str],
    sizes: Sizes,
    *,
    buckets: bool | None = None,
) -> Setting:
    """Return the setting of an engine whose steps lie in a domain."""
    small = [size for size in domain.sizes if size <= 16] or domain.sizes
    block_size = choices.pick(small)
    worlds = domain.among("world", (1, 1, 2, 3))
    world = choices.pick(worlds) if "world" in features else domain.settled("world")
    # One padded request is always there, so a dummy request may take the padding tokens.
    padded = Layout(num_padding_requests=int(domain.padding != "none"))
    options = draw_options(choices, domain, Batch((), block_size, world), padded, features)
    if options.selection.topk > 64 and "topk" not in domain.values:
        options = options.having(topk=8, split_size=min(options.schedule.split_size, 8))
    layout = Layout(
        garbage=choices.pick(GARBAGE_KINDS),
        index_dtype=choices.pick(domain.among("index_dtype", INDEX_DTYPES)),
        table_row_gap=choices.pick((0, 0, 3)) if domain.strided else 0,
    )
    in_buckets = choices.chance(50) if buckets is None else buckets
    in_buckets = in_buckets and domain.padding != "none"
    return Setting(
        block_size=block_size,
        world=world,
        options=options,
        layout=layout,
        buckets=in_buckets,
        sizes=sizes,
    )


@dataclass(slots=True)
class Running:
    """A request that is alive: ``prompt_len`` tokens are prefilled before it decodes."""

    prompt_len: int
    context_len: int
    block_ids: list[int]


class Engine:
    """Rows of requests over a pool of blocks. Every argument is valid: numbers are clamped or wrap around.

    ``domain``, ``features``: what a step may show. Requests wait where they were preempted, rows are
    vacated where they finished, blocks are shared as prefixes and copied before a second one writes.
    """

    def __init__(self, setting: Setting, domain: Domain, features: Collection[str]) -> None:
        self.setting = setting
        self._domain = domain
        self._features = features
        sizes = setting.sizes
        self._rows: list[Running | None] = [None] * sizes.num_rows
        self._waiting: list[int] = []
        num_blocks = (sizes.num_rows + 1) * sizes.blocks_each
        step = next(s for s in (7, 5, 3, 11, 13, 1) if num_blocks % s or s == 1)
        self._num_blocks = domain.reserved_blocks + num_blocks
        self._free = [domain.reserved_blocks + (3 + i * step) % num_blocks for i in range(num_blocks)]
        self._holders: dict[int, int] = {}

    @property
    def tokens_per_block(self) -> int:
        """Tokens of a request that one block id stands for."""
        return self.setting.block_size * self.setting.world

    @property
    def most_tokens(self) -> int:
        """Tokens that a request can have."""
        return self.tokens_per_block * self.setting.sizes.blocks_each

    def live(self) -> list[int]:
        """Return the rows that hold a request."""
        return [row for row, sequence in enumerate(self._rows) if sequence is not None]

    def admit(self, prompt_len: int, hit: int = 0) -> None:
        """Give a free row to a new request of 1 … ``most_tokens`` tokens.

        ``hit``: 0 for a prompt that no block is cached of, else which request shares its full blocks.
        """
        free = [row for row, sequence in enumerate(self._rows) if sequence is None]
        if not free:
            return
        prompt_len = 1 + (prompt_len - 1) % self.most_tokens
        blocks: list[int] = []
        others = self.live()
        if hit and others:
            other = self._sequence(others[hit % len(others)])
            size = self.tokens_per_block
            blocks = other.block_ids[: min(other.context_len, prompt_len - 1) // size]
        for block_id in blocks:
            self._holders[block_id] += 1
        context_len = len(blocks) * self.tokens_per_block
        self._rows[free[0]] = Running(prompt_len, context_len, list(blocks))

    def fork(self, which: int) -> None:
        """Give a free row to a second continuation of a request, which shares all that is cached."""
        free = [row for row, sequence in enumerate(self._rows) if sequence is None]
        parents = [row for row in self.live() if self._sequence(row).context_len > 0]
        if not free or not parents:
            return
        parent = self._sequence(parents[which % len(parents)])
        blocks = parent.block_ids[: -(-parent.context_len // self.tokens_per_block)]
        for block_id in blocks:
            self._holders[block_id] += 1
        prompt_len = max(parent.prompt_len, parent.context_len)
        self._rows[free[0]] = Running(prompt_len, parent.context_len, list(blocks))

    def finish(self, which: int) -> None:
        """End a request: its row is vacated, its blocks are free to be given away."""
        rows = self.live()
        if rows:
            self._vacate(rows[which % len(rows)])

    def preempt(self, which: int) -> None:
        """Take a request's blocks away; it waits and is computed anew."""
        rows = self.live()
        if rows:
            sequence = self._sequence(rows[which % len(rows)])
            self._waiting.append(max(sequence.prompt_len, sequence.context_len))
            self._vacate(rows[which % len(rows)])

    def resume(self) -> None:
        """Admit the request that has waited longest."""
        if self._waiting and None in self._rows:
            self.admit(self._waiting.pop(0))

    def swap(self, first: int, second: int) -> None:
        """Exchange two rows, as a reordering of the batch does."""
        a, b = first % len(self._rows), second % len(self._rows)
        self._rows[a], self._rows[b] = self._rows[b], self._rows[a]

    def condense(self) -> None:
        """Move requests into vacated rows before them."""
        held = [sequence for sequence in self._rows if sequence is not None]
        self._rows = [*held, *[None] * (len(self._rows) - len(held))]

    def step(self, wishes: Sequence[int] = (), *, rejects: int = 0, hidden: bool = False) -> Case:
        """Compute up to ``wishes[row]`` tokens of each request and return the case of this step.

        A row without a wish is idle, as far as the domain's ``min_tokens`` leaves it so: a step that must
        have tokens and nobody to compute them gets a new request. Of the drafts of a speculative decode up to
        ``rejects`` are rejected afterwards. ``hidden``: the host does not know the lengths.
        """
        if self._domain.min_tokens and not self.live():
            self.admit(self._domain.min_tokens)
        planned = self._plan(wishes)
        case = self._case(planned, hidden=hidden)
        for row, query_len in planned.items():
            sequence = self._sequence(row)
            decodes = sequence.context_len >= sequence.prompt_len
            rejected = min(rejects, query_len - 1) if decodes and query_len else 0
            sequence.context_len += query_len - rejected
            if sequence.context_len >= self.most_tokens:
                self._vacate(row)
        return case

    def _plan(self, wishes: Sequence[int]) -> dict[int, int]:
        """Return the tokens each request computes, its blocks granted."""
        planned: dict[int, int] = {}
        able: dict[int, int] = {}
        left = self.setting.sizes.budget
        for row in self.live():
            sequence = self._sequence(row)
            wish = wishes[row] if row < len(wishes) else 0
            prompt_left = sequence.prompt_len - sequence.context_len
            most = prompt_left if prompt_left > 0 else 1 + MOST_DRAFTS
            room = self.most_tokens - sequence.context_len
            planned[row] = max(0, min(wish, most, room, left))
            left -= planned[row]
            able[row] = max(0, min(most, room))
        missing = self._domain.min_tokens - sum(planned.values())
        for row in planned:
            more = max(0, min(missing, able[row] - planned[row]))
            planned[row] += more
            missing -= more
        for row, query_len in planned.items():
            self._grant(row, query_len, planned)
        return planned

    def _grant(self, row: int, query_len: int, planned: dict[int, int]) -> None:
        """Give a request the blocks of its tokens; a shared one that it must not write is copied."""
        sequence = self._sequence(row)
        size, start = self.tokens_per_block, sequence.context_len
        column = start // size
        if query_len and start % size and self._must_copy(row, column, planned):
            self._holders[sequence.block_ids[column]] -= 1
            sequence.block_ids[column] = self._take()
        while len(sequence.block_ids) * size < start + query_len:
            sequence.block_ids.append(self._take())

    def _must_copy(self, row: int, column: int, planned: dict[int, int]) -> bool:
        """Whether somebody else writes the block in this step, or has tokens where this request writes."""
        sequence = self._sequence(row)
        block_id = sequence.block_ids[column]
        for other in self.live():
            theirs = self._sequence(other)
            if other == row or column >= len(theirs.block_ids) or theirs.block_ids[column] != block_id:
                continue
            if planned.get(other, 0) or theirs.context_len > sequence.context_len:
                return True
        return False

    def _case(self, planned: dict[int, int], *, hidden: bool) -> Case:
        by_row = "row_index" in self._features
        rows: list[int] = []
        requests: list[Request] = []
        last = max(self.live(), default=-1)
        for row in range(last + 1):
            sequence = self._rows[row]
            if sequence is None:
                request = Request(0, 0)
            else:
                phase: Phase = "prefill" if sequence.context_len < sequence.prompt_len else "decode"
                request = Request(sequence.context_len, planned[row], tuple(sequence.block_ids), phase)
            shown = request.query_len > 0 or self._domain.empty_requests
            if shown and not (by_row and sequence is None):
                rows.append(row)
                requests.append(request)
        if by_row and rows:
            turn = len(planned) % len(rows)
            rows, requests = rows[turn:] + rows[:turn], requests[turn:] + requests[:turn]
        setting = self.setting
        batch = Batch(tuple(requests), setting.block_size, setting.world)
        return Case(batch, self._layout(batch, tuple(rows) if by_row else None, hidden), setting.options)

    def _layout(self, batch: Batch, row_index: tuple[int, ...] | None, hidden: bool) -> Layout:
        """Return the layout in which every buffer has the shape it had in the steps before."""
        setting, sizes, features = self.setting, self.setting.sizes, self._features
        padded = next(b for b in BUCKETS if b >= batch.num_tokens) if setting.buckets else batch.num_tokens
        count = len(batch.requests)
        most_rows = max([count, *(row + 1 for row in row_index or ())])
        pads = self._domain.padding != "none"
        num_padding_requests = sizes.num_rows + 1 - count if pads else 0
        widest = max((len(request.block_ids) for request in batch.requests), default=0)
        largest = max((max(request.block_ids, default=-1) for request in batch.requests), default=-1)
        longest = max((request.context_len for request in batch.requests), default=0)
        capacity = sizes.num_rows * self.most_tokens
        if setting.options.keys.key_scope == "prefill":
            num_keys = sum(r.seq_len for r in batch.requests if r.phase == "prefill")
        else:
            num_keys = sum(r.seq_len for r in batch.requests)
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
            key_slack=capacity - num_keys if "key_slack" in features else 0,
            context_slack=self.most_tokens - longest,
            row_index=row_index,
            host_lens=not (hidden and "host_lens" in features),
        )

    def _sequence(self, row: int) -> Running:
        sequence = self._rows[row]
        assert sequence is not None
        return sequence

    def _vacate(self, row: int) -> None:
        for block_id in self._sequence(row).block_ids:
            self._holders[block_id] -= 1
            if self._holders[block_id] == 0:
                del self._holders[block_id]
                self._free.append(block_id)
        self._rows[row] = None

    def _take(self) -> int:
        block_id = self._free.pop()
        self._holders[block_id] = 1
        return block_id
