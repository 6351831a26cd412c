"""What people at centres read, in their language: catalogues of translated texts, and dates and numbers by locale."""

from dcc.reports.languages.catalogue import Catalogue
from dcc.reports.languages.loading import known_languages, load_catalogue
from dcc.reports.languages.marking import mark, mark_plural

__all__ = ["Catalogue", "known_languages", "load_catalogue", "mark", "mark_plural"]
