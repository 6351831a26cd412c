"""What is recorded of archives: their names, their content, their downloads, and what a crawl notices of them."""

from __future__ import annotations

from typing import Final

from dcc.reports.languages.marking import mark

SENTENCES: Final = (
    # Of names.
    mark("{name} does not follow {shape}. Rename the file and upload it again."),
    mark("{name} does not follow {shape}. Rename the document and submit it in a new archive."),
    mark(
        "{name} is a name of {number} characters; {most} are the most that a file can have. Rename it and submit it "
        "again."
    ),
    mark("{name} names the date {date}, which is not in the calendar. Use the day on which the data were exported."),
    mark(
        "{name} names the increment {increment}, which is not a whole number of up to {most} digits. Number the files "
        "of a day from 0 or 1."
    ),
    mark(
        "{name} names the centre {centre}, which is not registered (codes are case-sensitive). Use the producing "
        "centre's ILAR code, or have the centre registered: dcc centre add."
    ),
    mark(
        "{name} names the kind {kind}, which is neither specimen nor experiment. Name the document after what it holds."
    ),
    # Of their content.
    mark("{archive} cannot be read: {reason}. Make it with the usual deflate method."),
    mark(
        "{archive} has a file name that claims to be UTF-8 and is not. Put a good archive in its place, under the "
        "same name."
    ),
    mark("{archive} is damaged: {reason}. Put a good archive in its place, under the same name."),
    mark(
        "{archive} is damaged: its entry {entry} overlaps the next. Put a good archive in its place, under the same "
        "name."
    ),
    mark(
        "{archive} is refused whole: its entry {entry} {fault}. Put a good archive in its place, under the same name."
    ),
    mark("{archive} {broken}. Put a good archive in its place, under the same name."),
    mark(
        "{archive} is damaged: its directory lists {found} entries where {number} are announced. Put a good archive "
        "in its place, under the same name."
    ),
    mark(
        "{archive} is damaged: no end record where one is announced (byte {number}). Put a good archive in its "
        "place, under the same name."
    ),
    mark("{archive} has a directory of {size} bytes, more than {number} entries need. Split it into several archives."),
    mark("{archive} holds {number} entries or more; {most} are allowed. Split it into several archives."),
    mark("{archive} is encrypted (entry {entry}). Put it in its place without a password, under the same name."),
    mark(
        "{archive} holds {number} entries named {entry}; which one counts cannot be known. Put a good archive in its "
        "place, under the same name."
    ),
    mark("{archive} would unpack to {size} bytes; {most} are allowed. Split it up."),
    mark(
        "{archive} of {packed} bytes would unpack to {size}, more than {ratio} times as much, as zip bombs do. Split "
        "it into several archives, or have DCC_MAX_ARCHIVE_RATIO raised."
    ),
    mark(
        "{archive} holds no .xml document at its top level ({number} other entries). Put a good archive in its "
        "place, under the same name."
    ),
    mark(
        "{archive} holds no .xml document at its top level ({number} other entries; {inside} in folders do not "
        "count). Put a good archive in its place, under the same name."
    ),
    mark("{member}: a folder"),
    mark("{member}: lies in a folder; only documents at the archive's top level are read"),
    mark("{member}: does not end in .xml"),
    mark("{number} more entries: left aside likewise; not listed"),
    mark("{number} of its {documents} documents would be refused."),
    # Of the disk.
    mark(
        "The disk filled up while {archive} was being extracted. Free some space; the next session takes the archive "
        "up again."
    ),
    mark(
        "{archive} unpacks to {size} bytes; {directory} has {free} free, of which {least} must stay so. Free some "
        "space; the next session takes the archive up again."
    ),
    # Of downloads.
    mark(
        "{archive}: what arrived has the MD5 {received}, the centre published {published}. This copy is not fetched "
        "again until it changes. The centre must correct the file or its .md5."
    ),
    mark(
        "{archive} is listed as it was when its MD5 was {received}, and the centre still publishes {published}. It is "
        "not fetched again. The centre must correct the file or its .md5."
    ),
    mark(
        "{archive} is listed as it was when it was damaged. It is not fetched again. The centre must correct the file."
    ),
    mark("{archive} is bad at {count} file sources: {copies}. Put a good archive in its place, under the same name."),
    mark("{archive} has the MD5 {found}, its .md5 says {published}. Correct the file or its .md5 before the upload."),
    mark(
        "{archive}: {received} bytes arrived where {listed} were listed. The file is fetched anew; if this happens "
        "again, ask the centre whether it was still being uploaded."
    ),
    mark(
        "{archive}: more than {most} bytes arrived, and the file source does not tell the size. Ask whoever runs the "
        "server why it does not; DCC_MAX_UNSIZED_BYTES sets the limit."
    ),
    mark(
        "{archive}: the download was given up ({reason}). What arrived is kept; ask whoever runs the server why it is "
        "so slow."
    ),
    mark(
        "{source}: {checksum_file} holds no MD5 checksum. Ask the centre to write it with md5sum {names}, or to "
        "remove it."
    ),
    mark(
        "{source}: {checksum_file} holds several MD5 checksums and not one of {name}. Ask the centre to write it with "
        "md5sum {names}, or to remove it."
    ),
    # Of what a crawl notices.
    mark(
        "{archive} has changed on {source}: it was {size}, modified {modified}, and is {new_size}, modified "
        "{new_modified}. It has not been downloaded yet; the new content is."
    ),
    mark(
        "{archive} has changed on {source}: it was {size}, modified {modified}, and is {new_size}, modified "
        "{new_modified}. Its name was refused."
    ),
    mark(
        "{archive} has changed on {source}: it was {size}, modified {modified}, and is {new_size}, modified "
        "{new_modified}. What was downloaded before stands. If the new content is meant, take it with: dcc retry "
        "{same_archive}"
    ),
    mark(
        "{archive} has changed on {source}: it was {size}, modified {modified}, and is {new_size}, modified "
        "{new_modified}. What was downloaded before stands, with its data. If the new content is meant, withdraw these "
        "with `dcc data undo`, then take it with: dcc retry {same_archive}"
    ),
    mark(
        "{archive} has changed on {source}: it was {size}, modified {modified}, and is {new_size}, modified "
        "{new_modified}. No data of it were uploaded: the new content is taken by itself."
    ),
    mark(
        "{archive} is being uploaded to {source}: it was {size}, modified {modified}, and {new_size}, modified "
        "{new_modified}, a little later. A later session takes it when it is complete."
    ),
    mark(
        "{archive} is being uploaded to {source}: it was {size}, modified {modified}, and was not there a little "
        "later. A later session takes it when it is complete."
    ),
    mark(
        "{archive} may be being uploaded to {source}: it was modified {modified}, and could not be looked at once "
        "more. A later session takes it when it is complete."
    ),
    mark(
        "{directory}: one archive of {source} is gone. Two listings in a row did not show it. If the centre did not "
        "take it away on purpose, ask it to put it back."
    ),
    mark(
        "{directory}: {number} archives of {source} are gone. Two listings in a row did not show them. If the centre "
        "did not take them away on purpose, ask it to put them back."
    ),
    mark(
        "{archive} is {size} on {source} but {new_size} where it was listed before. Only the copy of the preferred "
        "source is taken. Ask the centre which one is right."
    ),
    # Of states.
    mark("The archive is not in staging any more."),
    mark("The archive in staging was damaged, perhaps not when it arrived."),
    mark("The document {document} is not in staging any more as it was extracted."),
    mark("It would change or delete so much that it has to be confirmed."),
    mark("It would change much, or has data of another centre, so that it has to be confirmed."),
    mark("A document that would change much waits to be confirmed."),
    mark("A document that would change much, or has data of another centre, waits to be confirmed."),
    mark(
        "{archive} is named for centre {owner} and lies on a source of {hosts}. It is not taken until a source of "
        "{same_owner} lists the same archive, or {next_owner} delegates: {command}"
    ),
    mark(
        "{archive} is named for centre {owner} and lies on a source of {hosts}. It is not taken until a source of "
        "{same_owner} lists the same archive, or {next_owner} delegates to {host}."
    ),
    mark(
        "{archive} is named for centre {owner} and lies on a source of {hosts}. It is not taken until a source of "
        "{same_owner} lists the same archive, or {next_owner} delegates to {host}. When {last_owner} agrees: "
        "{command}. To turn it down: {other_command}"
    ),
    mark("{archive} is named for centre {owner} and lies on a source of {hosts}. It was turned down: {reason}"),
    mark(
        "{archive} is named for centre {owner} and lies on a source of {hosts}. It was turned down: {reason}. That was "
        "decided by {person} on {date}. To take it back: {command}"
    ),
    mark("Processing was asked for again."),
    mark("The download failed in an earlier session."),
    mark("The archive changed on its file source after its last download."),
    mark("The file name conforms: its centre or the naming convention has been registered since."),
    mark("What it depends on has changed: documents, waivers or reference data."),
    mark("Documents were withdrawn that it has to do with."),
    mark("The QC database does not hold the document."),
    mark("The QC database went away in the document's turn."),
)

PARTS: Final = (
    mark("the pattern {pattern}"),
    mark("is empty"),
    mark("is cut off: its directory is missing"),
    mark("is no zip archive"),
    mark("its directory is cut off"),
    mark("its directory is broken at byte {number}"),
    mark("has a NUL character in its name"),
    mark("has an absolute path"),
    mark("has a backslash in its path"),
    mark("has a path that leads out of the archive's folder"),
    mark("is a link or a device, not a file"),
    mark("the data of an entry end too early"),
    mark("File is not a zip file"),
    mark("Bad CRC-32 for file {entry}"),
    mark("the properties of its LZMA data make no sense"),
    mark("an entry needs {number} bytes of memory to unpack, and {most} are allowed"),
    mark("That compression method is not supported"),
    mark("{number} bytes"),
    mark("of unknown size"),
    mark("at an unknown time"),
)

PART_NAMES: Final = frozenset({"shape", "fault", "broken", "reason", "size", "new_size", "modified", "new_modified"})
FROM_THE_END: Final[frozenset[str]] = frozenset()
