"""Requests served on answers: right ones keep the books in order, and each wrong one breaks them."""

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest

from cumae.oracle import Inputs
from cumae.properties.attention.kernels import kernel_answer
from cumae.properties.cases.choices import SeededChoices
from cumae.properties.operations.targets import load_function
from cumae.properties.running.device import prepare
from cumae.properties.tests.broken.drafts import (
    bonus_by_row,
    drafts_before_the_request,
    first_rows_are_sampled,
    full_pages_go_on,
    pages_of_new_tokens_alone,
)
from cumae.properties.tests.simulation.server import BrokenBooks, Server, right_samples, right_slots

DEVICE = prepare("auto")
Lists = dict[str, Any]
Answer = Callable[[Inputs], Mapping[str, Any]]


def changed(change: Callable[[Lists, Inputs], None], answer: Answer) -> Answer:
    """Return right answers with a change."""

    def wrong(inputs: Inputs) -> Lists:
        said = {name: [*values] for name, values in answer(inputs).items()}
        change(said, inputs)
        return said

    wrong.__name__ = change.__name__
    return wrong


def asked(oracle: Callable[..., Any]) -> Answer:
    def answer(inputs: Inputs) -> Lists:
        found: Lists = inputs.call(oracle)._asdict()
        return found

    answer.__name__ = oracle.__name__
    return answer


def pages_begin_anew(said: Lists, inputs: Inputs) -> None:
    """New tokens behind a part of a page go to its first slots."""
    size, row = inputs["page_size"], 0
    for before, after in zip(inputs["prefix_lens"], inputs["seq_lens"], strict=True):
        for i in range(after - before):
            if before % size and before % size + i < size:
                said["out_cache_loc"][row + i] -= size
        row += after - before


def pages_of_the_step_before_last(said: Lists, inputs: Inputs) -> None:
    """Slots come from pages behind those that are counted."""
    size, free = inputs["page_size"], inputs["free_pages"]
    behind = dict(pairwise(free))
    for row, slot in enumerate(said["out_cache_loc"]):
        if isinstance(slot, int) and slot // size in behind:
            said["out_cache_loc"][row] = behind[slot // size] * size + slot % size


def one_page_more(said: Lists, inputs: Inputs) -> None:
    """A request whose new tokens fill a page takes the next one, too."""
    for b, seq_len in enumerate(inputs["seq_lens"][: inputs["num_requests"]]):
        is_full = seq_len % inputs["page_size"] == 0 and seq_len > inputs["prefix_lens"][b]
        said["num_pages"][b] += is_full and sum(said["num_pages"]) < len(inputs["free_pages"])


def rejected_drafts_stay(said: Lists, inputs: Inputs) -> None:
    """The sample behind the last draft is taken for the one behind the first."""
    for b, bonus in enumerate(said["bonus_logits_indices"]):
        drafts = inputs["num_drafts"][b] if b < inputs["num_requests"] else 0
        if drafts:
            said["bonus_logits_indices"][b] = bonus - 1


def targets_of_the_row_before(said: Lists, inputs: Inputs) -> None:
    """A draft is compared with the sample that follows it."""
    said["target_logits_indices"] = [index + 1 for index in said["target_logits_indices"]]


WRONG_SLOTS = [
    asked(full_pages_go_on),
    asked(pages_of_new_tokens_alone),
    *(changed(c, right_slots) for c in (pages_begin_anew, pages_of_the_step_before_last, one_page_more)),
]
WRONG_SAMPLES = [
    asked(first_rows_are_sampled),
    asked(bonus_by_row),
    asked(drafts_before_the_request),
    *(changed(c, right_samples) for c in (rejected_drafts_stay, targets_of_the_row_before)),
]


def first_break(allocate: Answer = right_slots, verify: Answer = right_samples, num_runs: int = 20) -> str:
    """Return what breaks the books first, over several runs."""
    for seed in range(num_runs):
        server = Server(SeededChoices(seed), allocate, verify)
        try:
            for _ in range(40):
                server.step()
        except BrokenBooks as error:
            return str(error)
    return ""


def test_right_answers_keep_the_books_through_every_event() -> None:
    happened = Counter[str]()
    for seed in range(60):
        choices = SeededChoices(seed)
        page_size = choices.pick((1, 2, 4, 16))
        server = Server(choices, page_size=page_size, num_pages=-(-48 // page_size) + 1, max_model_len=40)
        for _ in range(50):
            server.step()
        happened += server.happened
    assert set(happened) == {"preempted", "rejected", "reached its length", "aborted"}
    assert min(happened.values()) > 50, happened


@pytest.mark.parametrize("wrong", WRONG_SLOTS, ids=lambda wrong: wrong.__name__)
def test_wrong_slots_break_the_books(wrong: Answer) -> None:
    assert first_break(allocate=wrong)


@pytest.mark.parametrize("wrong", WRONG_SAMPLES, ids=lambda wrong: wrong.__name__)
def test_wrong_samples_break_the_books(wrong: Answer) -> None:
    assert first_break(verify=wrong)


def test_what_broke_is_named() -> None:
    assert "which is that of position" in first_break(allocate=WRONG_SLOTS[2])
    assert "accepts token" in first_break(verify=WRONG_SAMPLES[4])


@pytest.mark.usefixtures("watched")
def test_the_shipped_kernels_keep_the_books() -> None:
    slots = kernel_answer(load_function("cumae.gpu_impl:write_allocate_slots"), "allocate_slots", DEVICE)
    samples = kernel_answer(load_function("cumae.gpu_impl:write_draft_steps"), "draft_steps", DEVICE)
    assert first_break(slots, samples, num_runs=2) == ""


def test_too_few_pages_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^num_pages = 5, must hold max_model_len = 24 tokens$"):
        Server(SeededChoices(0), num_pages=5)
