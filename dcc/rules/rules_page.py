"""The page of docs/ that lists all rules, made from the registry: `python -m dcc.rules.rules_page`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from dcc.declarations import ACTOR_NAMES, acting
from dcc.rules.catalogue import CATALOGUE, UNWAIVABLE, RuleEntry
from dcc.rules.checking import NEEDING_OTHERS
from dcc.rules.upload import UPLOAD_RULES

_BEGINNING: Final = """\
# The rules that data must satisfy

A document that follows the XML schema is uploaded into the QC database and then judged by the rules below, which
`dcc rules list` shows too. Each thing that a rule objects to is a **finding**, with the line, the element's path, the
value at fault, and the reference data that it was judged by.

| severity | meaning |
| --- | --- |
| warning | worth a look; the document goes on |
| error | the document is (data, failed); what the error lies in does not count as valid data |
| fatal | as an error, and nothing below that element was checked |
| unchecked | the check could not be made, which is not the centre's fault |

The table gives the usual severity of each rule: a message may have another one where it says so, such as the faults in
the strain or colony of an animal with a status code, which are warnings. *Who acts* is who has to do something; what
nobody acts on clears by itself. *Known as* are the ids under which the existing validator reports the same. *Needs*
names the reference data without which the rule is skipped; there is then one finding `reference` that says so, and the
next session judges the document again when they are there. So it does with a document that has findings by reference
data which have changed since: nobody need ask for it. One without any keeps its judgement; `dcc data recheck` has it
judged by what is new.

An experiment on an animal in which an error lies does not count either, and has no finding of its own: its `is_valid`
is false, and no data context and no overview has it. `dcc data findings` and the report on its archive say how many
there are. It counts by itself once all of its animals are valid: nobody submits it again.

Before an upload, `dcc validate` judges documents by the same rules, offline, with the reference data that come with the
platform or those of `--reference`. These rules need other documents; it judges them among the files that are given, and
a session by what was submitted before, too: {others}. {upload} are for a session alone.

## How findings go away

* **Submit the data again**, corrected: in an archive of the `edit` folder for what was uploaded. What a later document
  replaces or deletes no longer counts against the one that brought it.
* **Submit what is missing**: a finding of E4, E8, S14 or X8 about another specimen clears when that specimen arrives or
  is edited. Nobody has to submit the archive again.
* **Waive the rule**, or have it only warn: for one centre, one procedure and a period, or for all of them.

```console shown
$ dcc rules waive P10 --centre H --procedure IMPC_CSD_003 --until 2027-03-31 --reason "new options are on their way"
$ dcc rules waivers
$ dcc rules revoke 1 --reason "the options are there"
```

Who waived it, when and why is on record. A waived finding is kept and shown with its waiver, and does not count; one
that is lowered counts as a warning. Neither says that the data are right, and a waived fatal finding does not have the
content below it checked. On what was judged before, a waiver takes effect with the next session after it begins, and
so does its end.

Findings that are gone stay on record too, with the day and the document that cleared them. Of a document with very many
findings, the first 1,000 that fail it and the first 1,000 others are recorded, and a finding `more` counts the rest.
"""

_SECTIONS: Final = (
    ("S", "Specimen documents"),
    ("E", "Experiment documents"),
    ("P", "Procedures and parameters"),
    ("X", "Rules that the existing validator lacks"),
    ("Q", "The upload"),
    ("", "The check itself"),
)
_NOTES: Final = {
    "Q": "These are judged when a document is uploaded, as are S13 and E9: what breaks one takes no effect, and the "
    "rest of the document does. A document that breaks Q6 takes no effect at all: in `edit` and `delete` it is "
    "refused, in `add` it waits until somebody confirms it.",
    "": "These say what could not be checked or recorded, and cannot be waived.",
}


def rules_page() -> str:
    """The page, in Markdown."""
    alone = sorted({*UPLOAD_RULES} - NEEDING_OTHERS)
    parts = [_BEGINNING.format(others=", ".join(sorted(NEEDING_OTHERS)), upload=", ".join(alone))]
    for letter, title in _SECTIONS:
        note = f"{_NOTES[letter]}\n\n" if letter in _NOTES else ""
        parts.append(f"## {title}\n\n{note}{_table(_of_section(letter))}")
    return "\n".join(parts)


def _of_section(letter: str) -> list[RuleEntry]:
    if not letter:
        return [CATALOGUE[rule] for rule in CATALOGUE if rule in UNWAIVABLE]
    return [entry for entry in CATALOGUE.values() if entry.id.startswith(letter)]


def _table(entries: Iterable[RuleEntry]) -> str:
    lines = [
        "| id | severity | what it demands | who acts | known as | needs |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for entry in entries:
        known_as, needs = ", ".join(entry.known_as), ", ".join(entry.needs)
        who = ", ".join(ACTOR_NAMES[one] for one in acting(entry.id))
        lines.append(f"| {entry.id} | {entry.severity.value} | {entry.demand} | {who} | {known_as} | {needs} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(rules_page())
