"""The tables of times and of hardware counters."""

from dataclasses import asdict

from cumae.properties.bench.clock import Timing
from cumae.properties.selfcheck.times import counters_lines, rates_lines, times_lines
from cumae.properties.tests.helpers.script import module_at

PRINTED = """==PROF== Connected to process 7
"ID","Process ID","thread Domain:Push/Pop_Range:PL_Type","Id:Domain:Start/Stop_Range","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","7","7  ""<default domain>:one, 1,024 tokens:none:none"" ","","_first","gpu__time_duration.sum","ns","5,696"
"0","7","7  ""<default domain>:one, 1,024 tokens:none:none"" ","","_first","launch__registers_per_thread","","56"
"1","7","7  ""<default domain>:one, 1,024 tokens:none:none"" ","","_second","gpu__time_duration.sum","ns","12"
"""  # noqa: E501


def test_counters_are_those_of_each_launch() -> None:
    first, second = module_at("ci/counters.py").read(PRINTED)
    assert first == {"kernel": "_first", "call": "one, 1,024 tokens", "ns": 5696.0, "registers": 56.0}
    assert second == {"kernel": "_second", "call": "one, 1,024 tokens", "ns": 12.0}


def test_a_time_stands_beside_its_floor() -> None:
    timed = Timing("a", "1 row", 3.0, 0.1, None, 4.0, 1.5)
    plain = Timing("copy", "1 row", 20.0, 0.1, 3000.0)
    run = {"device": "NVIDIA H200", "timings": [asdict(timed), asdict(plain)]}
    *_, first, second = times_lines(run, [])
    assert first == "| `a` | 1 row | 3.00 µs | 4.00 µs | 1.50 µs | 2.0 |"
    assert second == "| `copy` | 1 row | 20.0 µs, 3,000 GB/s read and written | – | – | – |"


def test_a_time_on_another_gpu_stands_behind() -> None:
    timed, plain = Timing("a", "1 row", 3.0, 0.1, None, 4.0, 1.5), Timing("copy", "1 row", 20.0, 0.1)
    new = Timing("b", "1 row", 9.0, 0.1, None, 9.0, 4.5)
    run = {"device": "NVIDIA H200", "timings": [asdict(timed), asdict(plain), asdict(new)]}
    other = {"device": "NVIDIA H100", "note": "later", "timings": [asdict(plain), asdict(timed)]}
    *_, head, _, first, second, third = times_lines(run, [other])
    assert head.endswith(" | times the floor | NVIDIA H100, later |")
    assert first.endswith(" | 2.0 | 3.00 µs, 2.0 times |")
    assert second.endswith(" | – | 20.0 µs |") and third.endswith(" | 2.0 | – |")


def test_counters_become_a_table() -> None:
    names = ("memory", "second-level cache", "first-level cache", "issuing cycles", "warps")
    shares = dict.fromkeys(names, 7.4)
    launch = {"kernel": "_first", "call": "one", "ns": 5696.0, "registers": 56.0, **shares}
    *_, head, _, row = counters_lines([launch])
    assert head.count("|") == row.count("|")
    assert row == "| one | `_first` | 5.7 | 7 | 7 | 7 | 7 | 7 | 56 |"


def test_rates_stand_beside_those_before() -> None:
    spent = {"generating": 0.5, "kernel": 0.1, "oracle": 0.05, "checks": 0.35}
    search = {"checks": "3", "cases": "seeded", "rate": 250, "tried": 9, "spent": spent}
    now = {"generators": {"seeded": 1000, "drawn": 90}, "launched": 7000, "searches": [search]}
    now |= {"processes": 16, "together": 4100}
    before = now | {"searches": [search | {"rate": 125}], "together": 2000}
    run = {"kernel": "cumae.gpu_impl:write_position_ids", "command": "c", "now": now, "before": before}
    run |= {"device": "NVIDIA H200", "note": "a slow host"}
    told, *_, seeded, drawn, calls, searched, processes = rates_lines(run)
    assert told.startswith("Cases a second of `write_position_ids` on one NVIDIA H200 (`c`; a slow host): ")
    assert seeded == "| generator alone, seeded cases | 1,000 | 1,000 |"
    assert drawn == "| generator alone, cases that Hypothesis draws | 90 | 90 |"
    assert calls == "| calls alone, each over before the next | 7,000 | 7,000 |"
    shares = "50%, 10%, 5%, 35%"
    assert searched == f"| 3 checks, seeded cases | 125 (12%; {shares}) | 250 (25%; {shares}) |"
    assert processes == "| 16 processes, 3 checks, seeded cases | 2,000 | 4,100 |"
