"""Composes messages: fills in templates in the reader's language.

A template is two files, `notifications/<name>.txt`, whose first line is the subject, and `notifications/<name>.html`.
Files in DCC_TEMPLATES_DIRECTORY replace those of the platform. If one of them has an error, the log names its line and
the platform's own template is used, so that a centre still gets its answer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dcc.errors import ConfigurationError
from dcc.messages import mark, mark_plural
from dcc.naming import Action
from dcc.notify.digests import Digest
from dcc.notify.messages import Attachment, NewsKind, Notification
from dcc.notify.outages import OutageEntry, Recovery
from dcc.phases import Status
from dcc.reports.causes.cause import COUNTS, Cause, cause_as_json
from dcc.reports.languages import Catalogue, load_catalogue
from dcc.reports.overdue import LateCentre
from dcc.reports.submissions.labels import OUTCOME_TEXTS
from dcc.reports.submissions.model import Outcome, SubmissionLine
from dcc.reports.submissions.plain_text import example_line
from dcc.reports.submissions.sentences import functions, next_of_line, who_acts
from dcc.reports.submissions.templates import render
from dcc.runtime.json_values import fields_of, json_ready
from dcc.settings import Settings
from dcc.tracker.hostings.owner_notices import Notice, NoticeOutcome
from dcc.tracker.register.centres import CentreEntry
from dcc.vocabulary import EntityKind

_OF_ARCHIVE: Final = {
    NoticeOutcome.HELD: mark(
        "{archive} is named for your centre, and lies on the server of another one. It was not taken. If it is meant, "
        "tell the Data Coordination Centre."
    ),
    NoticeOutcome.DONE: mark(
        "{archive} is taken from the server of another centre, since your centre has delegated to it."
    ),
    NoticeOutcome.WITHDRAWN: mark("{archive} of centre {centre}, which has data of your centre, was withdrawn."),
    NoticeOutcome.DECLINED: mark(
        "{archive} is named for your centre, and lies on the server of another one. The Data Coordination Centre "
        "turned it down: {reason}"
    ),
}
_OF_HOSTED: Final = {
    NoticeOutcome.HELD: mark(
        "{archive} on your server is named for centre {centre}, and was not taken. It is taken when centre {centre} "
        "has it on its own server, or lets your centre act for it. If it is your own, rename it."
    ),
    NoticeOutcome.DECLINED: mark(
        "{archive} on your server is named for centre {centre}. The Data Coordination Centre turned it down: {reason}"
    ),
}
"""For the centre on whose server an archive of another centre lies."""

_ADDED: Final = {
    NoticeOutcome.DONE: mark("Centre {centre} added data of your centre, which has delegated to it: {what}."),
    NoticeOutcome.CONFIRMED: mark(
        "Centre {centre} added data of your centre, and the Data Coordination Centre confirmed that: {what}."
    ),
    NoticeOutcome.HELD: mark(
        "Centre {centre} wants to add data of your centre: {what}. Nothing was added yet. Tell the Data Coordination "
        "Centre whether you agree."
    ),
    NoticeOutcome.REFUSED: mark(
        "Centre {centre} tried to add data of your centre: {what}. Nothing of that was taken in."
    ),
    NoticeOutcome.DECLINED: mark(
        "Centre {centre} wanted to add data of your centre: {what}. Nothing was added: the Data Coordination Centre "
        "turned it down."
    ),
}
_CHANGED_FOR_OWNER: Final = mark("Centre {centre} changed data of your centre, which has delegated to it: {what}.")
_DELETED_FOR_OWNER: Final = mark("Centre {centre} deleted data of your centre, which has delegated to it: {what}.")
_CHANGED: Final = {
    NoticeOutcome.DONE: _CHANGED_FOR_OWNER,
    NoticeOutcome.CONFIRMED: _CHANGED_FOR_OWNER,
    NoticeOutcome.HELD: mark(
        "Centre {centre} wants to change data of your centre: {what}. Nothing was changed yet. Tell the Data "
        "Coordination Centre whether you agree."
    ),
    NoticeOutcome.REFUSED: mark(
        "Centre {centre} tried to change data of your centre: {what}. Nothing of that was taken in."
    ),
    NoticeOutcome.DECLINED: mark(
        "Centre {centre} wanted to change data of your centre: {what}. Nothing was changed: the Data Coordination "
        "Centre turned it down."
    ),
}
_DELETED: Final = {
    NoticeOutcome.DONE: _DELETED_FOR_OWNER,
    NoticeOutcome.CONFIRMED: _DELETED_FOR_OWNER,
    NoticeOutcome.HELD: mark(
        "Centre {centre} wants to delete data of your centre: {what}. Nothing was deleted yet. Tell the Data "
        "Coordination Centre whether you agree."
    ),
    NoticeOutcome.REFUSED: mark(
        "Centre {centre} tried to delete data of your centre: {what}. Nothing of that was deleted."
    ),
    NoticeOutcome.DECLINED: mark(
        "Centre {centre} wanted to delete data of your centre: {what}. Nothing was deleted: the Data Coordination "
        "Centre turned it down."
    ),
}
_OF_DOCUMENT: Final = {Action.ADD: _ADDED, Action.EDIT: _CHANGED, Action.DELETE: _DELETED}


def is_of_host(notice: Notice) -> bool:
    """Whether the notice is for the centre that hosts an archive of another centre."""
    return not notice.file_name and notice.outcome in _OF_HOSTED and notice.owner != notice.centre


def owner_sentence(catalogue: Catalogue, notice: Notice) -> str:
    """A notice as a sentence for the owner of the data, or for the centre that hosts the archive."""
    archive, centre = str(notice.key), notice.centre or "?"
    if not notice.file_name:
        texts = _OF_HOSTED if is_of_host(notice) else _OF_ARCHIVE
        return catalogue.say(texts[notice.outcome], archive=archive, centre=centre, reason=notice.reason or "")
    counted = catalogue.list(
        [
            catalogue.say_plural(*COUNTS[f"{kind}s"], notice.counts[kind])
            for kind in EntityKind
            if notice.counts.get(kind)
        ]
    )
    what = catalogue.say("{document} in {archive}", document=notice.file_name, archive=archive)
    if counted:
        what = catalogue.say("{counted} by {what}", counted=counted, what=what)
    return catalogue.say(_OF_DOCUMENT[notice.key.action][notice.outcome], centre=centre, what=what)


TEMPLATES: Final = Path(__file__).parent / "templates"

_MAX_LINES: Final = 20
_MAX_CAUSES: Final = 10
_MAX_IN_DATA: Final = 200
_OF_LINE: Final = ("outcome", "phase", "status", "documents", "failed")
"""What programs get of a submission that needs somebody."""

log = logging.getLogger(__name__)


@dataclass
class Composer:
    """Makes messages. `sentences` collects what to say of problems with the settings, such as a faulty template."""

    settings: Settings
    sentences: list[str] = field(default_factory=list)
    _catalogues: dict[str | None, Catalogue] = field(default_factory=dict)

    def digest(
        self, message_id: str, digest: Digest, causes: Sequence[Cause], attachments: Sequence[Attachment] = ()
    ) -> Notification:
        """What happened to a centre's submissions, in its language."""
        catalogue = self.catalogue(digest.centre.language)
        bad, accepted = digest.bad, digest.accepted
        shown = [cause for cause in causes if cause.fails] if bad else []
        first = bad[:_MAX_LINES]
        groups = (
            (mark("What needs a correction"), [line for line in first if line.outcome is not Outcome.HELD]),
            (mark("Waiting to be confirmed"), [line for line in first if line.outcome is Outcome.HELD]),
        )
        values = {
            "centre": digest.centre.short_name,
            "centre_name": digest.centre.full_name,
            "session": digest.session,
            "headline": _headline(catalogue, bad, len(accepted)),
            "bad": first,
            "groups": [(heading, lines) for heading, lines in groups if lines],
            "bad_total": len(bad),
            "accepted": accepted[:_MAX_LINES],
            "accepted_total": len(accepted),
            "causes": shown[:_MAX_CAUSES],
            "causes_total": len(shown),
            "attached": len(attachments),
            "proposals": digest.proposals,
        }
        data = {
            "accepted": [str(line.key) for line in accepted[:_MAX_IN_DATA]],
            "accepted_total": len(accepted),
            "failed": [{"zip": str(line.key), **json_ready(fields_of(line, *_OF_LINE))} for line in bad[:_MAX_IN_DATA]],
            "failed_total": len(bad),
            "causes": [cause_as_json(cause, catalogue) for cause in shown[:_MAX_CAUSES]],
            "causes_total": len(shown),
            "proposals": digest.proposals,
        }
        about = {"session": digest.session, "centre": digest.centre.short_name, "attachments": tuple(attachments)}
        return self._message(message_id, NewsKind.DIGEST, "digest", catalogue, values, data, **about)

    def summary(
        self, message_id: str, digests: Sequence[Digest], causes: Mapping[str | None, Sequence[Cause]]
    ) -> Notification:
        """What wranglers have to do after a session."""
        catalogue = self.catalogue(None)
        parts = [
            {
                "centre": digest.centre.short_name,
                "centre_name": digest.centre.full_name,
                "bad": digest.bad[:_MAX_LINES],
                "bad_total": len(digest.bad),
                "causes": [cause for cause in causes.get(digest.centre.short_name, ()) if cause.fails][:_MAX_CAUSES],
            }
            for digest in digests
        ]
        session = digests[0].session
        bad = [line for digest in digests for line in digest.bad]
        proposals = sum(digest.proposals for digest in digests)
        values = {
            "session": session,
            "headline": _headline(catalogue, bad),
            "parts": parts,
            "proposals": proposals,
        }
        return self._message(message_id, NewsKind.SESSION, "summary", catalogue, values, {}, session=session)

    def outages(self, message_id: str, away: Sequence[OutageEntry], back: Mapping[str, Recovery]) -> Notification:
        """New outages, and recoveries by subject."""
        catalogue = self.catalogue(None)
        what = [catalogue.say(trouble.headline, thing=catalogue.tell(trouble.label)) for trouble in away[:1]]
        what += [
            catalogue.say("Back to normal: {thing}", thing=catalogue.tell(recovery.label))
            for recovery in list(back.values())[: 1 - len(what)]
        ]
        more = len(away) + len(back) - 1
        if more:
            what.append(catalogue.say_plural("{number} more change", "{number} more changes", more))
        data = {
            "away": [
                {
                    **fields_of(one, "centre", "over", what="subject"),
                    "name": str(one.label),
                    "reason": str(one.reason),
                }
                for one in away
            ],
            "back": [{"what": subject, "name": str(one.label), "gone": one.gone} for subject, one in back.items()],
        }
        values = {"headline": catalogue.list(what), "away": away, "back": list(back.values())}
        session = next((one.session for one in away), None)
        kind = NewsKind.OUTAGE if away else NewsKind.RECOVERY
        return self._message(message_id, kind, "outage", catalogue, values, data, session=session)

    def missing_addresses(self, message_id: str, centres: Sequence[str]) -> Notification:
        """Centres that submitted something and have no e-mail address."""
        catalogue = self.catalogue(None)
        headline = catalogue.say_plural(
            "A centre has no e-mail address", "{number} centres have no e-mail address", len(centres)
        )
        sentences = [
            catalogue.say(
                "Centre {centre} cannot be told what became of its submissions: give it an address with {command}",
                centre=centre,
                command=f"dcc centre change {centre} --email ADDRESS",
            )
            for centre in centres
        ]
        data = {"centres": list(centres)}
        return self._notice(message_id, NewsKind.ADDRESS, catalogue, headline, sentences, data)

    def late_archives(self, message_id: str, centre: CentreEntry, late: LateCentre) -> Notification:
        """Archives of a centre that failed long ago, in its language."""
        catalogue = self.catalogue(centre.language)
        headline = catalogue.say_plural(
            "{number} archive still waits to be corrected", "{number} archives still wait to be corrected", late.failed
        )
        failed = [str(one.key) for one in late.zips if one.status is Status.FAILED][:_MAX_LINES]
        sentences = [
            catalogue.say("Archive {archive} failed, and nobody has corrected or removed it.", archive=archive)
            for archive in failed
        ]
        remedy = mark(
            "Submit the corrected documents in a new archive. Then remove the archive that failed from your server."
        )
        sentences.append(catalogue.say(remedy))
        data, code = {"failed": failed, "failed_total": late.failed}, centre.short_name
        return self._notice(message_id, NewsKind.OUTAGE, catalogue, f"{code}: {headline}", sentences, data, code)

    def owner_notification(self, message_id: str, owner: CentreEntry, notices: Sequence[Notice]) -> Notification:
        """What archives of other centres did, or tried to do, with data of a centre, in its language."""
        catalogue = self.catalogue(owner.language)
        sentences = [owner_sentence(catalogue, notice) for notice in notices[:_MAX_LINES]]
        left = len(notices) - len(sentences)
        if left > 0:
            sentences.append(catalogue.say_plural("... and {number} more.", "... and {number} more.", left))
        data = {
            "notices": [
                {
                    **json_ready(fields_of(notice, "centre", "outcome", "counts", "done_by", "reason")),
                    "zip": str(notice.key),
                    "document": notice.file_name or None,
                }
                for notice in notices[:_MAX_IN_DATA]
            ]
        }
        text = mark("archives of others concern data of centre {centre}")
        if all(map(is_of_host, notices)):
            text = mark("archives on the server of centre {centre} are named for other centres")
        headline = catalogue.say(text, centre=owner.short_name)
        return self._notice(message_id, NewsKind.OWNER, catalogue, headline, sentences, data, owner.short_name)

    def test(self, message_id: str) -> Notification:
        """A test message."""
        catalogue = self.catalogue(None)
        headline = catalogue.say("a test of notifications")
        sentence = catalogue.say("Notifications arrive here. You need not do anything.")
        return self._notice(message_id, NewsKind.TEST, catalogue, headline, [sentence], {})

    def catalogue(self, code: str | None) -> Catalogue:
        """The catalogue of a language. Uses that of DCC_LANGUAGE, and says so, if there is none."""
        if code not in self._catalogues:
            try:
                self._catalogues[code] = load_catalogue(code, self.settings)
            except ConfigurationError as error:
                if code is None:
                    raise
                self._say(str(error))
                self._catalogues[code] = load_catalogue(None, self.settings)
        return self._catalogues[code]

    def _notice(
        self,
        message_id: str,
        kind: NewsKind,
        catalogue: Catalogue,
        headline: str,
        sentences: Sequence[str],
        data: Mapping[str, Any],
        centre: str | None = None,
    ) -> Notification:
        values = {"headline": headline, "sentences": sentences}
        return self._message(message_id, kind, "notice", catalogue, values, data, centre=centre)

    def _message(
        self,
        message_id: str,
        kind: NewsKind,
        template: str,
        catalogue: Catalogue,
        values: Mapping[str, Any],
        data: Mapping[str, Any],
        **about: Any,
    ) -> Notification:
        filled = {
            **functions(catalogue),
            "language": catalogue.tag,
            "direction": catalogue.direction,
            "outcome_words": OUTCOME_TEXTS,
            "next_of_line": next_of_line,
            "who_acts": who_acts,
            "example_line": example_line,
            **values,
        }
        subject, _, text = self._render(f"{template}.txt", filled).partition("\n")
        subject = self.settings.labelled(subject.strip())
        html = self._render(f"{template}.html", {**filled, "subject": subject})
        text = text.strip("\n") + "\n"
        return Notification(message_id, kind, subject, text, html, data, language=catalogue.code, **about)

    def _render(self, name: str, values: Mapping[str, Any]) -> str:
        name = f"notifications/{name}"
        own = self.settings.templates_directory
        if own is not None:
            try:
                return render(name, values, shipped=TEMPLATES, own=own)
            except ConfigurationError as error:
                self._say(f"{error} Until then the one that comes with the platform is used.")
        return render(name, values, shipped=TEMPLATES)

    def _say(self, sentence: str) -> None:
        if sentence not in self.sentences:
            self.sentences.append(sentence)
            log.warning("%s", sentence)


def _headline(catalogue: Catalogue, bad: Sequence[SubmissionLine], accepted: int = 0) -> str:
    held = sum(line.outcome is Outcome.HELD for line in bad)
    counted = (
        (len(bad) - held, mark_plural("{number} archive needs a correction", "{number} archives need a correction")),
        (held, mark_plural("{number} archive waits to be confirmed", "{number} archives wait to be confirmed")),
        (accepted, mark_plural("{number} archive accepted", "{number} archives accepted")),
    )
    return catalogue.list([catalogue.say_plural(*texts, number) for number, texts in counted if number])
