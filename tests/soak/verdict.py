"""What a long life came to: what must stay flat, what may grow and why, each with the figure and whether it held.

Sessions before the warm-up's end load modules, fill caches and open what is kept, and are left out.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from tests.soak.running import Course
from tests.soak.sampling import ProcessSample, Sample

RSS_PER_1000_ZIPS = 4e6
"""Bytes by which this process may grow while it takes in a thousand submissions, beyond the warm-up.

Memory that was freed is returned before each measurement: from one session to the next there are 20 to 30 million
bytes of it. Of the rest the trial's own lists are a part.
"""
DAEMON_RSS_PER_HOUR = 60e6
"""Bytes by which each of the daemon's processes may grow in an hour of sessions every minute."""
WARM_UP = 0.25
MOST_SITES = 12


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what was promised, what was measured, and whether it held."""

    promise: str
    measured: str
    held: bool


@dataclass(frozen=True, slots=True)
class Bound:
    """How many rows a table may have, from other counts, and why."""

    why: str
    most: Callable[[Mapping[str, int]], float]


def verdict(course: Course) -> list[Finding]:
    """All findings; the life was well lived if each held."""
    samples = course.samples
    settled = samples[int(len(samples) * WARM_UP) :]
    return [
        *_process(settled),
        *_daemon(settled),
        *_connections(settled),
        *_tables(course),
        *_quiet(samples),
        *_disk(course),
        Finding(
            "tracker, staging, QC database and Dagster hold together at the end",
            f"{len(course.faults)} inconsistencies" + "".join(f"; {fault}" for fault in course.faults[:5]),
            not course.faults,
        ),
    ]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the line that fits best; 0 where there is none."""
    if len(points) < 2:
        return 0.0
    x_mean, y_mean = fmean(x for x, _ in points), fmean(y for _, y in points)
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    return sum((x - x_mean) * (y - y_mean) for x, y in points) / spread if spread else 0.0


def _process(settled: Sequence[Sample]) -> Iterator[Finding]:
    for what, of in _COUNTED.items():
        seen = [of(sample.process) for sample in settled]
        yield Finding(f"this process has as many {what} after each session", _range(seen), len(set(seen)) == 1)
    grown = slope([(sample.zip_actions / 1000, sample.process.rss) for sample in settled])
    first, last = settled[0].process.rss / 1e6, settled[-1].process.rss / 1e6
    zips = settled[-1].zip_actions - settled[0].zip_actions
    yield Finding(
        f"this process grows by less than {RSS_PER_1000_ZIPS / 1e6:g} MB while 1,000 submissions come in",
        f"{grown / 1e6:+.1f} MB a thousand; {first:.1f} MB to {last:.1f} MB over {zips:,} submissions and "
        f"{len(settled)} sessions",
        grown < RSS_PER_1000_ZIPS,
    )


_COUNTED: dict[str, Callable[[ProcessSample], int]] = {
    "open files": lambda process: process.files,
    "threads": lambda process: process.threads,
    "child processes": lambda process: process.children,
    "open connections": lambda process: process.connections,
}


def _daemon(settled: Sequence[Sample]) -> Iterator[Finding]:
    names = sorted({name for sample in settled for name in sample.daemon})
    staying = [name for name in names if sum(name in sample.daemon for sample in settled) > len(settled) / 2]
    for number, name in enumerate(staying, start=1):
        seen = [(sample.seconds_since_begin, sample.daemon[name]) for sample in settled if name in sample.daemon]
        called = f"the daemon's process {number} ({name.rpartition(' ')[0]})"
        for what in ("open files", "threads"):
            yield _stays(f"{called} has no more {what}", [_COUNTED[what](process) for _, process in seen])
        grown = slope([(seconds / 3600, process.rss) for seconds, process in seen])
        yield Finding(
            f"{called} grows by less than {DAEMON_RSS_PER_HOUR / 1e6:g} MB an hour",
            f"{grown / 1e6:+.1f} MB an hour; {seen[0][1].rss / 1e6:.1f} MB to {seen[-1][1].rss / 1e6:.1f} MB",
            grown < DAEMON_RSS_PER_HOUR,
        )


def _connections(settled: Sequence[Sample]) -> Iterator[Finding]:
    seen = [sample.server_connections for sample in settled if sample.server_connections is not None]
    if seen:
        yield _stays("the database server has no more connections", seen)


def _stays(what: str, counts: Sequence[int]) -> Finding:
    """Counts rise and fall with what a process is at: it is the level that must stay."""
    half = len(counts) // 2
    earlier, later = counts[:half] or counts, counts[half:]
    return Finding(
        f"{what} in the later half than in the earlier one",
        f"median {median(earlier):g}, then {median(later):g}; most {max(earlier)}, then {max(later)}",
        median(later) <= median(earlier) + 1 and max(later) <= max(earlier) * 1.25 + 4,
    )


def _per(count: str, times: float, why: str) -> Bound:
    return Bound(f"{why}: at most {times:g} × {count}", lambda known: times * known.get(count, 0))


BOUNDS: dict[str, Bound] = {
    "tracker.zip_file": _per("published", 1, "a row for each archive's name"),
    "tracker.zip_action": _per("published", 1, "a row for each archive"),
    "tracker.file_source_has_zip": _per("tracker.zip_action", 1, "each archive is on one source"),
    "tracker.zip_download": Bound(
        "an attempt for each archive, and two a session while its checksum is wrong: "
        "zip_action + 2 × (days with a wrong checksum) × (sessions a day)",
        lambda known: known["tracker.zip_action"] + 2 * known["checksum_sessions"],
    ),
    "tracker.zip_log": _per("tracker.zip_download", 1, "a reason for an attempt that failed"),
    "tracker.zip_action_log": _per("bad", 1, "a reason for a name that is refused"),
    "tracker.xml_file": _per("tracker.zip_download", 2, "two documents in an archive"),
    "tracker.xml_log": _per("tracker.xml_file", 2, "a finding for each of two animals in a document"),
    "tracker.reopening": _per("checksum_sessions", 1, "a download that failed is tried again by each session"),
    "tracker.document_reopening": _per("tracker.xml_file", 1, "a document judged again when what it needs has come"),
    "tracker.crawl_finding": _per("odd", 2, "an archive refused, changed or gone is noticed once"),
    "tracker.crawling_session": _per("sessions", 1, "a row for each session, the daemon's too"),
    "tracker.source_crawl": _per("sessions", MOST_SITES, "each session crawls each source"),
    "tracker.session_statistics": _per("sessions", MOST_SITES, "a row for each source of a session"),
    "tracker.stored_archive": _per("tracker.zip_download", 1, "a row for each archive that arrived"),
    "tracker.archive_audit": Bound("an audit a day, whose hour may come: 1", lambda _: 1),
    "tracker.archive_copy": _per("tracker.stored_archive", 1, "one replica"),
    "tracker.server_turn": _per("tracker.file_source", 1, "a row for each server"),
    "tracker.bad_copy": _per("tracker.file_source_has_zip", 1, "the last bad copy of an archive on a source"),
    "tracker.published_checksum": _per("tracker.file_source_has_zip", 1, "the last checksum beside an archive"),
    "tracker.session_task": Bound(
        "a task for each crawl, and for each phase of a session: source_crawl + 7 × crawling_session",
        lambda known: known["tracker.source_crawl"] + 7 * known["tracker.crawling_session"],
    ),
    "tracker.an_exception": Bound("a row for each kind of error that there is: 60", lambda _: 60),
    "tracker.file_source": Bound("those of the beginning, and newcomers", lambda known: 6 + known.get("newcomers", 0)),
    "tracker.file_source_statistics": _per("tracker.file_source", 1, "a row for each source"),
    "tracker.host_key": _per("tracker.file_source", 3, "three keys of a server"),
    "tracker.write_receipt": _per("sessions", 3, "a row for each writer of the last seven days"),
    "qc.write_receipt": _per("sessions", 3, "a row for each writer of the last seven days"),
    "qc.document": _per("tracker.xml_file", 1, "a row for each document that was valid"),
    "qc.centre_block": _per("qc.document", 1, "one block in a document"),
    "qc.specimen": _per("qc.document", 2, "two animals in a document"),
    "qc.experiment": _per("qc.document", 2, "two experiments in a document"),
    "qc.lifetime": _per("qc.document", 4, "a version for each of two animals or experiments, begun and brought back"),
    "qc.metadata": _per("qc.procedure_run", 2, "two in each experiment"),
    "qc.finding": _per("qc.document", 4, "two for each of two animals or experiments"),
    "qc.data_context": _per("contexts", 1, "one for each centre, parameter and genotype"),
    "qc.context_history": _per("qc.document", 2, "a document changes the contexts of two animals"),
    "qc.document_context": _per("qc.document", 2, "a document has data in the contexts of two animals"),
    "qc.context_member": _per("qc.procedure_run", 1, "each run counts in one context"),
    "qc.overview_animal_procedure": _per("qc.procedure_run", 1, "one animal in each run"),
    "qc.overview_genotype": _per("contexts", 1, "one for each centre and genotype"),
    "qc.reserved_ids": Bound("one for each of four centres and twelve tables with ids: 4 × 12", lambda _: 4 * 12),
    "qc.fetched_page": Bound("nothing is fetched", lambda _: 0),
    "qc.reference_refusal": Bound("nothing is fetched", lambda _: 0),
} | {
    f"qc.{name}": _per(f"qc.{of}", 1, f"one for each {of}")
    for name, of in {
        "procedure_run": "experiment",
        "measurement": "experiment",
        "experiment_specimen": "experiment",
        "genotype": "specimen",
        "related_specimen": "specimen",
    }.items()
}
"""Why each table has as many rows as it has."""

_PER_SESSION = {
    "tracker.crawling_session": 1,
    "tracker.source_crawl": MOST_SITES,
    "tracker.session_statistics": MOST_SITES,
    "tracker.session_task": MOST_SITES + 2,
    "tracker.write_receipt": 3,
    "qc.write_receipt": 3,
}
"""Rows that a session may add that finds nothing new."""

DAGSTER_PER_SESSION = 120
"""Rows that such a session may add to each of Dagster's tables: three runs with their events."""
DAGSTER_PER_ZIP = 24
"""Rows of a submission: seven assets, and every check of them, also those that pass."""


def _tables(course: Course) -> Iterator[Finding]:
    first, last = course.samples[0].rows, course.samples[-1].rows
    known = _known(course)
    for name in sorted(last):
        if name.startswith("dagster."):
            continue
        bound = BOUNDS.get(name)
        if bound is None:
            if last[name] != first[name]:
                yield Finding(f"{name} does not grow", f"{first[name]:,} to {last[name]:,} rows", False)
        elif last[name]:
            most = bound.most(known)
            yield Finding(f"{name}: {bound.why}", f"{last[name]:,} rows of at most {most:,.0f}", last[name] <= most)
    sessions = last["tracker.crawling_session"]
    for name in sorted(last):
        if name.startswith("dagster.") and last[name] > first[name]:
            most = DAGSTER_PER_SESSION * sessions + DAGSTER_PER_ZIP * last["tracker.zip_action"] + 1000
            yield Finding(
                f"{name}: at most {DAGSTER_PER_SESSION} a session and {DAGSTER_PER_ZIP} a zip action",
                f"{last[name]:,} rows of at most {most:,}",
                last[name] <= most,
            )


def _known(course: Course) -> dict[str, int]:
    told, rows = course.told, course.samples[-1].rows
    sessions = rows["tracker.crawling_session"]
    # A day has one session of this process, and as many of the daemon as fit.
    with_wrong_checksums = round(told["checksum_days"] * sessions / len(course.samples)) + 8
    return {
        **rows,
        **told,
        "published": told["archives"],
        "odd": told["bad"] + told["changed"] + told["withdrawn"],
        "sessions": sessions,
        "checksum_sessions": with_wrong_checksums,
        # Six alleles and the baseline, of each of four centres.
        "contexts": 4 * 7,
    }


def _quiet(samples: Sequence[Sample]) -> Iterator[Finding]:
    pairs = [(before, after) for before, after in itertools.pairwise(samples) if after.quiet]
    worst: dict[str, float] = {}
    for before, after in pairs:
        sessions = after.rows["tracker.crawling_session"] - before.rows["tracker.crawling_session"]
        for name, count in after.rows.items():
            per_session = (count - before.rows.get(name, 0)) / sessions
            worst[name] = max(worst.get(name, 0.0), per_session)
    over = {
        name: most
        for name, most in worst.items()
        if most > (DAGSTER_PER_SESSION if name.startswith("dagster.") else _PER_SESSION.get(name, 0))
    }
    grown = {name: most for name, most in worst.items() if most and not name.startswith("dagster.")}
    yield Finding(
        "a session that finds nothing new adds itself, its crawls and their tasks to the tracker, and nothing else",
        f"{len(pairs)} such days; most rows a session: "
        + ", ".join(f"{name.partition('.')[2]} {most:g}" for name, most in sorted(grown.items()))
        + "".join(f"; too many in {name}: {most:g}" for name, most in over.items()),
        not over,
    )


def _disk(course: Course) -> Iterator[Finding]:
    last = course.samples[-1]
    told = course.told
    most = told["published_bytes"] + told["unpacked_bytes"]
    yield Finding(
        "staging holds the archives and their documents, and nothing else",
        f"{last.staging_bytes:,} bytes of at most {most:,} that were published and unpacked",
        last.staging_bytes <= most,
    )
    settled = course.samples[int(len(course.samples) * WARM_UP) :]
    seconds = slope([(sample.zip_actions / 1000, sample.session_seconds) for sample in settled])
    sizes = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sorted(last.sizes.items()))
    yield Finding(
        "what was measured beside (no promise)",
        f"sessions of {median(sample.session_seconds for sample in settled):.1f} s, {seconds:+.2f} s a thousand zip "
        f"actions; databases: {sizes}",
        True,
    )


def _range(seen: Sequence[int]) -> str:
    return f"always {seen[0]}" if len(set(seen)) == 1 else f"{min(seen)} to {max(seen)}"
