"""Rates in words; the part of a process; addresses that are none."""

import pytest

from placet.errors import ConfigurationError
from placet.model.rates import Rate, RateLimits
from placet.rules.rates import own_part, rate_of, require_sound


@pytest.mark.parametrize(
    ("words", "rate"),
    [
        ("1/second", Rate(count=1, seconds=1)),
        ("600/minute", Rate(count=600, seconds=60)),
        ("9/hour", Rate(count=9, seconds=3600)),
    ],
)
def test_a_rate_is_a_number_and_a_unit(words: str, rate: Rate) -> None:
    assert rate_of(words) == rate


@pytest.mark.parametrize(
    "words",
    [
        "",
        "600",
        "0/minute",
        "-1/minute",
        "600/minutes",
        "600 / minute",
        "1.5/second",
        "1/day",
        "٣/minute",
        "1/minute\n",
    ],
)
def test_what_is_no_rate_is_refused(words: str) -> None:
    with pytest.raises(ConfigurationError):
        rate_of(words)


@pytest.mark.parametrize(("replicas", "parts"), [(1, (10, 100)), (3, (3, 33)), (10, (1, 10)), (1000, (1, 1))])
def test_the_parts_of_all_stay_within_the_limit_but_nobody_is_shut_out(replicas: int, parts: tuple[int, int]) -> None:
    limits = RateLimits(
        per_principal=Rate(count=10, seconds=9), per_tenant=Rate(count=100, seconds=60), replicas=replicas
    )
    part = own_part(limits)
    assert (part.per_principal, part.per_tenant) == (Rate(count=parts[0], seconds=9), Rate(count=parts[1], seconds=60))


@pytest.mark.parametrize(
    "address",
    [
        "",
        "localhost:6379",
        "http://localhost",
        "valkey://",
        "redis:///0",
        "valkey://h:0",
        "valkey://h:99999",
        "memory://",
        "unix://",
        "unix://h/x",
        "unix:x",
    ],
)
def test_an_address_of_no_server_is_refused_without_repeating_it(address: str) -> None:
    secret = address.replace("://", "://user:word-7f3a@", 1)
    for each in (address, secret):
        with pytest.raises(ConfigurationError) as refused:
            require_sound(RateLimits(shared_at=each))
        assert "7f3a" not in f"{refused.value}{refused.value.hint}"


def test_sound_limits_are_taken() -> None:
    require_sound(RateLimits())
    for address in (
        "redis://h",
        "rediss://h:1/2",
        "valkey://:p@h:6379/0",
        "valkeys://[::1]:6379",
        "unix:///run/x.sock?db=1",
    ):
        require_sound(RateLimits(shared_at=address))
    for replicas in (0, -1, 10_001):
        with pytest.raises(ConfigurationError):
            require_sound(RateLimits(replicas=replicas))
