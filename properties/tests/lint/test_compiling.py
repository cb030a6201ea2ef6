"""The linter lists combinations that a target lacks, and does not call them flaws."""

from cumae.properties.lint.compiling import TARGETS, Texts, missing_on


def test_a_target_lacks_early_launches_and_types_of_fp8() -> None:
    early, plain = Texts("griddepcontrol.wait; f8E4M3FN", ""), Texts("tt.load", "")
    assert {target: found for target in TARGETS if (found := missing_on(target, early))} == {
        "sm_80": ["fp8e4nv", "griddepcontrol"],
        "gfx942": ["griddepcontrol"],
        "gfx950": ["griddepcontrol"],
    }
    assert not any(missing_on(target, plain) for target in TARGETS)
