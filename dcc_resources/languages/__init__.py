"""What people at centres read, in their language: catalogues of translated texts, and dates and numbers by locale."""

from dcc_resources.languages.catalogue import Catalogue
from dcc_resources.languages.loading import known_languages, load_catalogue
from dcc_resources.languages.marking import mark, mark_plural

__all__ = ["Catalogue", "known_languages", "load_catalogue", "mark", "mark_plural"]
