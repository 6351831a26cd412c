"""Records the archives of a listing that the source has hosted before: what changed, and what is fetched again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import bindparam, update

from dcc.messages import mark
from dcc.outcomes import ZipKey
from dcc.sources.base import ActionListing, ListedFile, SourceAddress
from dcc.tracker.archive_names import stored_name
from dcc.tracker.hostings.changed_archives import last_hostings, loaded_zips, withdrawn_zips
from dcc.tracker.listings.basis import ListingBasis, RecordedListing
from dcc.tracker.listings.comparing import (
    ATTRIBUTES,
    KnownHosting,
    attributes,
    completed,
    content_differs,
    credible,
    known_hostings,
    manifest_differs,
)
from dcc.tracker.listings.findings import (
    CHANGED,
    MANIFEST_CHANGED,
    TAKEN_ANEW,
    UPLOADING,
    Finding,
    change_message,
    uploading_message,
)
from dcc.tracker.models import FileSourceHasZip, ZipFile
from dcc.tracker.register.delegations import load_delegations
from dcc.tracker.states import NOT_ARRIVED, REFUSED, SET_ASIDE
from dcc.tracker.submission_rows import IDS, change_about

Seen = Mapping[ZipKey, tuple[KnownHosting, ListedFile]]
"""Known archives as they were listed before, and as they are listed now."""


class KnownArchives:
    """Records what one source lists of archives that it has hosted before."""

    def __init__(self, basis: ListingBasis, address: SourceAddress) -> None:
        self._basis: Final = basis
        self._address: Final = address

    def record(self, seen: Seen, result: RecordedListing) -> None:
        """Report changes since the last listing, and record the present listing."""
        content, manifests = self._changed(seen)
        anew, loaded = self._download_anew(seen, content, manifests)
        rows, sizes, uploading_anew = [], [], {}
        for key, (known, file) in seen.items():
            changed = key in content
            present = file if changed else completed(file, known)
            to_download = known.to_download or key in anew
            if present.size_bytes != known.size_bytes and to_download:
                sizes.append({"zip": known.zip_id, "size": present.size_bytes})
            # A change that is expected while an archive is being uploaded is none.
            if key in manifests or (changed and not (known.uploading and known.to_download)):
                kind = TAKEN_ANEW if key in anew else CHANGED if changed else MANIFEST_CHANGED
                facts = {"taken_anew": key in anew, "loaded": known.za_id in loaded}
                text = change_message(self._address, key, known, file, **facts)
                result.changed += 1
                result.findings.append(Finding(kind, key, known.za_id, text))
            # A failed archive may be fetched from here too, after the preferred copy proved bad.
            awaited = to_download or (known.state.failed and (changed or known.uploading))
            unsettled = awaited and self._basis.is_unsettled(present, changed=changed)
            if unsettled:
                result.unsettled[key] = present
                if known.state in NOT_ARRIVED:
                    uploading_anew[key] = known.za_id
            is_noted = known.uploading == unsettled and not (known.gone or known.missed)
            if not is_noted or attributes(present) != attributes(known):
                rows.append(self._row(known.hosting_id, present, uploading=unsettled))
        self._update(rows, sizes)
        again = [uploading_anew[key] for key in self._spoken_for(uploading_anew)]
        self._basis.reopen(again, mark("It is being uploaded again to its file source."))

    def reconsider_names(self, seen: Seen, result: RecordedListing) -> None:
        """Accept archives that were refused and whose names conform now, because their centre was registered."""
        refused = {key: known for key, (known, _) in seen.items() if known.state == REFUSED}
        names = {known.zip_id: name for key, known in refused.items() if (name := self._basis.parse(key.file_name)[0])}
        self._basis.note_names(names)
        self._basis.accept({key: known.za_id for key, known in refused.items() if known.zip_id in names}, result)

    def settle(self, first: Mapping[ZipKey, ListedFile], listings: Sequence[ActionListing] | None) -> list[Finding]:
        """Record a second listing of unsettled archives: see `ListingRecorder.settle`."""
        second = _files_of(listings or ())
        found: list[Finding] = []
        settled: list[int] = []
        rows: list[dict[str, object]] = []
        sizes: list[dict[str, object]] = []
        for key, known in self._hostings(first).items():
            before, now = first[key], second.get(key)
            if now is not None and (now.size_bytes, now.modified) == (before.size_bytes, before.modified):
                settled.append(known.hosting_id)
                continue
            if now is not None:
                rows.append(self._row(known.hosting_id, now, uploading=True))
                sizes.append({"zip": known.zip_id, "size": now.size_bytes})
            message = uploading_message(self._address, key, before, now, looked=listings is not None)
            found.append(Finding(UPLOADING, key, known.za_id, message))
        self.set_columns(settled, uploading_since=None)
        self._update(rows, sizes)
        return found

    def relist(
        self, keys: Collection[ZipKey], listings: Sequence[ActionListing]
    ) -> tuple[dict[ZipKey, ListedFile], list[Finding]]:
        """Record the present listing of these archives: see `ListingRecorder.relist`."""
        listed = _files_of(listings)
        hostings = self._hostings(keys)
        relisted = {key: listed[key] for key in hostings if key in listed}
        unsettled = {key: file for key, file in relisted.items() if self._basis.is_unsettled(file, changed=True)}
        changed = {key: hostings[key] for key, file in relisted.items() if content_differs(hostings[key], file)}
        loaded = loaded_zips(self._basis.connection, [known.za_id for known in changed.values()])
        found = [
            Finding(CHANGED, key, known.za_id, change_message(self._address, key, known, relisted[key], loaded=True))
            for key, known in changed.items()
            if known.za_id in loaded
        ]
        self._update(
            [self._row(hostings[key].hosting_id, file, uploading=key in unsettled) for key, file in relisted.items()]
        )
        return unsettled, found

    def set_columns(self, hosting_ids: Iterable[int], **values: datetime | None) -> None:
        """Change columns of hostings."""
        statement = update(FileSourceHasZip).where(FileSourceHasZip.id.in_(IDS)).values(values)
        change_about(self._basis.connection, statement, hosting_ids)

    def _changed(self, seen: Seen) -> tuple[set[ZipKey], set[ZipKey]]:
        """The archives with another content than before, and those with another manifest."""
        compares = self._address.delta.compares
        content = {
            key
            for key, (known, file) in seen.items()
            if content_differs(known, file) and (compares or known.to_download)
        }
        # A manifest is read with its archive: another one concerns what was fetched, and lets a failed archive pass.
        manifests = {
            key
            for key, (known, file) in seen.items()
            if compares and key not in content and known.was_fetched and manifest_differs(known, file)
        }
        return content, manifests

    def _download_anew(
        self, seen: Seen, content: Collection[ZipKey], manifests: Collection[ZipKey]
    ) -> tuple[set[ZipKey], set[int]]:
        """Let changed archives without uploaded data be downloaded again; returns these, and the ids of the others.

        An archive that failed, or came from this source, is fetched; a withdrawn one is not, because a person decided
        that. Another centre's copy does not undo the own copy's result, unless that centre has a delegation.
        """
        done = {
            key: known
            for key, (known, _) in seen.items()
            if (key in content and known.was_fetched) or (key in manifests and known.state.failed)
        }
        connection, ids = self._basis.connection, [known.za_id for known in done.values()]
        loaded = loaded_zips(connection, ids)
        kept_back = loaded | withdrawn_zips(connection, ids)
        sources = last_hostings(connection, ids)
        spoken_for = self._spoken_for(done)
        anew = {
            key: known.za_id
            for key, known in done.items()
            if known.za_id not in kept_back
            and known.state != SET_ASIDE
            and ((known.state.failed and key in spoken_for) or sources.get(known.za_id) == known.hosting_id)
        }
        self._basis.reopen(anew.values(), mark("The archive changed on its file source after its last download."))
        return set(anew), loaded

    def _spoken_for(self, keys: Collection[ZipKey]) -> set[ZipKey]:
        """The archives that a source's centre may submit: its own, and by delegation."""
        centre = self._address.centre
        owners = {key: name.centre for key in keys if (name := self._basis.parse(key.file_name)[0]) is not None}
        if all(owner == centre for owner in owners.values()):
            return set(owners)
        rights = load_delegations(self._basis.connection).rights_of(centre)
        return {key for key, owner in owners.items() if rights.permit(owner)}

    def _hostings(self, keys: Collection[ZipKey]) -> dict[ZipKey, KnownHosting]:
        """These archives as the source last listed them."""
        known = known_hostings(self._basis.connection, self._address.id, keys)
        return {key: hosting for key, hosting in known.items() if key in keys}

    def _row(self, hosting_id: int, file: ListedFile, *, uploading: bool) -> dict[str, object]:
        """The values of `_UPDATE_HOSTING`."""
        listed = {f"{name}_now": getattr(file, name) for name in ATTRIBUTES}
        return {"hosting": hosting_id, "uploading": self._basis.now if uploading else None} | listed

    def _update(self, rows: Sequence[Mapping[str, object]], sizes: Sequence[Mapping[str, object]] = ()) -> None:
        """Record hostings as they are listed, and the sizes of archives that are still to be downloaded."""
        for statement, values in ((_UPDATE_HOSTING, rows), (_UPDATE_SIZE, sizes)):
            if values:
                self._basis.connection.execute(statement, values)


_UPDATE_HOSTING = (
    update(FileSourceHasZip.__table__)
    .where(FileSourceHasZip.id == bindparam("hosting"))
    .values(
        gone_since=None,
        missed_since=None,
        uploading_since=bindparam("uploading"),
        **{name: bindparam(f"{name}_now") for name in ATTRIBUTES},
    )
)
_UPDATE_SIZE = update(ZipFile.__table__).where(ZipFile.id == bindparam("zip")).values(size_bytes=bindparam("size"))


def _files_of(listings: Sequence[ActionListing]) -> dict[ZipKey, ListedFile]:
    return {
        ZipKey(listing.action, stored_name(file.name)): credible(file) for listing in listings for file in listing.zips
    }
