"""Workers of a session or a replay that are functions of this process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dcc.session.batches.exchange import Exchange


@dataclass
class WorkersHere:
    """Workers that `prepare` batches one after the other, each by the work and its name; see `Workers`.

    `before` is called before each batch, and `after` after the last. `given` has what came of each batch.
    """

    prepare: Callable[[str, str], int]
    before: Callable[[Exchange], object] = lambda _: None
    after: Callable[[Exchange], object] = lambda _: None
    given: dict[str, int] = field(default_factory=dict)

    def run(self, results: Exchange, names: Sequence[str], check: Callable[[], object]) -> None:
        for name in names:
            self.before(results)
            self.given[name] = self.prepare(results.work, name)
            check()
        self.after(results)
