"""What a person may want of an archive, and whether it is possible, in the model of submissions."""

from tests.histories.model import Model
from tests.histories.records import SET_ASIDE
from tests.histories.submission_histories import Wish


def fulfil(model: Model, wish: Wish, number: int) -> bool:
    """Do what a person wants; whether it is possible."""
    record = model.records[number]
    match wish:
        case Wish.HOLD:
            is_possible = not record.on_hold and not record.state.startswith("qc")
            record.on_hold |= is_possible
        case Wish.RELEASE:
            is_possible, record.on_hold = record.on_hold, False
        case Wish.CANCEL:
            is_possible = not model.is_loaded(record) and not record.state.endswith("cancelled")
            if is_possible:
                model.open_again(record)
                record.state = SET_ASIDE
        case Wish.ACKNOWLEDGE:
            is_possible = not record.acknowledged and record.state.endswith("failed")
            record.acknowledged |= is_possible
        case Wish.REVOKE:
            is_possible, record.acknowledged = record.acknowledged, False
        case Wish.RETRY:
            return _retry(model, number)
    return is_possible


def _retry(model: Model, number: int) -> bool:
    record = model.records[number]
    there = model.lying.get(number)
    if there is not None:
        record.gone = record.missed = False
    listed = record.time if there is None else there[1]
    # What would be left out of what is loaded is another story.
    if model.is_loaded(record) and model.left_out == "upload":
        return False
    if record.on_hold or not record.is_there or (model.is_loaded(record) and listed != record.fetched):
        return True
    if there is not None:
        record.submission, record.time = there
    model.open_again(record)
    model.take(number)
    return True
