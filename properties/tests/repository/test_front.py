"""``import cumae``: light, lists exactly the public names, and its types tell wrong names."""

import subprocess
import sys
from importlib.metadata import version
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cumae
from cumae.properties.checks import CHECKS
from cumae.properties.dialects import DIALECTS
from cumae.properties.operations import OPERATIONS


def test_importing_cumae_imports_nothing_else() -> None:
    heavy = ("click", "hypothesis", "numpy", "pytest", "torch", "triton", "cumae.oracle")
    code = f"import sys, cumae; dir(cumae); print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_dir_lists_exactly_the_public_names() -> None:
    assert dir(cumae) == sorted(cumae.__all__)
    assert cumae.__version__ == version("cumae")
    with pytest.raises(AttributeError, match=r"no attribute 'conform_to' \(did you mean 'conforms_to'"):
        cumae.conform_to  # type: ignore[attr-defined] # noqa: B018


def test_the_names_of_types_are_those_of_the_tables() -> None:
    assert get_args(cumae.OperationName) == tuple(OPERATIONS)
    assert get_args(cumae.DialectName) == tuple(DIALECTS)
    assert get_args(cumae.CheckName) == tuple(CHECKS)


def test_a_seed_gives_one_case_and_seeds_give_others() -> None:
    domain = cumae.Domain(block_sizes=(16,), min_requests=2)
    drawn = [cumae.seeded("slot_mapping", seed, domain=domain) for seed in range(20)]
    assert drawn == [cumae.seeded("slot_mapping", seed, domain=domain) for seed in range(20)]
    assert len(set(drawn)) == 20
    assert all(domain.why_not(case) is None for case in drawn)


@given(st.data(), st.sampled_from([*OPERATIONS]))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_cases_of_an_operation_stay_in_its_domain_and_vary_only_its_options(
    data: st.DataObject, name: cumae.OperationName
) -> None:
    domain = cumae.Domain(block_sizes=(4, 16), max_context_len=64)
    case = data.draw(cumae.cases(name, domain=domain))
    assert domain.why_not(case) is None
    if "router" not in OPERATIONS[name].features:
        assert case.options.router == cumae.Options().router


def test_own_operations_have_cases_and_unknown_ones_get_a_hint() -> None:
    assert cumae.seeded(OPERATIONS["position_ids"], 1) == cumae.seeded("position_ids", 1)
    with pytest.raises(ValueError, match=r"operation = 'position_id' \(did you mean 'position_ids'\?\)"):
        cumae.cases("position_id")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed = -1, must be >= 0"):
        cumae.seeded("position_ids", -1)


def test_a_wrong_name_is_seen_by_type_checkers_and_refused() -> None:
    """Each comment below is an error of mypy's if the line is right in its eyes."""
    with pytest.raises(ValueError, match=r"operation = 'slot_maping' \(did you mean 'slot_mapping'\?\)"):
        cumae.conforms_to("slot_maping")(_slots)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"dialect = 'vlm' \(did you mean 'vllm'\?\)"):
        cumae.conforms_to("slot_mapping", dialect="vlm")(_slots)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"checks = 'agree' \(did you mean 'agrees'\?\)"):
        cumae.conforms_to("slot_mapping", checks=["agree"])(_slots)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="device = 'gpu', must be one of 'any', 'cuda'"):
        cumae.conforms_to("slot_mapping", device="gpu")(_slots)  # type: ignore[arg-type]


def _slots(slot_mapping: object) -> None:
    """Right for nothing."""
