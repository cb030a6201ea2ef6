"""A small, readable serving engine: requests come, run and go, and each step is a valid case."""

from collections.abc import Collection, Sequence

from cumae.oracle import Case, Request
from cumae.properties.cases.domain import Domain
from cumae.properties.state.planner import Planner, Running
from cumae.properties.state.pool import Pool
from cumae.properties.state.setting import Setting
from cumae.properties.state.step_case import StepCases, Withhold


class Engine:
    """Rows of requests over a pool of blocks. Every argument is valid: numbers are clamped or wrap around.

    ``domain``, ``features``: the limits and the options of a step. Preempted requests wait, finished requests
    leave vacant rows, and blocks are shared as prefixes and copied before a second request writes.
    """

    def __init__(self, setting: Setting, domain: Domain, features: Collection[str]) -> None:
        self.setting = setting
        self._domain = domain
        self._only_prefills = "decode" not in domain.phases
        self._rows: list[Running | None] = [None] * setting.sizes.num_rows
        self._waiting: list[int] = []
        self._pool = Pool(domain.reserved_blocks, (setting.sizes.num_rows + 1) * setting.sizes.blocks_each)
        self._planner = Planner(setting, domain)
        self._cases = StepCases(setting, domain, features, self._pool.num_blocks)

    def live(self) -> list[int]:
        """Return the rows that hold a request."""
        return [row for row, sequence in enumerate(self._rows) if sequence is not None]

    def admit(self, prompt_len: int, hit: int = 0, cached: int = 0) -> None:
        """Give a free row to a new request of 1 … ``most_tokens`` tokens.

        ``hit``: 0 for a prompt without cached blocks, else selects the request whose full blocks it shares.
        ``cached``: if positive, the number of its tokens that another engine has computed; from
        ``prompt_len`` on, it decodes. In an engine of decodes, another one has computed every prompt.
        """
        free = [row for row, sequence in enumerate(self._rows) if sequence is None]
        if not free:
            return
        most, size = self.setting.most_tokens, self.setting.tokens_per_block
        prompt_len = 1 + (prompt_len - 1) % most
        longest = self._domain.max_context_len
        if self._domain.only_decodes:
            prompt_len = cached = min(cached if cached > 0 else prompt_len, most - 1, longest)
            if not cached:
                return
        if cached > 0 and most > 1:
            cached = min(cached, most - 1, longest)
            cached = min(cached, prompt_len - 1) if self._only_prefills else cached
            if self._domain.whole_prefixes and cached < prompt_len:
                cached -= cached % size
            taken = [self._pool.take() for _ in range(-(-cached // size))]
            self._rows[free[0]] = Running(prompt_len, cached, taken)
            return
        blocks: list[int] = []
        others = self.live()
        if hit and others:
            other = self._sequence(others[hit % len(others)])
            blocks = other.block_ids[: min(other.context_len, prompt_len - 1, longest) // size]
        self._pool.share(blocks)
        self._rows[free[0]] = Running(prompt_len, len(blocks) * size, list(blocks))

    def fork(self, which: int) -> None:
        """Give a free row to a second continuation of a request, which shares all cached tokens."""
        free = [row for row, sequence in enumerate(self._rows) if sequence is None]
        parents = [row for row in self.live() if self._sequence(row).context_len > 0]
        if not free or not parents:
            return
        parent = self._sequence(parents[which % len(parents)])
        blocks = parent.block_ids[: -(-parent.context_len // self.setting.tokens_per_block)]
        self._pool.share(blocks)
        prompt_len = max(parent.prompt_len, parent.context_len)
        self._rows[free[0]] = Running(prompt_len, parent.context_len, list(blocks))

    def finish(self, which: int) -> None:
        """End a request: vacate its row and free its blocks."""
        rows = self.live()
        if rows:
            self._vacate(rows[which % len(rows)])

    def finish_all_but(self, count: int) -> None:
        """End all requests but those of the first rows."""
        for row in self.live()[count:]:
            self._vacate(row)

    def preempt(self, which: int) -> None:
        """Take a request's blocks away; it waits and is computed again."""
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

    def step(
        self,
        wishes: Sequence[int] = (),
        *,
        most: int | None = None,
        rejects: Sequence[int] = (0,),
        gives_back: bool = False,
        hidden: bool = False,
        padding: int = 0,
        withhold: Withhold | None = None,
    ) -> Case:
        """Compute up to ``wishes[row]`` tokens of each request and return the case of this step.

        A row without a wish is idle. If the domain needs more requests or tokens, rows compute more than they
        wish, and new requests arrive. ``most``: tokens of the step, if fewer than the engine's.
        ``rejects``: the most drafts of a speculative decode that are rejected afterwards, by row in turns.
        ``gives_back``: blocks that held rejected drafts alone are freed.
        ``hidden``, ``padding``, ``withhold``: as for ``StepCases.case_of``.
        """
        self._admit_needed()
        budget = self.setting.sizes.budget
        running = {row: self._sequence(row) for row in self.live()}
        planned = self._planner.plan(running, wishes, budget if most is None else min(most, budget))
        for row, query_len in planned.items():
            self._grant(row, query_len, planned)
        requests = self._requests(planned)
        case = self._cases.case_of(requests, hidden=hidden, padding=padding, withhold=withhold)
        for row, query_len in planned.items():
            sequence = self._sequence(row)
            most_rejected = rejects[row % len(rejects)]
            rejected = 0 if sequence.prefills or not query_len else min(most_rejected, query_len - 1)
            sequence.context_len += query_len - rejected
            if rejected and gives_back:
                self._shrink(sequence)
            if self._is_over(sequence):
                self._vacate(row)
        return case

    def _is_over(self, sequence: Running) -> bool:
        """Whether a request ends after a step: it is as long as can be, or has no next step in the domain."""
        longest = min(self.setting.most_tokens - 1, self._domain.max_context_len)
        return sequence.context_len > longest or (self._only_prefills and not sequence.prefills)

    def _admit_needed(self) -> None:
        """Let requests arrive until a step can have as many of them, and of tokens, as the domain needs."""
        domain, rows = self._domain, self._rows
        if domain.verify_steps:
            for row in [row for row in self.live() if self._planner.able(self._sequence(row)) < 2]:
                self._vacate(row)
        for more in range(min(domain.min_requests, len(rows)) - len(self.live())):
            self.admit(max(domain.min_tokens, 1) + more)
        for _ in rows:
            able = {row: self._planner.able(self._sequence(row)) for row in self.live()}
            if sum(able.values()) >= domain.min_tokens:
                return
            if len(able) == len(rows):
                self._vacate(min(able, key=lambda row: able[row]))
            self.admit(domain.min_tokens)

    def _grant(self, row: int, query_len: int, planned: dict[int, int]) -> None:
        """Give a request the blocks of its tokens; copy a shared block that it must not write."""
        sequence = self._sequence(row)
        size, start = self.setting.tokens_per_block, sequence.context_len
        column = start // size
        if query_len and start % size and self._must_copy(row, column, planned):
            self._pool.release([sequence.block_ids[column]])
            sequence.block_ids[column] = self._pool.take()
        while len(sequence.block_ids) * size < start + query_len:
            sequence.block_ids.append(self._pool.take())

    def _shrink(self, sequence: Running) -> None:
        """Free the blocks behind a request's tokens."""
        held = -(-sequence.context_len // self.setting.tokens_per_block)
        self._pool.release(sequence.block_ids[held:])
        del sequence.block_ids[held:]

    def _must_copy(self, row: int, column: int, planned: dict[int, int]) -> bool:
        """Whether another request writes the block in this step, or has tokens where this request writes."""
        sequence = self._sequence(row)
        block_id = sequence.block_ids[column]
        for other in self.live():
            theirs = self._sequence(other)
            if other == row or column >= len(theirs.block_ids) or theirs.block_ids[column] != block_id:
                continue
            if planned.get(other, 0) or theirs.context_len > sequence.context_len:
                return True
        return False

    def _requests(self, planned: dict[int, int]) -> list[Request | None]:
        """Return the request of each row, None for a vacated row."""
        return [None if s is None else s.request(planned[row]) for row, s in enumerate(self._rows)]

    def _sequence(self, row: int) -> Running:
        sequence = self._rows[row]
        assert sequence is not None
        return sequence

    def _vacate(self, row: int) -> None:
        self._pool.release(self._sequence(row).block_ids)
        self._rows[row] = None
