"""Steps and schedules that several operations are asked about."""

from cumae.oracle import Case, Layout, Options, metadata_cache
from cumae.properties.tests.given.traces import step_of
from cumae.properties.tests.simulation.simulated import Oracle, oracle_answer


def case_of(
    *lens: tuple[int, int], topk: int = 2, spare: int = 0, host: bool = True, padding: int = 0
) -> Case:
    layout = Layout(num_padding_tokens=padding, num_spare_tokens=spare, host_lens=host)
    return Case(step_of(*lens), layout, Options.of(topk=topk))


def rebuilt(previous: Case | None, case: Case, oracle: Oracle = metadata_cache) -> list[object]:
    return oracle_answer(oracle, case, previous)["rebuilt"]
