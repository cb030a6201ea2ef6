"""Mistakes in an operation of one's own are reported as such, and not as faults of the function."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch

import cumae
from cumae.properties.running.device import prepare

DEVICE = prepare("auto")
TORCH_DTYPE: Any = torch.int32


class Lens(NamedTuple):
    lens: list[Any]


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("fault", ["too many", "no such size"])
def test_a_wrong_definition_is_told_and_not_the_function(fault: str, returns: bool) -> None:
    def launch(query_lens: Any, counts: Any) -> None:
        counts.copy_(query_lens)

    def answer(query_lens: Any) -> Any:
        return torch.cat([query_lens, query_lens[:1]])

    class Counts(NamedTuple):
        counts: list[int]

    def counted(query_lens: Sequence[int]) -> Counts:
        return Counts([*query_lens, 0])

    shape = (lambda case: (case.num_things,)) if fault == "no such size" else None
    output = cumae.Output("counts", "int32", "request", shape=shape)
    told = (
        r"counts: number of values = 2, must be 1, .* for requests of cached \+ new tokens"
        if fault == "too many"
        else "counts.shape raises Attribute"
    )
    with pytest.raises(ValueError, match=told):
        cumae.check(
            answer if returns else launch,
            cumae.Operation("counts", counted, (output,)),
            examples=1,
            save_to=None,
            domain=cumae.Domain(captured=False, min_requests=1),
        )


@pytest.mark.parametrize(
    ("definition", "told"),
    [
        (lambda query_lens: Lens([q / 2 for q in query_lens]), r"lens\[\d\] = .*, must be an integer, for "),
        (lambda query_lens: Lens([None for _ in query_lens]), r"lens\[0\] = None, must be an integer, for "),
        (
            lambda query_lens: Lens([q + 2**31 for q in query_lens]),
            r"lens\[\d\] = 21.*, must be -2147483648 to 2147483647, as its dtype int32 holds, for ",
        ),
        (lambda query_lens: Lens([1 // 0 for _ in query_lens]), "its definition raised ZeroDivision.* for "),
        (
            lambda query_lens, topk_indices: Lens([topk_indices[0][0] > 3 for _ in query_lens]),
            "its definition raised TypeError.*; a Mark stands where nothing may be read, for ",
        ),
    ],
)
def test_a_wrong_definition_is_told_with_its_case(definition: Any, told: str) -> None:
    halves = cumae.Operation("halves", definition, (cumae.Output("lens", "int32", "request"),))

    def zero(query_lens: torch.Tensor, lens: torch.Tensor) -> None:
        lens.zero_()

    with pytest.raises(ValueError, match=f"^halves: {told}requests of cached \\+ new tokens: "):
        cumae.check(zero, halves, domain=cumae.Domain(min_requests=1), examples=5, save_to=None)


def test_a_dtype_that_no_output_has_and_an_option_that_is_none_are_told() -> None:
    def launch(query_lens: Any, counts: Any) -> None:
        counts.copy_(query_lens)

    def answer(query_lens: Sequence[int]) -> Any:
        return query_lens

    for output, told in (
        (cumae.Output("counts", "float32", "request"), "counts.dtype = 'float32', must be one of 'bool'"),
        (
            cumae.Output("counts", "int32", "request", shape=lambda case: (case.options.value("world"),)),
            "counts.shape raises ValueError: option = 'world' .it is `case.batch.world`., must be one of ",
        ),
    ):
        with pytest.raises(ValueError, match=told):
            cumae.check(launch, cumae.Operation("counts", answer, (output,)), examples=1, save_to=None)


def test_a_feature_an_axis_and_a_dtype_that_are_none_are_told() -> None:
    def launch(query_lens: Any, counts: Any) -> None:
        counts.copy_(query_lens)

    def answer(query_lens: Sequence[int]) -> Any:
        return query_lens

    right = cumae.Output("counts", "int32", "request")
    for output, features, told in (
        (right, {"windows"}, r"counts.features = 'windows' \(did you mean 'window'\?\), must be a feature"),
        (
            cumae.Output("counts", "int32", "requests"),
            set(),
            r"shape = None \(did you mean 'request'\?\), must",
        ),
        (
            cumae.Output("counts", TORCH_DTYPE, "request"),
            set(),
            "dtype = torch.int32, must be a text: bool, ",
        ),
        (right, set(), "what its definition returns = 'list', must be a NamedTuple with a field 'counts'"),
    ):
        own = cumae.Operation("counts", answer, (output,), features=frozenset(features))
        with pytest.raises(ValueError, match=told):
            cumae.check(launch, own, domain=cumae.Domain(min_requests=1), examples=1, save_to=None)


@pytest.mark.parametrize("in_a_list", [False, True])
def test_an_output_of_one_element_is_a_number_in_a_definition_and_in_a_tensor(in_a_list: bool) -> None:
    def longest(query_lens: Sequence[int]) -> Lens:
        found: Any = max(query_lens)
        return Lens([found] if in_a_list else found)

    def of_a_tensor(query_start_loc: torch.Tensor) -> torch.Tensor:
        return query_start_loc.diff().max().int()

    def too_long(query_start_loc: torch.Tensor) -> torch.Tensor:
        return query_start_loc.diff().max().int() + 1

    own = cumae.Operation("longest", longest, (cumae.Output("lens", "int32", "step"),))
    domain = cumae.Domain(min_requests=1, all_but=("never_synchronises",))
    found = [
        cumae.check(each, own, dialect="vllm", domain=domain, examples=5, save_to=None).failure
        for each in (of_a_tensor, too_long)
    ]
    assert found[0] is None
    assert found[1] is not None and "`lens[0]` differs" in found[1].finding.message


@pytest.mark.parametrize("answer", [None, "no", {1: 2}])
def test_an_answer_that_is_no_list_is_told(answer: Any) -> None:
    own = cumae.Operation(
        "no_list", lambda query_lens: Lens(answer), (cumae.Output("lens", "int32", "step"),)
    )
    with pytest.raises(
        ValueError, match=r"no_list: what its definition returns = .*, must be a list of numbers"
    ):
        cumae.check(lambda query_lens: 0, own, examples=1, save_to=None)


def test_nan_is_a_number_that_an_output_in_fp32_holds() -> None:
    class Means(NamedTuple):
        means: list[float]

    def mean(context_lens: Sequence[int], query_lens: Sequence[int]) -> Means:
        pairs = zip(context_lens, query_lens, strict=True)
        return Means([c / q if q else float("inf") if c else float("nan") for c, q in pairs])

    def divided(context_lens: torch.Tensor, query_lens: torch.Tensor) -> torch.Tensor:
        found = context_lens.double() / query_lens.double()
        return torch.where(found.isnan(), torch.nan, found).float()

    own = cumae.Operation("mean", mean, (cumae.Output("means", "fp32", "request"),))
    assert cumae.check(divided, own, examples=20, save_to=None).failure is None
