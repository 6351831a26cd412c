"""The page of docs/ that lists all rules, made from the registry; `make pages` writes it."""

from __future__ import annotations

import sys
from typing import Final

from dcc.declarations import ACTOR_NAMES, acting
from dcc.rules.catalogue import CATALOGUE, OF_THE_CHECK
from dcc.rules.checking import ABOUT_SPECIMENS, JUDGED_TOGETHER, LEFT_TO_SESSIONS
from dcc.rules.upload import RuleEntry
from dcc.vocabulary import Actor, Severity

_BEGINNING: Final = """\
# The rules that data must satisfy

A session checks each document against the XML schema, loads it, and judges it by these rules. `dcc rules list` lists
them too; with `--json`, it names the ids that the existing validator uses, which `dcc explain` knows. A **finding**
says where a document breaks a rule: line, element, value, and the reference data that judged it.

| severity | meaning |
| --- | --- |
| warning | worth a look; the document continues |
| error | the document is *data, failed*; the animal or experiment with the error does not count |
| fatal | as an error, and the rules did not look below that element |
| unchecked | the rule could not run; the centre has nothing to do |

A broken rule is an error that the centre corrects, unless brackets say otherwise:

- The severity is the usual one. Faults in the strain or colony of an animal with a status code are warnings.
- *nobody*: the finding clears by itself.
- *needs*: the reference data of the rule. Without them, the session skips the rule and records the finding
  `reference`.

An experiment on an animal with an error does not count, and has no finding of its own. It counts as soon as its
animals are valid.

**Before an upload**, `dcc validate` judges by the same rules. Some rules need other documents: {others}.
`dcc validate` looks for these among the files you name, a session also in earlier submissions. Only a session judges
{upload}. For S6, it alone knows names that the DCC registered.

## How findings go away

- **The centre corrects the data** in an archive of `edit`. A replaced or deleted version no longer counts.
- **The missing data arrive.** Findings of {specimens} clear when the other data arrive or change.
- **Reference data change.** The next session judges documents with findings again. For documents without findings,
  run `dcc data recheck`.
- **Rules of packages come, change or go.** Run `dcc data recheck --all`.
- **You waive the rule**, or lower it to a warning: for a centre, a procedure and a period, or for all.

```console shown
$ dcc rules waive P10 --centre H --procedure IMPC_CSD_003 --until 2027-03-31 --reason "new options are on their way"
$ dcc rules waivers
$ dcc rules revoke 1 --reason "the options are there"
```

A waiver takes effect with the next session, and so does its end. The platform keeps a waived finding
(`dcc data findings --all`), but does not count it. A waived fatal finding still leaves the content below it unchecked.

The history keeps cleared findings, with the document that cleared them. The platform records at most 1,000 findings
of a document that fail it, and 1,000 others. A finding `more` counts the rest.
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
    "Q": "The upload judges these rules, and S13 and E9. What breaks one takes no effect, the rest does. A "
    "document that breaks Q6 is wholly refused in `edit` and `delete`, held in `add`. You cannot waive Q6. "
    "`dcc acknowledge` or a waiver ends these findings, no later archive.",
    "": "These findings say what could not be checked or recorded. You cannot waive them.",
}


def rules_page() -> str:
    """The page, in Markdown."""
    told = {"others": JUDGED_TOGETHER, "specimens": ABOUT_SPECIMENS, "upload": LEFT_TO_SESSIONS}
    parts = [_BEGINNING.format_map({name: ", ".join(sorted(rules)) for name, rules in told.items()})]
    for letter, title in _SECTIONS:
        note = f"{_NOTES[letter]}\n\n" if letter in _NOTES else ""
        entries = [
            rule for rule in CATALOGUE.values() if (rule.id.startswith(letter) if letter else rule.id in OF_THE_CHECK)
        ]
        listed = "".join(f"- `{rule.id}` {rule.demand}{_unusual(rule)}\n" for rule in entries)
        parts.append(f"## {title}\n\n{note}{listed}")
    return "\n".join(parts)


def _unusual(entry: RuleEntry) -> str:
    """In brackets, what sets this rule apart from most."""
    actors = ", ".join(ACTOR_NAMES[actor] for actor in acting(entry.id))
    parts = [] if entry.severity is Severity.ERROR else [entry.severity.value]
    parts += [] if actors == ACTOR_NAMES[Actor.CENTRE] else [actors]
    parts += [f"needs {', '.join(entry.needs)}"] if entry.needs else []
    return f" ({'; '.join(parts)})" if parts else ""


if __name__ == "__main__":
    sys.stdout.write(rules_page())
