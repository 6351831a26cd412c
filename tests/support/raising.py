"""What stands in for something that fails."""

from collections.abc import Callable
from typing import NoReturn


def raising(error: BaseException | type[BaseException]) -> Callable[..., NoReturn]:
    """A function that raises this, whatever it is given."""

    def fail(*_arguments: object, **_options: object) -> NoReturn:
        raise error

    return fail
