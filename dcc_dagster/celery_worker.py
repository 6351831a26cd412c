"""The Celery app of the workers: `celery -A dcc_dagster.celery_worker worker`, with the settings that sessions have."""

import os

from dcc.runtime.processes import importing_much

with importing_much():
    from dagster_celery.config import DEFAULT_CONFIG, dict_wrapper
    from dagster_celery.defaults import broker_transport_options
    from dagster_celery.make_app import make_app
    from dagster_celery.tasks import create_task

    from dcc.settings import load_settings
    from dcc_dagster.executors import broker_of
    from dcc_dagster.instance import dagster_environment

_settings = load_settings()
_broker = broker_of(_settings)
# Dagster's storages are found by these.
os.environ.update(dagster_environment(_settings))
# A batch is confirmed at its end: a worker that confirms it before takes the next one, which waits while others are
# idle. Redis hands out an unconfirmed batch again after a day: its session is over, so that it ends at once.
_transport = broker_transport_options | {"visibility_timeout": 86_400}
_configuration = DEFAULT_CONFIG | {"task_acks_late": True, "broker_transport_options": _transport}

app = make_app({"broker": _broker, "backend": _broker, "config_source": dict_wrapper(_configuration)})
execute_plan = create_task(app)
