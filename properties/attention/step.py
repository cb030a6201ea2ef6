"""One step as an engine runs it on the metadata: tokens, caches, new rows and queries."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

from cumae.oracle import UNTOUCHED, Batch, Case, Inputs, Mark
from cumae.oracle.attention import LATENT_DIM, Vector, latent_row, query_of
from cumae.oracle.context_parallel import local_len, owns
from cumae.properties.attention.answers import ROW_DIM, Answer, Lists, asked, cache_shape
from cumae.properties.attention.parts import NOBODY, Key, Memory, OutOfReach, Part, attended
from cumae.properties.operations import OPERATIONS
from cumae.properties.operations.outputs import shape_of


def refuse_what_fits_no_buffer(operation: str, case: Case, said: Lists) -> None:
    """Raise ``OutOfReach`` unless each output fills its buffer with numbers or sources of rows."""
    for output in OPERATIONS[operation].outputs if operation in OPERATIONS else ():
        values = said.get(output.name, [])
        shape = shape_of(output, case)
        room = prod(shape[:-1] if output.is_rows else shape)
        if not isinstance(values, list) or (len(values) != room and not output.optional):
            raise OutOfReach(f"holds {values!r:.80} in {output.name}, which has {room} entries")
        kinds = set(map(type, values)) | {type(n) for v in values if type(v) is tuple for n in v[1:]}
        if all(issubclass(kind, (int, Mark)) for kind in kinds - {tuple}):
            continue
        for i, value in enumerate(values):
            numbers = value[1:] if isinstance(value, tuple) else [value]
            if not all(isinstance(number, (int, Mark)) for number in numbers):
                raise OutOfReach(f"holds {value!r:.80} in {output.name}[{i}]")


def at(values: Sequence[Any], index: int, name: str) -> Any:
    """Return an entry. Raises ``OutOfReach`` for an index outside ``[0, len(values))``."""
    if not 0 <= index < len(values):
        raise OutOfReach(f"reads {name}[{index}] of {len(values)}")
    return values[index]


def streams_of(batch: Batch) -> list[list[int]]:
    """Return the tokens of each request and its next one; shared blocks hold equal tokens."""
    known: dict[tuple[int, int, int], int] = {}
    size = batch.tokens_per_block
    streams = []
    for b, request in enumerate(batch.requests):
        places = [(0, request.block_ids[p // size], p % size) for p in range(request.seq_len)]
        streams.append([known.setdefault(place, len(known)) for place in [*places, (1, b, 0)]])
    return streams


class Step:
    """A case, the operations' answers, and caches with its cached tokens and then its new ones.

    ``streams``: the tokens of each request and the one after the step; ``memories``: the ranks' caches
    from earlier steps. Raises ``OutOfReach`` if new rows are written outside the cache, or two into one
    slot.
    """

    def __init__(
        self,
        case: Case,
        answers: Mapping[str, Answer],
        previous: Case | None = None,
        streams: Sequence[Sequence[int]] | None = None,
        memories: Sequence[Memory] | None = None,
    ) -> None:
        self.case, self.batch = case, case.batch
        self.ranks = range(self.batch.world)
        self.streams = streams_of(self.batch) if streams is None else streams
        self._answers, self._previous = answers, previous
        self._said: dict[tuple[str, int], Lists] = {}
        self._read: dict[tuple[int, int], Key] = {}
        self._inputs: dict[tuple[str, int], Inputs] = {}
        self.tokens = [
            (b, p) for b, r in enumerate(self.batch.requests) for p in range(r.context_len, r.seq_len)
        ]
        self.memories = [dict[int, Key]() for _ in self.ranks] if memories is None else memories
        if memories is None:
            self._fill()
        self.new_rows = [self._new_row(t) for t in range(case.num_tokens_padded)]
        for rank in self.ranks:
            self._write(rank)

    def says(self, operation: str, output: str, rank: int = 0) -> list[Any]:
        """Return an output of an operation on a rank. Raises ``OutOfReach`` if it does not fit its buffer."""
        key = operation, rank
        if key not in self._said:
            inputs = self.inputs(operation, rank)
            said = self._answers[operation](inputs)
            refuse_what_fits_no_buffer(operation, inputs.case, said)
            self._said[key] = said
        found: list[Any] = self._said[key][output]
        return found

    def inputs(self, operation: str, rank: int = 0) -> Inputs:
        """Return the inputs of an operation on a rank."""
        key = operation, rank
        if key not in self._inputs:
            known: dict[str, Any] = {}
            if operation == "cache_write":
                slots = self.says("slot_mapping", "slot_mapping", rank)
                known = {"slot_mapping": slots, "num_new_rows": len(self.new_rows)}
            self._inputs[key] = asked(operation, self.case, self._previous, rank, known)
        return self._inputs[key]

    def place(self, row: int) -> tuple[int, int]:
        """Return request and position of a live row; rows after all padded ones are next tokens."""
        if row < len(self.tokens):
            return self.tokens[row]
        b = row - self.case.num_tokens_padded
        return b, self.batch.requests[b].seq_len

    def query(self, row: int) -> Vector:
        """Return the query of a live row, rotated by its position in the metadata."""
        b, position = self.place(row)
        token = self.streams[b][position]
        return query_of(token, self._position_of(row) if row < len(self.tokens) else position)

    def output(self, row: int, parts: Sequence[Part]) -> Vector:
        """Return the output of attention for a row over its parts."""
        others = [row if part.query_row is None else part.query_row for part in parts]
        for other in others:
            if other != row and not 0 <= other < len(self.tokens):
                return NOBODY.values[:LATENT_DIM]
        queries = [self.query(other) for other in others]
        return attended([(q, part.keys) for q, part in zip(queries, parts, strict=True)])

    def next_token(self, b: int) -> Key:
        """Return the key of a request's first token after the step."""
        position = self.batch.requests[b].seq_len
        token = self.streams[b][position]
        return Key(latent_row(token, position), token, position)

    def cached(self, b: int, position: int) -> Key:
        """Return the key at a position of a request, looked up through the case's own block ids."""
        options, world = self.case.options, self.batch.world
        rank = position // options.parallel.interleave % world
        index = local_len(position, world, rank, options.parallel.interleave) if world > 1 else position
        request = at(self.batch.requests, b, "requests")
        block = at(request.block_ids, index // self.batch.block_size, f"the blocks of request {b}: block_ids")
        return self.read(block * self.batch.block_size + index % self.batch.block_size, rank)

    def read(self, slot: int, rank: int = 0) -> Key:
        """Return the key in a slot of a cache, read through the view of ``latent_layout``."""
        if (slot, rank) not in self._read:
            self._read[slot, rank] = self._through_the_view(slot, self.memories[rank])
        return self._read[slot, rank]

    def _through_the_view(self, slot: int, memory: Memory) -> Key:
        shape, strides = self.says("latent_layout", "shape"), self.says("latent_layout", "strides")
        size = self.batch.block_size
        block, offset = divmod(slot, size)
        if tuple(shape) != (self.num_slots // size, size, 1, ROW_DIM):
            raise OutOfReach(f"sees {self.num_slots} slots as a cache of shape {tuple(shape)}")
        if not 0 <= slot < self.num_slots:
            raise OutOfReach(f"reads slot {slot} of {self.num_slots}")
        first = block * strides[0] + offset * strides[1]
        if strides[3] == 1 and first % ROW_DIM == 0:
            return memory.get(first // ROW_DIM, NOBODY)
        places = [divmod(first + d * strides[3], ROW_DIM) for d in range(ROW_DIM)]
        return Key(tuple(memory.get(row, NOBODY).values[column] for row, column in places))

    @cached_property
    def workspace(self) -> list[Key]:
        """Return the keys of prefills that compute something, request after request, a gap before each."""
        rows: list[Key] = []
        for b, request in enumerate(self.batch.requests):
            if request.phase == "prefill" and request.query_len > 0:
                rows += [NOBODY] * self.case.options.selection.workspace_gap
                rows += [self.cached(b, position) for position in range(request.seq_len)]
        return rows

    @cached_property
    def num_slots(self) -> int:
        """The number of slots of a rank's cache."""
        shape, _ = cache_shape(self.case)
        return shape[0] * shape[2]

    def _position_of(self, row: int) -> int:
        position: int = at(self.says("position_ids", "position_ids"), row, "position_ids")
        return position

    def _new_row(self, row: int) -> Key:
        if row >= len(self.tokens):
            return NOBODY
        b, position = self.tokens[row]
        token, position = self.streams[b][position], self._position_of(row)
        return Key(latent_row(token, position), token, position)

    def _fill(self) -> None:
        """Write the cached tokens to the blocks of their requests."""
        size, world, interleave = (
            self.batch.block_size,
            self.batch.world,
            self.case.options.parallel.interleave,
        )
        for request, stream in zip(self.batch.requests, self.streams, strict=True):
            counts = [0] * world
            for position in range(request.context_len):
                rank = next(r for r in self.ranks if owns(position, world, r, interleave))
                column, offset = divmod(counts[rank], size)
                counts[rank] += 1
                key = Key(latent_row(stream[position], position), stream[position], position)
                self.memories[rank][request.block_ids[column] * size + offset] = key

    def _write(self, rank: int) -> None:
        """Write new rows, padding rows too, to the slots that ``cache_write`` answers."""
        self._refuse_slots(self.says("slot_mapping", "slot_mapping", rank))
        for slot, source in enumerate(self.says("cache_write", "cache", rank)):
            if source is not UNTOUCHED:
                row = source[1]
                self.memories[rank][slot] = self.new_rows[row] if 0 <= row < len(self.new_rows) else NOBODY

    def _refuse_slots(self, slots: list[Any]) -> None:
        """Raise ``OutOfReach`` for a slot outside the cache, and for two rows in one slot."""
        written: dict[int, int] = {}
        for row in range(len(self.new_rows)):
            slot = at(slots, row, "slot_mapping")
            if slot < 0:
                continue
            if slot >= self.num_slots:
                raise OutOfReach(f"writes row {row} to slot {slot} of {self.num_slots}")
            if slot in written:
                raise OutOfReach(f"writes rows {written[slot]} and {row} both to slot {slot}")
            written[slot] = row


def prefill_rows(step: Step) -> list[int]:
    """Return the rows of prefill tokens."""
    return [row for row, (b, _) in enumerate(step.tokens) if step.batch.requests[b].phase == "prefill"]
