"""Sessions whose workers, broker or object store die, hang or go away come to the same as one that does all by itself.

`python -m tests.chaos --workers` does each disturbance in turn, killing a worker at ten moments; `--workers-equal N`
compares N generated archives and those of the demonstration as every kind of worker leaves them.
"""

import random
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from dcc.cli.demo.centres import BASE_PATH, CENTRES, EXPECTED, demo_sources
from dcc.operations.consistency.check import check_consistency
from dcc.qc.database import open_qc_database
from dcc.sources.protocols import SourceProtocol
from dcc.store.objects import ObjectStore
from dcc_dagster.instance import open_instance
from tests.chaos.comparing import differences
from tests.chaos.installation import Session, SessionFailedError, begin_session
from tests.chaos.servers import Served
from tests.chaos.submissions import Submissions
from tests.support.asking import closing_all
from tests.support.faulty_servers import CuttingProxy
from tests.support.installations import Installation, folder_address
from tests.support.redis_server import RedisServer
from tests.support.s3_server import Bucket, S3Server
from tests.support.worker_installations import (
    CeleryWorker,
    celery_variables,
    celery_workers,
    copied,
    empty_installation,
    environment,
    result,
)

_FOLDERS: Final = (("one", "H"), ("two", "H"), ("three", "J"))
_PATIENCE: Final = "DCC_WORKER_PATIENCE"
_LEAST_PATIENCE: Final = 10.0
_AWAY_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.05
_LONGEST_SECONDS: Final = 900.0

Result = dict[str, Any]
Heard = Callable[[str], None]


@dataclass
class Centres:
    """An installation and what its centres put up."""

    installation: Installation
    submissions: Submissions
    put_up: int = 0

    def put(self, archives: int) -> None:
        """Have the centres go on until they have put up so many archives in all, good and bad ones."""
        folders = [served.root for served in self.submissions.served]
        while self.put_up < archives:
            self.submissions.happen()
            self.put_up = sum(len(list(folder.rglob("*.zip"))) for folder in folders)


def centres_in(root: Path, seed: int) -> Centres:
    """An installation of three file sources that are folders, in a folder to be made."""
    installation = empty_installation(root)
    served = []
    for name, centre in _FOLDERS:
        folder = root / "served" / name
        folder.mkdir(parents=True)
        one = Served(folder, SourceProtocol.FILE, "localhost", centre=centre)
        installation.add_source(one.at_hand())
        served.append(one)
    with open_instance(installation.settings):
        pass
    return Centres(installation, Submissions(random.Random(seed), served))


def _add_demonstration(installation: Installation) -> None:
    """Add the file sources of the demonstration, as folders."""
    installation.add_centre(*(code for code in CENTRES if code not in {centre for _, centre in _FOLDERS}))
    for source in demo_sources():
        if not source.refusing:
            folder = installation.root / "demonstration" / source.username
            source.write(folder)
            installation.add_source(folder_address(folder / BASE_PATH.strip("/"), source.centre))


def _begin(installation: Installation, variables: Mapping[str, str]) -> Session:
    settings = environment(installation.settings, DCC_LOG_FILE=str(installation.root / "log"), **variables)
    return begin_session(settings, installation.root / "output")


@dataclass
class Trial:
    """What a session is disturbed with. `took` is how long one takes, from when its workers are given their batches."""

    installation: Installation
    variables: dict[str, str]
    workers: Mapping[str, CeleryWorker]
    broker: RedisServer
    store: CuttingProxy
    bucket: Bucket
    rng: random.Random = field(default_factory=random.Random)
    took: float = 0.0

    def begin(self) -> Session:
        """Begin a session; it has given batches to its workers when this returns."""
        session = _begin(self.installation, self.variables)
        while not session.is_over and not self.stored():
            session.wait_or_until(_LOOK_SECONDS)
        return session

    def begin_and_wait(self) -> Session:
        """Begin a session, and wait for some part of the time that it takes."""
        session = self.begin()
        session.wait_or_until(self.rng.uniform(0.0, self.took))
        return session

    def any_worker(self) -> CeleryWorker:
        return self.workers[self.rng.choice(sorted(self.workers))]

    def stored(self) -> list[str]:
        return ObjectStore(self.bucket.settings()).keys()


def _kill_worker(trial: Trial) -> None:
    session = trial.begin_and_wait()
    trial.any_worker().kill()
    session.conclude(_LONGEST_SECONDS)


def _kill_session(trial: Trial) -> None:
    session = trial.begin_and_wait()
    session.kill()


def _kill_broker(trial: Trial) -> None:
    session = trial.begin_and_wait()
    trial.broker.stop()
    time.sleep(trial.rng.uniform(0.0, 3.0))
    trial.broker.start()
    session.conclude(_LONGEST_SECONDS)


def _take_store_away(trial: Trial) -> None:
    session = trial.begin_and_wait()
    trial.store.go_away()
    time.sleep(_AWAY_SECONDS)
    trial.store.come_back()
    session.conclude(_LONGEST_SECONDS)


def _hang_worker(trial: Trial) -> None:
    session = trial.begin_and_wait()
    worker = trial.any_worker()
    worker.send(signal.SIGSTOP)
    try:
        session.conclude(_LONGEST_SECONDS)
    finally:
        worker.send(signal.SIGCONT)


DISTURBANCES: Final[Mapping[str, Callable[[Trial], None]]] = {
    "a worker is killed": _kill_worker,
    "the session is killed": _kill_session,
    "the broker is killed and started again": _kill_broker,
    "the object store is away for 20 s": _take_store_away,
    "a worker hangs": _hang_worker,
}
_TIMES: Final = {"a worker is killed": 10, "the session is killed": 3}


def disturb_workers(seed: int, heard: Heard, *, archives: int = 40) -> list[str]:
    """Disturb sessions with workers, each from the same beginning; what is wrong after any, or the one after it."""
    problems = []
    with _surroundings() as (folder, broker, store, bucket):
        centres = centres_in(folder / "prepared", seed)
        centres.put(archives)
        alone = copied(centres.installation, folder / "alone")
        _begin(alone, {}).conclude(_LONGEST_SECONDS)
        expected = result(alone)
        disturbed = copied(centres.installation, folder / "disturbed")
        variables = celery_variables(bucket, broker) | {"DCC_STORE_ENDPOINT": f"http://{store.hostname}"}
        with celery_workers(disturbed, variables) as workers:
            trial = Trial(disturbed, variables, workers, broker, store, bucket)
            problems += _disturb(trial, _time, "nothing is disturbed", expected, heard)
            for name, disturb in DISTURBANCES.items():
                for number in range(1, _TIMES.get(name, 1) + 1):
                    trial.rng = random.Random(f"{seed} {name} {number}")
                    _begin_anew(trial, centres.installation)
                    problems += _disturb(trial, disturb, f"{name} ({number})", expected, heard)
    return problems


def _time(trial: Trial) -> None:
    """See how long a session takes, which those after it wait for their workers, however busy the machine is."""
    session = trial.begin()
    began = time.monotonic()
    session.conclude(_LONGEST_SECONDS)
    trial.took = time.monotonic() - began
    trial.variables[_PATIENCE] = str(max(trial.took, _LEAST_PATIENCE))


def _disturb(trial: Trial, disturb: Callable[[Trial], None], name: str, expected: Result, heard: Heard) -> list[str]:
    """Disturb a session and run another one; what is wrong then."""
    today = _today()
    try:
        disturb(trial)
        _begin(trial.installation, trial.variables).conclude(_LONGEST_SECONDS)
    except SessionFailedError as error:
        found = [str(error)]
    else:
        found = differences(result(trial.installation), expected) + _inconsistencies(trial.installation)
        found += [f"{key} is left in the object store" for key in trial.stored()]
        # A session that is killed may leave half a prepared file, and another day has all prepared anew.
        if disturb is not _kill_session and _today() == today:
            found += _prepared_anew(trial.installation)
    heard(f"{name}: workers prepared {_prepared(trial.installation)} archives, {len(found)} problems")
    return [f"{name}: {one}" for one in found]


def _begin_anew(trial: Trial, prepared: Installation) -> None:
    """Make the installation what it was before its first session; workers go on."""
    (trial.installation.root / "log").unlink()
    shutil.rmtree(trial.installation.settings.home)
    shutil.copytree(prepared.settings.home, trial.installation.settings.home)
    trial.installation.tracker.dispose()
    for worker in trial.workers.values():
        if worker.process.poll() is not None:
            worker.start()
            worker.wait_until_ready()


def _prepared(installation: Installation) -> list[int]:
    """How many archives workers prepared by the end of each of their rounds, as sessions logged."""
    log = installation.root / "log"
    return list(map(int, re.findall(r"Workers have prepared (\d+) archives", log.read_text())))


def _prepared_anew(installation: Installation) -> list[str]:
    """What sessions logged of archives that they prepared although workers had done so."""
    return re.findall(r"\d+ archives that were prepared already .*", (installation.root / "log").read_text())


def _today() -> date:
    return datetime.now(UTC).date()


def _inconsistencies(installation: Installation) -> list[str]:
    with closing_all(open_qc_database(installation.settings)) as qc:
        return [str(one) for one in check_consistency(installation.tracker, qc, installation.settings)]


def compare_workers(seed: int, heard: Heard, *, archives: int) -> list[str]:
    """Whether sessions alone, with processes and with Celery's workers come to the same; what differs.

    Two sessions each: what the second finds edits and deletes what the first one loaded.
    """
    with _surroundings() as (folder, broker, _, bucket):
        centres = centres_in(folder / "prepared", seed)
        _add_demonstration(centres.installation)
        celery = celery_variables(bucket, broker)
        ways = {"alone": {}, "processes": {"DCC_EXECUTOR": "multiprocess"}, "celery": celery}
        installations = {name: copied(centres.installation, folder / name) for name in ways}
        with celery_workers(installations["celery"], celery):
            for number in (archives * 2 // 3, archives):
                centres.put(number)
                for name, installation in installations.items():
                    began = time.monotonic()
                    _begin(installation, ways[name]).conclude(_LONGEST_SECONDS)
                    heard(f"{name}: {centres.put_up} archives, {time.monotonic() - began:.0f} s")
        expected = result(installations["alone"])
        missing = set(map(str, EXPECTED)) - expected["states"].keys()
        problems = [f"alone: no session took {name} of the demonstration" for name in sorted(missing)]
        for name, installation in installations.items():
            found = result(installation)
            heard(f"{name}: workers prepared {_prepared(installation)} archives; {_summary(found)}")
            problems += [f"{name}: {one}" for one in differences(found, expected) + _inconsistencies(installation)]
    return problems


def _summary(found: Result) -> str:
    states = Counter(found["states"].values())
    tables = {name: len(found[name]) for name in ("document", "specimen", "experiment", "measurement", "finding")}
    return ", ".join(f"{number} {name}" for name, number in [*states.most_common(), *tables.items()])


@contextmanager
def _surroundings() -> Iterator[tuple[Path, RedisServer, CuttingProxy, Bucket]]:
    """A folder, a broker, a door to an object store, and a bucket of that."""
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="dcc-workers-", ignore_cleanup_errors=True))
        )
        broker = stack.enter_context(RedisServer(folder / "redis"))
        server = stack.enter_context(S3Server(folder / "s3"))
        server.client().create_bucket(Bucket="workers")
        door = stack.enter_context(CuttingProxy(server.hostname))
        yield folder, broker, door, Bucket(server, "workers", folder)
