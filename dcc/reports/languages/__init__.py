"""What people at centres read, in their language: catalogues of translated texts, and dates and numbers by locale."""

from dcc.messages import mark, mark_plural
from dcc.reports.languages.catalogue import Catalogue
from dcc.reports.languages.loading import known_languages, load_catalogue, plain_english

__all__ = ["Catalogue", "known_languages", "load_catalogue", "mark", "mark_plural", "plain_english"]
