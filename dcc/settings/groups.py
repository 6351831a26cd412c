"""The groups of settings: each with its section in the configuration file and its title on the page of settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dcc.settings.group import SettingsGroup
from dcc.settings.locations import LocationSettings
from dcc.settings.notifications import NotificationSettings
from dcc.settings.reference import ReferenceSettings
from dcc.settings.sessions import SessionSettings
from dcc.settings.store import StoreSettings
from dcc.settings.workers import WorkerSettings


@dataclass(frozen=True, slots=True)
class Section:
    """A group of settings; the name of a section is not that of a setting."""

    name: str
    title: str
    group: type[SettingsGroup]


SECTIONS: Final = (
    Section("locations", "Databases, files and staging", LocationSettings),
    Section("sessions", "Sessions", SessionSettings),
    Section("reference", "Reference data", ReferenceSettings),
    Section("notifications", "Reports, notifications, logs and metrics", NotificationSettings),
    Section("executors", "Workers", WorkerSettings),
    Section("object_store", "The object store", StoreSettings),
)

SECTION_OF: Final = {name: section.name for section in SECTIONS for name in section.group.model_fields}
"""The section of each setting."""
