"""Requests served on answers of ``allocate_slots`` and ``draft_steps``, with books of pages and tokens."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cumae.oracle import Batch, Case, Inputs, Layout, Options, Phase, Request, allocate_slots, draft_steps
from cumae.oracle.model.drafts import num_drafts_of
from cumae.properties.cases.choices import Choices, mixed

Answer = Callable[[Inputs], Mapping[str, Any]]
UNKNOWN = -1
"""The prediction of a row behind a wrong draft."""


def right_slots(inputs: Inputs) -> Mapping[str, Any]:
    """Return the oracle's slots."""
    found: Mapping[str, Any] = inputs.call(allocate_slots)._asdict()
    return found


def right_samples(inputs: Inputs) -> Mapping[str, Any]:
    """Return the oracle's rows and samples."""
    found: Mapping[str, Any] = inputs.call(draft_steps)._asdict()
    return found


@dataclass(slots=True)
class Served:
    """A request. ``tokens``: its prompt and what was accepted; ``num_computed``: tokens that have a slot."""

    number: int
    tokens: list[int]
    num_computed: int = 0
    pages: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Planned:
    """The work of a request in a step: ``query_len`` tokens, the last of them ``drafts``.

    ``samples``: whether its last known token is among them, so that the next one follows.
    """

    request: Served
    query_len: int = 0
    drafts: tuple[int, ...] = ()
    samples: bool = False


class BrokenBooks(Exception):
    """An answer by which a slot has two owners, a page or a token is lost, or a token is accepted twice."""


class Server:
    """An engine of ``num_rows`` requests of at most ``max_model_len`` tokens over ``num_pages`` pages.

    ``allocate`` and ``verify`` answer ``allocate_slots`` and ``draft_steps`` for each step. Requests arrive,
    are preempted for want of pages and computed again, lose rejected drafts with their pages, and end at
    their length. ``happened`` counts these events. Raises ``ValueError`` for fewer pages than one request
    needs.
    """

    def __init__(
        self,
        choices: Choices,
        allocate: Answer = right_slots,
        verify: Answer = right_samples,
        *,
        page_size: int = 4,
        num_pages: int = 12,
        num_rows: int = 4,
        max_model_len: int = 24,
        max_drafts: int = 3,
    ) -> None:
        if num_pages * page_size < max_model_len:
            raise ValueError(f"num_pages = {num_pages}, must hold max_model_len = {max_model_len} tokens")
        self._choices, self._allocate, self._verify = choices, allocate, verify
        self._page_size, self._num_rows = page_size, num_rows
        self._max_model_len, self._max_drafts = max_model_len, max_drafts
        self._free = sorted(range(num_pages), key=mixed)
        self._pages = frozenset(self._free)
        self._owners: dict[int, tuple[int, int]] = {}
        self._running: list[Served] = []
        self._waiting: list[Served] = []
        self._arrived = 0
        self.happened: Counter[str] = Counter()

    def step(self) -> Case:
        """Run one step and return its case. Raises ``BrokenBooks`` that names request, position and slot."""
        self._admit()
        planned = self._with_room([self._plan(request) for request in self._running])
        case = self._case_of(planned)
        self._place(planned, self._allocate(Inputs(case)))
        self._accept(planned, self._verify(Inputs(case)))
        for one in planned:
            if len(one.request.tokens) >= self._max_model_len:
                self.happened["reached its length"] += 1
                self._end(one.request)
        if self._running and self._choices.chance(3):
            self.happened["aborted"] += 1
            self._end(self._choices.pick(self._running))
        self._audit()
        return case

    def _admit(self) -> None:
        while len(self._running) < self._num_rows and self._waiting and self._choices.chance(50):
            self._running.append(self._waiting.pop(0))
        while len(self._running) < self._num_rows and (not self._running or self._choices.chance(40)):
            self._arrived += 1
            prompt_len = self._choices.integer(1, self._max_model_len - 1)
            self._running.append(Served(self._arrived, [_token(self._arrived, p) for p in range(prompt_len)]))

    def _plan(self, request: Served) -> Planned:
        """Return a chunk of the known tokens, or all that are left with drafts behind them."""
        known = len(request.tokens) - request.num_computed
        most = min(known + self._max_drafts, self._max_model_len - request.num_computed)
        wish = 0 if self._choices.chance(25) else self._choices.pick((1, 4, 9, most, most))
        for query_len in range(min(wish, most), 0, -1):
            num_drafts = num_drafts_of(Request(request.num_computed, query_len), self._max_drafts)
            if query_len - num_drafts == known or (num_drafts == 0 and query_len <= known):
                first = len(request.tokens)
                drafts = [_token(request.number, p) for p in range(first, first + num_drafts)]
                samples = query_len - num_drafts == known
                return Planned(request, query_len, tuple(self._spoilt(drafts)), samples)
        return Planned(request)

    def _spoilt(self, drafts: Sequence[int]) -> list[int]:
        return [draft + self._choices.chance(30) for draft in drafts]

    def _with_room(self, planned: list[Planned]) -> list[Planned]:
        """Preempt the requests that came last until the free pages are enough."""
        while sum(map(self._num_new_pages, planned)) > len(self._free):
            last = planned.pop().request
            self._running.remove(last)
            self._waiting.append(last)
            self._release(last, 0)
            self.happened["preempted"] += 1
        return planned

    def _num_new_pages(self, one: Planned) -> int:
        return -(-(one.request.num_computed + one.query_len) // self._page_size) - len(one.request.pages)

    def _case_of(self, planned: Sequence[Planned]) -> Case:
        requests, left = list[Request](), [*self._free]
        for one in planned:
            taken = [left.pop(0) for _ in range(self._num_new_pages(one))]
            phase: Phase = "decode" if one.samples and one.request.num_computed else "prefill"
            blocks = (*one.request.pages, *taken)
            requests.append(Request(one.request.num_computed, one.query_len, blocks, phase))
        padding = self._choices.integer(0, 2)
        layout = Layout(num_padding_tokens=padding, num_padding_requests=padding, num_spare_blocks=len(left))
        return Case(Batch(tuple(requests), self._page_size), layout, Options.of(max_drafts=self._max_drafts))

    def _place(self, planned: Sequence[Planned], said: Mapping[str, Any]) -> None:
        """Hand out the pages that were taken, and write each new token to its slot."""
        row = 0
        for number, one in enumerate(planned):
            request, count = one.request, said["num_pages"][number]
            if not 0 <= count <= len(self._free):
                raise BrokenBooks(f"request {request.number} takes {count} of {len(self._free)} free pages")
            request.pages += [self._free.pop(0) for _ in range(count)]
            for position in range(request.num_computed, request.num_computed + one.query_len):
                self._own(request, position, said["out_cache_loc"][row])
                row += 1
            request.num_computed += one.query_len
            if len(request.pages) * self._page_size >= request.num_computed + self._page_size:
                raise BrokenBooks(f"page {request.pages[-1]} of request {request.number} holds no token")

    def _own(self, request: Served, position: int, slot: Any) -> None:
        place = f"position {position} of request {request.number} gets slot {slot}"
        if not isinstance(slot, int) or slot // self._page_size not in request.pages:
            raise BrokenBooks(f"{place}, which lies in none of its pages {request.pages}")
        if slot % self._page_size != position % self._page_size:
            raise BrokenBooks(f"{place}, at another offset in its page")
        if slot in self._owners:
            number, theirs = self._owners[slot]
            raise BrokenBooks(f"{place}, which is that of position {theirs} of request {number}")
        self._owners[slot] = (request.number, position)

    def _accept(self, planned: Sequence[Planned], said: Mapping[str, Any]) -> None:
        """Accept the drafts that the samples agree with, and the token behind them."""
        predicted = [token for one in planned for token in _predicted(one)]
        sampled = [predicted[row] if 0 <= row < len(predicted) else UNKNOWN for row in said["logits_indices"]]
        for number, one in enumerate(planned):
            before = said["cu_num_draft_tokens"][number - 1] if number else 0
            targets = said["target_logits_indices"][before : said["cu_num_draft_tokens"][number]]
            if len(targets) != len(one.drafts):
                told = f"request {one.request.number} verifies {len(targets)} drafts of {len(one.drafts)}"
                raise BrokenBooks(told)
            if one.samples:
                bonus = said["bonus_logits_indices"][number]
                self._extend(one, [_entry(sampled, index) for index in (*targets, bonus)])

    def _extend(self, one: Planned, samples: Sequence[int]) -> None:
        """Append the accepted drafts and the sample that follows them; give back the slots of the others."""
        request, num_accepted = one.request, 0
        while num_accepted < len(one.drafts) and samples[num_accepted] == one.drafts[num_accepted]:
            num_accepted += 1
        self.happened["rejected"] += num_accepted < len(one.drafts)
        for token in (*one.drafts[:num_accepted], samples[num_accepted]):
            position = len(request.tokens)
            if token != _token(request.number, position):
                raise BrokenBooks(
                    f"request {request.number} accepts token {token} at position {position}, must accept"
                    f" {_token(request.number, position)}"
                )
            request.tokens.append(token)
        self._release(request, request.num_computed - (len(one.drafts) - num_accepted))

    def _release(self, request: Served, num_kept: int) -> None:
        """Give back the slots from a position on, and the pages that hold no token then."""
        lost = {(request.number, position) for position in range(num_kept, request.num_computed)}
        self._owners = {slot: owner for slot, owner in self._owners.items() if owner not in lost}
        request.num_computed = num_kept
        num_pages = -(-num_kept // self._page_size)
        self._free += request.pages[num_pages:]
        del request.pages[num_pages:]

    def _end(self, request: Served) -> None:
        self._release(request, 0)
        self._running.remove(request)

    def _audit(self) -> None:
        """Raise unless each page is free or has one holder, and each computed token has its slot."""
        held = [*self._free, *(page for request in self._running for page in request.pages)]
        if sorted(held) != sorted(self._pages):
            wrong = {page: count for page, count in Counter([*held, *self._pages]).items() if count != 2}
            raise BrokenBooks(f"pages {sorted(wrong)} are lost or have two holders")
        placed = Counter(number for number, _ in self._owners.values())
        for request in self._running:
            if placed[request.number] != request.num_computed:
                told = f"{placed[request.number]} slots for {request.num_computed} tokens"
                raise BrokenBooks(f"request {request.number} has {told}")


def _token(number: int, position: int) -> int:
    """Return the token that a request has at a position, prompt or not."""
    return mixed(position, number) % 1000


def _predicted(one: Planned) -> list[int]:
    """Return what each row of a request predicts: the token that follows, unknown behind a wrong draft."""
    request, first = one.request, one.request.num_computed - one.query_len
    known = [*request.tokens, *one.drafts]
    found, is_right = list[int](), True
    for position in range(first, first + one.query_len):
        is_right = is_right and known[position] == _token(request.number, position)
        found.append(_token(request.number, position + 1) if is_right else UNKNOWN)
    return found


def _entry(values: Sequence[int], index: int) -> int:
    return values[index] if 0 <= index < len(values) else UNKNOWN
