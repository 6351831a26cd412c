"""The Celery app of the workers: `celery -A dcc_dagster.celery_worker worker`, with DCC_BROKER as in the session."""

from dagster_celery.config import DEFAULT_CONFIG, dict_wrapper
from dagster_celery.make_app import make_app
from dagster_celery.tasks import create_task

from dcc.errors import ConfigurationError
from dcc.settings import load_settings


def _broker() -> str:
    broker = load_settings().broker
    if broker is None:
        raise ConfigurationError("DCC_BROKER names no broker. Set it to the URL that the sessions have.")
    return broker.get_secret_value()


# A worker takes one batch at a time, so that none waits while another worker is idle.
_CONFIGURATION = DEFAULT_CONFIG | {"worker_prefetch_multiplier": 1}

app = make_app({"broker": _broker(), "backend": _broker(), "config_source": dict_wrapper(_CONFIGURATION)})
execute_plan = create_task(app)
