"""The domain of a kernel: generators, fixtures, the reducer and the engine model stay inside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from cumae.oracle import Case, Layout, Options, Phase
from cumae.oracle.model.rules import INT32_MAX, did_you_mean, require, require_int
from cumae.properties.cases.draw import NEUTRAL
from cumae.properties.cases.features import PROMISED
from cumae.properties.cases.fields import reader_of
from cumae.properties.cases.page_formats import RULE, VARIED, fitting_sizes
from cumae.properties.cases.promises import BLOCK_SIZES, PROMISES, Order, Padding

DRAWN_BLOCK_SIZES = BLOCK_SIZES[:-1]
"""Those of drawn cases where a domain promises all of them: a tour visits the largest."""
MAX_LEN = 2**20
LARGEST_BLOCK_OF_SMALL_SLOTS = 2**12
"""Blocks up to this size keep the slots of a drawn case below 2^31."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Domain:
    """The batches a kernel promises to handle. A case outside is counted as not promised, never as passed.

    ``block_sizes``: tokens of a block; the default promises any, of which these are drawn.
    ``min_requests``: live requests of a step; ``max_requests``: its requests, padding included.
    ``min_tokens``: new tokens of a step, 1 for a kernel that is never called without tokens;
    ``max_tokens``: its tokens, padding included. ``max_context_len``, ``max_query_len``: tokens of a
    request. ``phases``: of requests; a decode has a cached token. ``empty_requests``: whether requests
    without new tokens may stand among the others. ``whole_prefixes``: what a prefill has cached fills its
    blocks, as where prefixes are cached by block. ``uniform_decodes``: all decodes of a step have the
    same number of new tokens. ``verify_steps``: every request of a step decodes the same number of
    tokens, at least two. ``order``: of a step's requests: ``any``, ``decodes_first`` (before all prefills, as
    vLLM sorts them), ``prefills_first`` (as SGLang mixes them), or ``shortest_first`` (by new tokens).

    ``rowless_requests``: whether a request may have no row of the table, -1. ``missing_blocks``: whether a
    live token may have no block, -1. ``reserved_blocks``: lowest block ids that belong to no request.
    ``max_block_id``: the largest block id. ``large_slots``: whether slots of 2^31 and more are promised.
    ``far_rows``: whether rows of tables, new tokens and keys may begin 2^31 elements behind the first.
    ``strided``: whether tables and rows may be non-contiguous, and their tensors begin at any element.
    ``views``: arguments that may then be views: vectors with a step, and others with gaps between their rows;
    none by default, because most engines pass contiguous ones.

    ``padding``: ``written`` if padded elements of outputs follow the operation's rule, ``untouched`` if they
    keep their values, ``any`` if they may then hold anything, ``none`` if no step is padded.
    ``padded_together``: padded tokens are those of padded requests, as in a captured graph of decodes; each
    has as many as every request of the step, or one if they differ. ``keeps``:
    whether what is nobody's keeps its values: elements of outputs without a value, such as the columns behind
    a request's blocks, and reserved blocks of a cache. ``captured``: whether calls may be captured in CUDA
    graphs, and so must not synchronise or allocate. ``latent_dims``: pairs of kv_lora_rank and
    qk_rope_head_dim, None for any; fp8 rows ignore them. ``head_dims``: pairs of head_dim and value_dim, None
    for any. ``router_shapes``: experts, groups, groups kept and experts selected, None for any. ``all_but``:
    checks that are not promised; every other one is.

    Other options are promised by name with a tuple of values, as in ``topk=(2048,)``, ``world=(1, 8)``,
    ``index_dtype=("int32",)``, ``row_format=("bf16",)`` or ``select_beyond=(False,)``. ``values`` holds them.
    A function that does not name the option gets its neutral value, or the first promised one; these are in
    ``settled_values``. One that names an option which its operation has not may have one value promised.
    ``limits``: the promises by name that a case may go beyond.

    Raises ``ValueError`` for an unknown promise, and for promises that contradict each other.
    """

    block_sizes: tuple[int, ...] = BLOCK_SIZES
    min_requests: int = 0
    max_requests: int = 2**20
    empty_requests: bool = True
    min_tokens: int = 0
    max_tokens: int = INT32_MAX
    rowless_requests: bool = True
    missing_blocks: bool = True
    padding: Padding = "written"
    padded_together: bool = False
    keeps: bool = True
    large_slots: bool = True
    far_rows: bool = True
    max_block_id: int = INT32_MAX
    max_context_len: int = MAX_LEN
    max_query_len: int = MAX_LEN
    strided: bool = True
    views: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = ("prefill", "decode")
    whole_prefixes: bool = False
    uniform_decodes: bool = False
    verify_steps: bool = False
    order: Order = "any"
    reserved_blocks: int = 0
    latent_dims: tuple[tuple[int, int], ...] | None = None
    head_dims: tuple[tuple[int, int], ...] | None = None
    captured: bool = True
    router_shapes: tuple[tuple[int, int, int, int], ...] | None = None
    all_but: tuple[str, ...] = ()
    values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, hash=False)
    settled_values: Mapping[str, Any] = field(init=False, repr=False, compare=False)
    limits: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __init__(self, **promises: Any) -> None:
        values = dict(promises.pop("values", {}))
        for one in fields(Domain)[:-3]:
            value = promises.pop(one.name, one.default)
            PROMISES[one.name].check(one.name, value)
            object.__setattr__(self, one.name, value)
        if self.max_context_len == 0 and "prefill" in self.phases:
            object.__setattr__(self, "phases", ("prefill",))
        if self.verify_steps and "decode" in self.phases:
            object.__setattr__(self, "phases", ("decode",))
        for name, value in promises.items():
            require_promise(name, value)
            _check_values(name, value)
        object.__setattr__(self, "values", values | promises)
        object.__setattr__(self, "settled_values", _settled(self.values))
        limits = [name for name, promise in PROMISES.items() if getattr(self, name) not in promise.never]
        object.__setattr__(self, "limits", tuple(limits))
        self._check_sizes()
        self._check_blocks()

    def __repr__(self) -> str:
        promises = [(one.name, getattr(self, one.name), one.default) for one in fields(self)[:-3]]
        given = {name: value for name, value, default in promises if value != default} | dict(self.values)
        return f"Domain({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def _check_sizes(self) -> None:
        fits = self.max_requests >= self.min_requests
        require(fits, "max_requests", self.max_requests, f"be >= {self.min_requests}")
        able = self.empty_requests or self.max_query_len >= 1
        require(able, "max_query_len", self.max_query_len, "be >= 1 without empty requests")
        most = min(self.max_requests * self.max_query_len, self.max_tokens)
        rule = f"be <= {most}, the most tokens of a step"
        require(self.min_tokens <= most, "min_tokens", self.min_tokens, rule)
        able = "prefill" in self.phases or self.max_context_len >= 1
        require(able, "max_context_len", self.max_context_len, "be >= 1 for decodes")
        if not self.verify_steps:
            able = self.empty_requests or self.max_tokens >= self.min_requests
            require(able, "max_tokens", self.max_tokens, f"be >= {self.min_requests}, one for each request")
            return
        require("decode" in self.phases, "phases", self.phases, "hold 'decode' for verify steps")
        require(self.max_context_len >= 1, "max_context_len", self.max_context_len, "be >= 1 for decodes")
        require(self.max_query_len >= 2, "max_query_len", self.max_query_len, "be >= 2 for verify steps")
        least = 2 * self.min_requests
        require(self.max_tokens >= least, "max_tokens", self.max_tokens, f"be >= {least} for verify steps")

    def _check_blocks(self) -> None:
        least = self.reserved_blocks + max(self.min_requests, 1) - 1
        rule = f"be >= {least}: each request has a block that is not reserved"
        require(self.max_block_id >= least, "max_block_id", self.max_block_id, rule)
        for i, size in enumerate(self.block_sizes):
            small = self.large_slots or size <= LARGEST_BLOCK_OF_SMALL_SLOTS
            rule = f"be <= {LARGEST_BLOCK_OF_SMALL_SLOTS} without large slots"
            require(small, f"block_sizes[{i}]", size, rule)
        divisors = {
            name: self.values[name] for name in ("interleave", "kernel_block_size") if name in self.values
        }
        rule = f"divide one of block_sizes = {self.block_sizes}"
        require(bool(self.sizes), " and ".join(divisors), tuple(divisors.values()), rule)
        require(bool(fitting_sizes(self, VARIED)), "block_sizes", self.block_sizes, RULE)

    def having(self, **promises: Any) -> "Domain":
        """Return the domain with other values for some promises."""
        return replace(self, **promises)

    @property
    def only_decodes(self) -> bool:
        """Whether every request decodes."""
        return "prefill" not in self.phases

    @property
    def sizes(self) -> tuple[int, ...]:
        """The block sizes of drawn cases: those that a promised interleave and kernel block size divide."""
        names = ("interleave", "kernel_block_size")
        usual = DRAWN_BLOCK_SIZES if self.block_sizes == BLOCK_SIZES else self.block_sizes
        if self.values.keys().isdisjoint(names):
            return usual
        return tuple(size for size in usual if all(self.holds_whole(name, size) for name in names))

    def holds_whole(self, name: str, block_size: int) -> bool:
        """Whether a promised value of a field divides a block size; True without a promise."""
        promised = self.values.get(name, (1,))
        return any(value is None or block_size % value == 0 for value in promised)

    def among(self, name: str, usual: Sequence[Any]) -> Sequence[Any]:
        """Return the usual values of a field, or the promised ones, with the usual ones among them first."""
        promised = self.values.get(name)
        if promised is None:
            return usual
        return [value for value in usual if value in promised] + [v for v in promised if v not in usual]

    def settled(self, name: str) -> Any:
        """Return the value of a field that does not vary: the neutral one, or the first promised one."""
        return self.settled_values[name]

    def why_not(self, case: Case) -> str | None:
        """Return the first promise that the case goes beyond, or None if it lies inside."""
        for name in self.limits:
            beyond = PROMISES[name].beyond
            if beyond is not None and (told := beyond(getattr(self, name), case)) is not None:
                return told
        if self.values:
            have = reader_of(tuple(self.values))(case)[1:]
            for (name, promised), value in zip(self.values.items(), have, strict=True):
                if value not in promised:
                    return f"{name} = {value!r}"
        return None


def require_promise(name: str, value: Any) -> None:
    """Raise ``ValueError`` for the name of a promise that is not known."""
    known = (*PROMISES, *PROMISED)
    if name not in known:
        hint = did_you_mean(name, known)
        require(False, name, value, f"be a promise: {', '.join(known)}", hint=hint)


def _settled(values: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Return the value of each field where it does not vary."""
    changed = {name: of[0] for name, of in values.items() if name in NEUTRAL and NEUTRAL[name] not in of}
    return {**NEUTRAL, **changed}


def _check_values(name: str, values: Any) -> None:
    """Raise ``ValueError`` unless an option's promise is a non-empty tuple of valid values."""
    require(isinstance(values, tuple) and bool(values), name, values, "be a non-empty tuple")
    row = PROMISED[name]
    for value in values:
        if row.record == "options":
            Options.of(**{**(row.needs or {}), name: value})
        elif row.record == "layout":
            Layout(**{name: value})
        else:
            require_int(name, value, 1)
