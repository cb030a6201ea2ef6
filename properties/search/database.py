"""Failures that several machines share: what one found, the others try first.

The failures folder is the store of one machine. A database comes on top of it, through Hypothesis's interface
``ExampleDatabase``. It may be away: a search goes on without it, and says so once.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from cumae.oracle import Case, Trace
from cumae.oracle.model.rules import require
from cumae.properties.results.failure_file import VERSION, content_of, failure_key, saved_from
from cumae.properties.results.verdict import Failure, Verdict

if TYPE_CHECKING:
    from hypothesis.database import ExampleDatabase

SCHEMES = ("redis", "rediss", "unix")
VARIABLE = "CUMAE_DATABASE"
MOST_FETCHED = 64
"""Most failures of other machines that a search tries."""
TIMEOUT_SECONDS = 2.0


class Shared:
    """The failures in an example database. After the first error it is left alone, and ``trouble`` says why.

    ``name``: its address without user and password. ``errors``: what its methods raise if it is away.
    """

    def __init__(
        self, database: "ExampleDatabase", name: str, errors: tuple[type[Exception], ...] = (OSError,)
    ) -> None:
        self._database = database
        self._name = name
        self._errors = errors
        self._fetched: set[bytes] = set()
        self._kept: dict[str, bytes] = {}
        self._gone = False
        self.trouble = ""

    def fetched(
        self, operation: str, dialect: str, target: str, checks: tuple[str, ...] | None = None
    ) -> list[Case | Trace]:
        """Return the failures of a target for these checks, None for all; at most 64, the short ones first.

        An entry that cannot be read is left out, and ``trouble`` names it.
        """
        values: list[bytes] = []
        try:
            if not self._gone:
                values = list(self._database.fetch(_key(operation, dialect, target)))
        except self._errors as error:
            self._lose(error)
        found: list[Case | Trace] = []
        for value in sorted(values, key=lambda value: (len(value), value))[:MOST_FETCHED]:
            try:
                saved = saved_from(json.loads(value), "entry")
            except ValueError as error:
                self.trouble = f"{self._name} holds an entry that cannot be read: {error}"
                continue
            self._fetched.add(value)
            if checks is None or saved.finding.check in checks:
                found.append(saved.tried)
        return found

    def keep(self, verdict: Verdict, failure: Failure) -> None:
        """Save a failure in place of the last one of the same target, check and part that this run saved."""
        value = json.dumps(content_of(verdict, failure), separators=(",", ":")).encode()
        key = _key(verdict.operation, verdict.dialect, verdict.target)
        place = failure_key(verdict, failure.finding.check)
        before = self._kept.get(place)
        if self._gone or before == value:
            return
        try:
            self._database.save(key, value)
            if before is not None and before not in self._fetched:
                self._database.delete(key, before)
        except self._errors as error:
            self._lose(error)
        self._kept[place] = value

    def _lose(self, error: Exception) -> None:
        self._gone = True
        self.trouble = f"{self._name} cannot be used, failures are kept in the folder only: {error}"


def address_of(option: str, given: str, environment: Mapping[str, str]) -> str:
    """Return the address that an option gives, else that of CUMAE_DATABASE, "" for none.

    Raises ``ValueError`` for one that names no Redis server, for a password in the option, and if the package
    ``redis`` is not installed.
    """
    name, address = (option, given) if given else (VARIABLE, environment.get(VARIABLE, ""))
    if not address:
        return ""
    parts, shown = urlsplit(address), without_user(address)
    begins = f"{', '.join(f'{one}://' for one in SCHEMES[:-1])} or {SCHEMES[-1]}://"
    require(parts.scheme in SCHEMES, name, shown, f"begin with {begins}")
    secret = bool(given) and (parts.password is not None or "password" in parts.query)
    require(not secret, name, shown, f"hold no password: {VARIABLE} may, because no log shows it")
    require(_has_port(parts), name, shown, "have a port from 0 to 65535")
    require(find_spec("redis") is not None, name, shown, "have its client: pip install 'cumae[redis]'")
    return address


def _has_port(parts: SplitResult) -> bool:
    """Return whether the port of an address is a number, or left out."""
    try:
        return parts.port is None or parts.port >= 0
    except ValueError:
        return False


@lru_cache
def shared_at(address: str) -> Shared | None:
    """Return the failures at the address of a Redis server, one connection in each process; None for ""."""
    if not address:
        return None
    from hypothesis.extra.redis import RedisExampleDatabase
    from redis import Redis, RedisError
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    client = Redis.from_url(
        address,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )
    database = RedisExampleDatabase(client, key_prefix=f"cumae-{VERSION}:".encode())
    return Shared(database, without_user(address), (RedisError, OSError))


def _key(operation: str, dialect: str, target: str) -> bytes:
    return json.dumps([operation, dialect, target]).encode()


def without_user(address: str) -> str:
    """Return an address without user and password, which no log may show."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
