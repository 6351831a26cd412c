"""A sequence of rounds on one installation and its undisturbed twin.

A round: the centres put up something; sessions go wrong; one more runs undisturbed. Then everything must hold together,
and be as in the twin, which is fed the same files and where nothing ever goes wrong.
"""

import math
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from tests.chaos.comparing import differences, ending_of
from tests.chaos.faults import KINDS, Kind, Trial
from tests.chaos.installation import ChaosInstallation, SessionFailedError, environment_of, prepared_home
from tests.chaos.proxy import FaultProxy
from tests.chaos.servers import Servers, running_servers
from tests.chaos.submissions import Submissions
from tests.support.databases import MariaDb
from tests.support.servers import add_pinned
from tests.support.small_disks import small_disk

_DISK_BYTES = 200_000_000


@dataclass
class World:
    """What sequences share: servers, the proxy before them, a prepared home, and the database server if there is one.

    `own_disk`: installations have a file system of their own, which can be filled.
    """

    folder: Path
    servers: Servers
    proxy: FaultProxy
    home: Path
    mariadb: MariaDb | None = None
    own_disk: bool = False


class DurableMariaDb(MariaDb):
    """A server that has what it said it has, also when it is killed."""

    options = (*MariaDb.options, "--innodb-flush-log-at-trx-commit=2")


@contextmanager
def world_of(database: str, *, own_disk: bool) -> Iterator[World]:
    """The servers and the prepared home that sequences on a kind of database share."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dcc-chaos-")))
        servers = stack.enter_context(running_servers())
        proxy = stack.enter_context(FaultProxy(servers.ports, servers.listeners))
        home = prepared_home(folder)
        mariadb = None
        if database == "mariadb":
            mariadb = DurableMariaDb()
            stack.callback(mariadb.remove)
        yield World(folder, servers, proxy, home, mariadb, own_disk)


@dataclass
class Outcome:
    """What a sequence came to. `problems`: of the first round with any, else none; `rounds` were begun."""

    seed: int
    rounds: int = 0
    last_kind: str = ""
    done: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)


def run_sequence(
    world: World,
    seed: int,
    rounds: int,
    kinds: Collection[str] = tuple(KINDS),
    heard: Callable[[str], None] = lambda _: None,
    *,
    at_once: tuple[int, int] = (4, 8),
    in_turn: bool = False,
    until: float = math.inf,
) -> Outcome:
    """Run rounds until one ends otherwise than it must; a seed has the same rounds however many are asked for.

    `heard` is told of each round, `at_once` is as in `Trial`; `in_turn`: the kinds come one after the other, not at
    random; `until`: no round begins after this moment of the monotonic clock.
    """
    rng = random.Random(seed)
    outcome = Outcome(seed)
    with _folder(world) as folder, _twins(world, folder) as (installation, twin):
        served = world.servers.serve(world.servers.root / f"{seed}-{uuid4().hex[:8]}")
        submissions = Submissions(random.Random(rng.randrange(2**32)), served)
        for one in served:
            add_pinned(installation.tracker, one.through_proxy())
            add_pinned(twin.tracker, one.at_hand())
        trial = Trial(installation, world.proxy, world.mariadb, random.Random(), at_once)
        trial.kills, trial.faults = outcome.kills, outcome.faults
        before = Counter(world.proxy.happened)
        possible = [KINDS[name] for name in KINDS if name in kinds and KINDS[name].needs(trial)]
        in_order = True
        while outcome.rounds < rounds and not outcome.problems and time.monotonic() < until:
            trial.rng = random.Random(rng.randrange(2**32))
            kind = trial.rng.choices(possible, [one.weight for one in possible])[0]
            if in_turn:
                kind = possible[outcome.rounds % len(possible)]
            in_order = in_order and kind.keeps_order
            outcome.rounds += 1
            outcome.last_kind = kind.name
            outcome.done = submissions.happen(large=kind.large)
            outcome.problems = _round(trial, twin, kind, in_order=in_order)
            heard(f"seed {seed}, round {outcome.rounds}: {kind.name}, {outcome.kills.total()} kills so far")
        outcome.faults.update({f"network: {name}": n for name, n in (world.proxy.happened - before).items()})
        shutil.rmtree(served[0].root.parent, ignore_errors=True)
    return outcome


def _round(trial: Trial, twin: ChaosInstallation, kind: Kind, *, in_order: bool) -> list[str]:
    """One round; what is wrong after it."""
    installation = trial.installation
    try:
        if kind.spares_twin:
            beside = twin.begin()
            try:
                kind.happen(trial)
            finally:
                twin.conclude(beside)
        else:
            kind.happen(trial)
            twin.run_undisturbed()
        session = installation.run_undisturbed()
        # Whether what a listing misses is gone, the next one decides.
        for each in (installation, twin):
            if each.misses_archives():
                each.run_undisturbed()
    except SessionFailedError as error:
        return [str(error)]
    problems = [str(one) for one in installation.inconsistencies()]
    problems += differences(ending_of(installation, in_order=in_order), ending_of(twin, in_order=in_order))
    if problems:
        problems.append(f"The undisturbed session said:\n{session.said()}")
    return problems


@contextmanager
def _folder(world: World) -> Iterator[Path]:
    """A folder for a sequence; `disk` in it has a small file system of its own, where that is wanted and allowed."""
    folder = world.folder / f"sequence-{uuid4().hex[:8]}"
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if world.own_disk and os.geteuid() == 0:
            stack.enter_context(small_disk(folder / "disk", _DISK_BYTES))
        (folder / "disk").mkdir(parents=True, exist_ok=True)
        yield folder


@contextmanager
def _twins(world: World, folder: Path) -> Iterator[tuple[ChaosInstallation, ChaosInstallation]]:
    """An installation to be disturbed, and another."""
    databases: list[str] = []
    made = []
    for home in (folder / "disk" / "home", folder / "twin"):
        urls: dict[str, object] = {}
        if world.mariadb is None:
            shutil.copytree(world.home, home)
        else:
            home.mkdir()
            shutil.copytree(world.home / "dagster", home / "dagster")
            for kind in ("tracker", "qc"):
                databases.append(f"chaos_{kind}_{uuid4().hex[:12]}")
                urls[f"DCC_{kind.upper()}_URL"] = world.mariadb.url(databases[-1])
        environment = environment_of(home, DCC_TLS_CA_FILE=world.servers.ca_file, **urls)
        installation = ChaosInstallation(home, environment)
        made.append(installation)
        if world.mariadb is not None:
            installation.prepare()
    try:
        yield made[0], made[1]
    finally:
        for installation in made:
            installation.close()
        for name in databases:
            with suppress(Exception):
                assert world.mariadb is not None
                world.mariadb.query(f"DROP DATABASE IF EXISTS {name}")
